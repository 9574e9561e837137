//! `GET /metrics`: metrics of the whole deployment for Prometheus.
//!
//! Each metric is read from a durable store: PostgreSQL, through the function `batches`, the
//! attributes of SQS queues, or the usage table. Counters in memory would not do, because an
//! execution environment sees only its own requests.

mod counters;
mod queues;
mod snapshot;

pub(crate) use self::queues::{QueueUrls, Queues};

use std::error::Error;
use std::time::Duration;

use access::Scope;
use api::{Problem, Query, Reason, Reply};
use attempt::Moment;
use futures_util::future::OptionFuture;
use lambda_http::Request;
use runtime::metrics::{BUILD_INFO, CONTENT_TYPE, SNAPSHOT_AGE, Scrape, UP};

use self::snapshot::{LastSamples, Snapshots};
use crate::Status;

/// Time limit for reading one source of the metrics: the database, the queues or the usage table.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Time limit of the response to `GET /metrics`, including authentication. docs/metrics.md promises
/// less than 2 s.
const LIMIT: Duration = Duration::from_millis(1900);
const _: () = assert!(TIMEOUT.as_millis() < LIMIT.as_millis() && LIMIT.as_millis() < 2000);

/// State of `GET /metrics`: the client of the queues, the last snapshot of all metrics, and the
/// last samples of each source.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) queues: Option<Queues>,
    pub(crate) snapshots: Snapshots,
    /// Last samples of the ingest's database, which are returned while it cannot be read.
    /// `last_queues` and `last_usage` are the same for the queues and the usage table.
    pub(crate) last_database: LastSamples,
    pub(crate) last_queues: LastSamples,
    pub(crate) last_usage: LastSamples,
}

impl Status {
    /// Responds to `GET /metrics` with the last snapshot of all metrics, or with a new one if that
    /// is too old.
    pub(crate) async fn metrics(&self, request: &Request) -> Result<Reply, Problem> {
        within(LIMIT, self.scraped(request)).await
    }

    async fn scraped(&self, request: &Request) -> Result<Reply, Problem> {
        let principal = access::authenticate(&self.access, request.headers()).await?;
        principal.require_any(&[Scope::OpsRead])?;
        Query::parse(request.uri().query().unwrap_or_default(), &[])?;
        let (mut scrape, age) = self.metrics.snapshots.current(self.snapshot()).await;
        scrape.put(SNAPSHOT_AGE, &[], age.as_secs_f64());
        Ok(Reply::new(200, CONTENT_TYPE, scrape.text()))
    }

    /// Reads the metrics of all sources that the deployment has.
    async fn snapshot(&self) -> Scrape {
        let Metrics { queues, last_database, last_queues, last_usage, .. } = &self.metrics;
        let database = self.ingest.as_ref();
        let database = database.map(|ingest| part(TIMEOUT, "database", last_database, ingest.metrics()));
        let queues = queues.as_ref().map(|queues| part(TIMEOUT, "queues", last_queues, queues.metrics()));
        let usage = part(TIMEOUT, "usage", last_usage, counters::counters(&self.usage));
        let (database, queues, usage) =
            tokio::join!(OptionFuture::from(database), OptionFuture::from(queues), usage);
        let mut scrape = Scrape::default();
        for part in [database, queues, Some(usage)].into_iter().flatten() {
            scrape.extend(part);
        }
        scrape.put(BUILD_INFO, &[env!("COMMIT"), env!("CARGO_PKG_VERSION")], 1);
        scrape
    }
}

/// Returns the response, or the problem `STORE_UNAVAILABLE` if it is not there within the time
/// limit.
async fn within(
    limit: Duration,
    response: impl Future<Output = Result<Reply, Problem>>,
) -> Result<Reply, Problem> {
    tokio::time::timeout(limit, response).await.unwrap_or_else(|_| {
        Err(Problem::new(Reason::StoreUnavailable, "the metrics could not be read in time; try again"))
    })
}

/// Reads the samples of one source of the metrics within the time limit, and adds a sample that
/// says whether this succeeded. If it failed, the source's last samples are returned until they are
/// 60 s old.
async fn part<E: Into<Box<dyn Error + Send + Sync>>>(
    timeout: Duration,
    name: &'static str,
    last: &LastSamples,
    read: impl Future<Output = Result<Scrape, E>>,
) -> Scrape {
    let began = Moment::now();
    let found: Result<Scrape, Box<dyn Error + Send + Sync>> = match tokio::time::timeout(timeout, read).await
    {
        Ok(found) => found.map_err(Into::into),
        Err(_) => Err("it did not answer in time".into()),
    };
    if let Ok(scrape) = &found {
        last.keep(scrape, began);
    }
    let is_up = u8::from(found.is_ok());
    let mut scrape = found.unwrap_or_else(|error| {
        let error: &(dyn Error + 'static) = &*error;
        tracing::warn!(
            event_type = "metrics.part_failed",
            part = name,
            error,
            "the part {name} of the metrics cannot be read: {error}"
        );
        last.get().unwrap_or_default()
    });
    scrape.put(UP, &[name], is_up);
    scrape
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use runtime::metrics::CHUNKS_PENDING;

    use super::*;

    #[tokio::test]
    async fn a_part_that_fails_keeps_its_last_samples_for_a_minute_and_is_said_to_be_down() {
        let last = LastSamples::default();
        let failed = || part(TIMEOUT, "database", &last, ready(Err("no such function")));
        let mut pending = Scrape::default();
        pending.put(CHUNKS_PENDING, &[], 3);
        let up = part(TIMEOUT, "database", &last, ready(Ok::<_, String>(pending))).await.text();
        assert!(up.contains("\nintegrahub_chunks_pending 3\n"), "{up}");
        assert!(up.ends_with("\nintegrahub_up{part=\"database\"} 1\n"), "{up}");
        let down = failed().await.text();
        assert_eq!(down, up.replace("\"} 1\n", "\"} 0\n"));
        last.set_age(Duration::from_secs(60));
        let left_out = failed().await.text();
        assert!(left_out.ends_with("\nintegrahub_up{part=\"database\"} 0\n"), "{left_out}");
        assert_eq!(left_out.lines().count(), 3, "{left_out}");
    }

    #[tokio::test]
    async fn a_part_that_does_not_answer_in_time_is_down() {
        let never = std::future::pending::<Result<Scrape, String>>();
        let down = part(Duration::from_millis(10), "database", &LastSamples::default(), never).await.text();
        assert!(down.ends_with("\nintegrahub_up{part=\"database\"} 0\n"), "{down}");
    }

    #[tokio::test]
    async fn a_response_that_takes_too_long_is_given_up_with_503() {
        let late = within(Duration::from_millis(10), std::future::pending()).await.unwrap_err();
        assert_eq!((late.reason, late.reason.status()), (Reason::StoreUnavailable, 503));
    }
}
