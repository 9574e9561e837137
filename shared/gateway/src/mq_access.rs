//! The call to `mq-access`: one attempt, because a second would do the work twice under one claim.

use std::time::Duration;

use api::{Problem, Reason, Reply};
use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::{DisplayErrorContext, SdkError};
use aws_sdk_lambda::primitives::Blob;

use crate::budget::{Budget, NoLease};
use crate::protocol::WorkOrder;

/// Lambda's limit for a synchronous invocation, either way.
const MAX_PAYLOAD: usize = 6 * 1024 * 1024;

/// Invokes the function that speaks to brokers.
#[derive(Clone, Debug)]
pub struct MqAccess {
    lambda: Client,
    function: String,
    budget: Option<Budget>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NotAnswered {
    /// The work certainly never started.
    #[error("mq-access was not started: {0}")]
    NotStarted(String),
    /// Nothing was started, and trying again would not change that.
    #[error("an order of {0} bytes is more than Lambda carries")]
    TooLarge(usize),
    /// It was not even sent.
    #[error("the order was not sent: {0}")]
    NotSent(#[from] NoLease),
    #[error("mq-access did not answer in time")]
    TimedOut,
    /// It may have started, and may even have finished.
    #[error("mq-access gave no answer: {0}")]
    Lost(String),
}

impl NotAnswered {
    /// Logs it: what a tenant brought upon itself is no failure of the deployment.
    pub(crate) fn log(&self) {
        if matches!(self, Self::NotSent(NoLease::Exhausted)) {
            tracing::warn!(event_type = "tenant.over_budget", "the tenant has too many orders under way");
        } else {
            tracing::error!(event_type = "mq_access.unanswered", error = %self, "an order got no answer");
        }
    }

    /// The problem for work that changes nothing.
    pub fn as_problem(&self) -> Problem {
        match self {
            Self::NotStarted(_) => {
                Problem::new(Reason::Busy, "the gateway is at its limit of broker connections")
            }
            Self::TooLarge(_) => {
                Problem::new(Reason::MaxPayloadExceeded, "the request is more than one invocation can carry")
            }
            Self::NotSent(NoLease::Exhausted) => {
                let detail = "the tenant has as many requests to brokers under way as it may have at once";
                Problem::new(Reason::TenantRateLimit, detail).retry_after(1)
            }
            Self::NotSent(NoLease::Unavailable(_)) => Problem::new(
                Reason::StoreUnavailable,
                "the tenant's requests under way cannot be counted now",
            ),
            Self::TimedOut => Problem::new(Reason::BrokerTimeout, "the broker did not answer in time"),
            Self::Lost(_) => Problem::new(Reason::Busy, "the function that speaks to brokers gave no answer"),
        }
    }
}

impl MqAccess {
    /// Above the function's own time-out, so that its answer is always the one that counts.
    pub const PATIENCE: Duration = Duration::from_millis(25_500);

    /// `lambda` makes a single attempt and waits for [`Self::PATIENCE`].
    pub fn new(lambda: Client, function: String) -> Self {
        Self { lambda, function, budget: None }
    }

    /// The same, with a limit to each tenant's orders.
    #[must_use]
    pub fn with_budget(self, budget: Option<Budget>) -> Self {
        Self { budget, ..self }
    }

    /// # Errors
    /// When there is no answer; [`NotAnswered`] tells whether the work may have been done.
    pub async fn execute(&self, order: &WorkOrder) -> Result<Reply, NotAnswered> {
        let Some(budget) = &self.budget else { return self.invoke(order).await };
        let lease = budget.lease(&order.tenant).await?;
        let answer = self.invoke(order).await;
        // Otherwise it may be under way still.
        if matches!(answer, Ok(_) | Err(NotAnswered::NotStarted(_) | NotAnswered::TooLarge(_))) {
            budget.release(&order.tenant, lease).await;
        }
        answer
    }

    async fn invoke(&self, order: &WorkOrder) -> Result<Reply, NotAnswered> {
        let payload =
            serde_json::to_vec(order).map_err(|error| NotAnswered::NotStarted(error.to_string()))?;
        if payload.len() > MAX_PAYLOAD {
            return Err(NotAnswered::TooLarge(payload.len()));
        }
        let invoked = self
            .lambda
            .invoke()
            .function_name(&self.function)
            .payload(Blob::new(payload))
            .send()
            .await
            .map_err(|error| {
                let text = || DisplayErrorContext(&error).to_string();
                match &error {
                    SdkError::TimeoutError(_) => NotAnswered::TimedOut,
                    SdkError::ConstructionFailure(_) => NotAnswered::NotStarted(text()),
                    // Lambda refuses with 4xx before it starts anything: throttled, not permitted, not there.
                    SdkError::ServiceError(service) if service.raw().status().is_client_error() => {
                        NotAnswered::NotStarted(text())
                    }
                    _ => NotAnswered::Lost(text()),
                }
            })?;
        let answer = invoked.payload().map(Blob::as_ref).unwrap_or_default();
        if let Some(error) = invoked.function_error() {
            let timed_out = String::from_utf8_lossy(answer).contains("timed out");
            return Err(if timed_out { NotAnswered::TimedOut } else { NotAnswered::Lost(error.to_owned()) });
        }
        if answer.len() > MAX_PAYLOAD {
            return Err(NotAnswered::Lost(format!("an answer of {} bytes is too large", answer.len())));
        }
        serde_json::from_slice(answer).map_err(|error| NotAnswered::Lost(error.to_string()))
    }

    /// Whether the function is there and may be invoked; nothing runs.
    ///
    /// # Errors
    /// When it is not.
    pub async fn probe(&self) -> Result<(), NotAnswered> {
        let probe = self
            .lambda
            .invoke()
            .function_name(&self.function)
            .invocation_type(aws_sdk_lambda::types::InvocationType::DryRun)
            .send()
            .await;
        probe.map(|_| ()).map_err(|error| NotAnswered::NotStarted(DisplayErrorContext(&error).to_string()))
    }
}
