//! Readiness of the stores and functions that requests depend on.

use std::borrow::Cow;
use std::error::Error;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Time limit for a dependency to respond. After it, the dependency counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for a dependency that checks further dependencies itself. It is longer, so that the
/// dependency can report which of those is unreachable.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(4);

/// Result of checking a dependency of the API, such as a store. Field `name` does not reveal the
/// name of the table, bucket or function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Name of the dependency, as `Readiness` in the OpenAPI document lists it.
    pub name: Cow<'static, str>,
    /// True if the dependency responded in time and without an error.
    pub ok: bool,
    /// Milliseconds until the response, rounded to a tenth.
    pub latency_ms: f64,
}

/// Results of checking all dependencies of one function, as the function reports them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dependencies {
    /// Dependencies in the order of the response.
    pub dependencies: Vec<Dependency>,
}

impl Dependency {
    /// Checks a dependency by running `probe` within two seconds. The reason of a failure is only
    /// logged.
    pub async fn check<E: Into<Box<dyn Error + Send + Sync>>>(
        name: &'static str,
        probe: impl Future<Output = Result<(), E>>,
    ) -> Self {
        Self::within(TIMEOUT, name, probe).await
    }

    /// Checks a dependency that itself [checks](Self::check) further ones before it responds,
    /// within four seconds.
    pub async fn check_with_others<E: Into<Box<dyn Error + Send + Sync>>>(
        name: &'static str,
        probe: impl Future<Output = Result<(), E>>,
    ) -> Self {
        Self::within(PATIENCE_WITH_OTHERS, name, probe).await
    }

    async fn within<E: Into<Box<dyn Error + Send + Sync>>>(
        timeout: Duration,
        name: &'static str,
        probe: impl Future<Output = Result<(), E>>,
    ) -> Self {
        let started = Instant::now();
        let answer: Result<(), Box<dyn Error + Send + Sync>> =
            match tokio::time::timeout(timeout, probe).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err("it did not answer in time".into()),
            };
        let latency_ms = (started.elapsed().as_secs_f64() * 10_000.0).round() / 10.0;
        if let Err(error) = &answer {
            let error: &(dyn Error + 'static) = &**error;
            tracing::error!(
                event_type = "readiness.failed",
                dependency = name,
                error,
                "{name} does not answer"
            );
        }
        Self { name: name.into(), ok: answer.is_ok(), latency_ms }
    }
}
