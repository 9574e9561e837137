//! Invokes `mq-access` once for an order. There is no second attempt, because it might do the work
//! twice under one claim.

use std::error::Error;
use std::time::{Duration, Instant};

use api::{Problem, Reason, Reply};
use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::SdkError;
use aws_sdk_lambda::operation::invoke::InvokeError as Refusal;
use aws_sdk_lambda::primitives::Blob;
use orders::{UNREADABLE, WorkOrder};
use serde::Deserialize;

use crate::order_limit::OrderLimitError;

/// Lambda's limit in bytes for the payload and the response of a synchronous invocation.
const MAX_PAYLOAD: usize = 6 * 1024 * 1024;

/// Error type that Lambda reports for a function that reached its time-out.
const TIMED_OUT: &str = "Sandbox.Timedout";

/// Payload that Lambda returns for a function that ended without a response. `errorType` may be
/// absent after a time-out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionError {
    error_type: Option<String>,
}

/// Client that invokes `mq-access`, the function that connects to brokers.
#[derive(Clone, Debug)]
pub struct MqAccess {
    lambda: Client,
    function: String,
}

/// Reason why an order (work sent to `mq-access`) has no response.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum InvokeError {
    /// Lambda did not start the function, so the work was not started.
    #[error("mq-access was not started")]
    NotStarted(#[source] Box<dyn Error + Send + Sync>),
    /// The order has this number of bytes, which is too large for an invocation, so nothing was
    /// started. A retry would fail again.
    #[error("an order of {0} bytes is more than Lambda carries")]
    TooLarge(usize),
    /// `mq-access` has another version and cannot read the order, so nothing was started.
    #[error("mq-access could not read the order")]
    Unreadable,
    /// The tenant's limit on orders in progress refused the order, so it was not sent.
    #[error("the order was not sent")]
    NotSent(#[from] OrderLimitError),
    #[error("mq-access did not answer in time")]
    TimedOut,
    /// The invocation of `mq-access` failed without a response. The work may have started, and may
    /// have finished.
    #[error("mq-access gave no answer")]
    Lost(#[source] Box<dyn Error + Send + Sync>),
}

impl InvokeError {
    /// Logs the failure: as a warning if the tenant is over its limit, otherwise as an error.
    pub(crate) fn log(&self) {
        if matches!(self, Self::NotSent(OrderLimitError::Exhausted)) {
            tracing::warn!(event_type = "tenant.over_budget", "the tenant has too many orders in progress");
        } else {
            let error: &dyn Error = self;
            tracing::error!(event_type = "mq_access.unanswered", error, "no response of mq-access: {error}");
        }
    }

    /// True if the work may have been done or may still be in progress. If false, a retry is safe.
    pub(crate) const fn may_have_run(&self) -> bool {
        match self {
            Self::NotStarted(_) | Self::TooLarge(_) | Self::Unreadable | Self::NotSent(_) => false,
            Self::TimedOut | Self::Lost(_) => true,
        }
    }

    /// Returns the error for a function that ended without a response. `kind` is Lambda's name for
    /// the failure, `payload` its description, and `took` the duration of the call. Without an
    /// error type in the payload, the function timed out if the call took at least
    /// [`MqAccess::TIME_OUT`], since Lambda ends no function earlier.
    fn of_function_error(kind: &str, payload: &[u8], took: Duration) -> Self {
        let error = serde_json::from_slice(payload).map(|FunctionError { error_type }| error_type);
        match error {
            Ok(Some(error_type)) if error_type == TIMED_OUT => Self::TimedOut,
            Ok(Some(error_type)) if error_type == UNREADABLE => Self::Unreadable,
            Ok(None) if took >= MqAccess::TIME_OUT => Self::TimedOut,
            error => Self::Lost(format!("{kind} {}", error.ok().flatten().unwrap_or_default()).into()),
        }
    }

    /// Returns the problem response for work that changes nothing. A change whose response was lost
    /// needs another problem, because it may have been done.
    pub(crate) fn as_problem(&self) -> Problem {
        match self {
            Self::NotStarted(_) => {
                let detail = "the function that speaks to brokers could not be started and did nothing, \
                              mostly because the gateway is at its limit of broker connections";
                Problem::new(Reason::Busy, detail)
            }
            Self::Unreadable => {
                let detail = "the function that speaks to brokers could not read the work order and did \
                              nothing, which may happen while a new version is deployed";
                Problem::new(Reason::Busy, detail)
            }
            Self::TooLarge(_) => {
                Problem::new(Reason::MaxPayloadExceeded, "the request is more than one invocation can carry")
            }
            Self::NotSent(OrderLimitError::Exhausted) => {
                let detail = "the tenant has as many requests to brokers under way as it may have at once";
                Problem::new(Reason::TenantRateLimit, detail).retry_after(1)
            }
            Self::NotSent(OrderLimitError::Unavailable(_)) => Problem::new(
                Reason::StoreUnavailable,
                "the tenant's requests under way cannot be counted now",
            ),
            Self::TimedOut => Problem::new(Reason::BrokerTimeout, "the broker did not answer in time"),
            Self::Lost(_) => Problem::new(Reason::Busy, "the function that speaks to brokers gave no answer"),
        }
    }
}

impl MqAccess {
    /// Time-out of the function `mq-access`, equal to that in `template.yaml`.
    pub const TIME_OUT: Duration = Duration::from_secs(24);
    /// Maximum time to wait for a response. It is longer than the time-out of `mq-access`, so that
    /// a response is never missed.
    pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(25_500);

    /// Creates the client. `lambda` must make a single attempt and wait for
    /// [`Self::RESPONSE_TIMEOUT`]; `function` is the name or the ARN of `mq-access`.
    #[must_use]
    pub fn new(lambda: Client, function: String) -> Self {
        Self { lambda, function }
    }

    /// Sends an order and returns the response.
    ///
    /// # Errors
    /// If there is no response. [`InvokeError`] tells whether the work may have been done.
    pub async fn execute(&self, order: &WorkOrder) -> Result<Reply, InvokeError> {
        let payload = serde_json::to_vec(order).map_err(|error| InvokeError::NotStarted(error.into()))?;
        if payload.len() > MAX_PAYLOAD {
            return Err(InvokeError::TooLarge(payload.len()));
        }
        let begin = Instant::now();
        let invoked = self
            .lambda
            .invoke()
            .function_name(&self.function)
            .payload(Blob::new(payload))
            .send()
            .await
            .map_err(|error| match &error {
                SdkError::TimeoutError(_) => InvokeError::TimedOut,
                SdkError::ConstructionFailure(_) => InvokeError::NotStarted(error.into()),
                // Lambda refuses with 4xx before it starts any work: throttled, not permitted, or
                // no such function.
                SdkError::ServiceError(service)
                    if service.raw().status().is_client_error() || lacks_network(service.err()) =>
                {
                    InvokeError::NotStarted(error.into())
                }
                _ => InvokeError::Lost(error.into()),
            })?;
        let answer = invoked.payload().map(Blob::as_ref).unwrap_or_default();
        if let Some(error) = invoked.function_error() {
            return Err(InvokeError::of_function_error(error, answer, begin.elapsed()));
        }
        if answer.len() > MAX_PAYLOAD {
            return Err(InvokeError::Lost(
                format!("an answer of {} bytes is too large", answer.len()).into(),
            ));
        }
        attempt::malformed::from_slice(answer).map_err(|error| InvokeError::Lost(error.into()))
    }

    /// Checks with a dry run that `mq-access` exists and may be invoked, without running it.
    ///
    /// # Errors
    /// If it does not exist or may not be invoked.
    pub async fn probe(&self) -> Result<(), InvokeError> {
        let probe = self
            .lambda
            .invoke()
            .function_name(&self.function)
            .invocation_type(aws_sdk_lambda::types::InvocationType::DryRun)
            .send()
            .await;
        probe.map(drop).map_err(|error| InvokeError::NotStarted(error.into()))
    }
}

/// True if Lambda reports (HTTP 502) that it could not attach a new environment to the VPC, so that
/// no code of the function ran.
fn lacks_network(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Ec2AccessDeniedException(_)
            | Refusal::Ec2ThrottledException(_)
            | Refusal::Ec2UnexpectedException(_)
            | Refusal::EniLimitReachedException(_)
            | Refusal::EniNotReadyException(_)
            | Refusal::InvalidSecurityGroupIdException(_)
            | Refusal::InvalidSubnetIdException(_)
            | Refusal::ResourceNotReadyException(_)
            | Refusal::SubnetIpAddressLimitReachedException(_)
    )
}

#[cfg(test)]
mod tests {
    use aws_sdk_lambda::types::error::{ServiceException, SubnetIpAddressLimitReachedException};

    use super::*;

    #[test]
    fn an_order_that_could_not_be_read_was_not_executed() {
        let payload = br#"{"errorType":"Malformed","errorMessage":"/work: the value is not allowed"}"#;
        let unread = InvokeError::of_function_error("Unhandled", payload, Duration::from_millis(5));
        assert!(matches!(unread, InvokeError::Unreadable) && !unread.may_have_run(), "{unread:?}");
        assert_eq!(unread.as_problem().reason, Reason::Busy);
    }

    #[test]
    fn a_function_without_a_network_was_not_started() {
        let full = SubnetIpAddressLimitReachedException::builder().build();
        assert!(lacks_network(&Refusal::SubnetIpAddressLimitReachedException(full)));
        assert!(!lacks_network(&Refusal::ServiceException(ServiceException::builder().build())));
    }

    #[test]
    fn a_time_out_is_known_by_its_type_and_not_by_its_words() {
        let of = |payload: &str| {
            InvokeError::of_function_error("Unhandled", payload.as_bytes(), MqAccess::RESPONSE_TIMEOUT)
        };
        let timed_out = r#"{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: 7 Error: Task timed out after 25.00 seconds"}"#;
        assert!(matches!(of(timed_out), InvokeError::TimedOut));
        for other in [
            r#"{"errorType":"Runtime.ExitError","errorMessage":"the secret timed out"}"#,
            r#"{"errorType":"","errorMessage":"timed out"}"#,
            "timed out",
            "",
        ] {
            assert!(matches!(of(other), InvokeError::Lost(_)), "{other}");
        }
    }

    #[test]
    fn an_error_without_a_type_is_a_time_out_if_it_took_that_long() {
        let of = |took| {
            let payload =
                br#"{"errorMessage":"2026-11-21T10:00:00.123Z 7 Task timed out after 24.00 seconds"}"#;
            InvokeError::of_function_error("Unhandled", payload, took)
        };
        assert!(matches!(of(MqAccess::TIME_OUT), InvokeError::TimedOut));
        assert!(matches!(of(MqAccess::TIME_OUT - Duration::from_millis(1)), InvokeError::Lost(_)));
    }

    #[test]
    fn a_client_reads_nothing_of_why_there_is_no_answer() {
        let theirs = || Box::<dyn Error + Send + Sync>::from("theirs");
        for unanswered in [
            InvokeError::NotStarted(theirs()),
            InvokeError::TooLarge(7),
            InvokeError::Unreadable,
            InvokeError::NotSent(OrderLimitError::Exhausted),
            InvokeError::NotSent(OrderLimitError::Unavailable(theirs())),
            InvokeError::TimedOut,
            InvokeError::Lost(theirs()),
        ] {
            let problem = unanswered.as_problem();
            assert!(!problem.to_reply(&api::TraceId::new()).body.contains("theirs"), "{problem}");
        }
    }
}
