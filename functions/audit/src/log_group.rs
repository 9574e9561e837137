//! Log group of the audit events. Writing to it takes two actions of CloudWatch Logs, which are
//! called without that service's SDK crate.

use std::time::Duration;

use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use bytes::Bytes;
use runtime::{ActionError, Actions, Sdk};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::calls::Line;

/// Time limit of one attempt of a `PutLogEvents` call, which carries up to a megabyte.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Maximum number of attempts at a call to CloudWatch Logs. If all fail, the invocation fails, and
/// Lambda repeats it.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);
/// Error code for a log stream that exists already.
const EXISTS: &str = "ResourceAlreadyExistsException";
/// Error code for a log stream or log group that does not exist.
const MISSING: &str = "ResourceNotFoundException";

/// Writer to the log stream of one execution environment, in the log group of audit events.
#[derive(Debug)]
pub struct LogGroup {
    actions: Actions,
    group: String,
    stream: String,
    /// Flag that is set once the log stream exists.
    is_made: OnceCell<()>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Put<'a> {
    log_group_name: &'a str,
    log_stream_name: &'a str,
    log_events: &'a [Line],
}

impl LogGroup {
    /// Creates the writer. The log stream is created before the first write.
    #[must_use]
    pub fn new(sdk: &Sdk, group: String, stream: String) -> Self {
        let limits = TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT).build();
        let retries = RetryConfig::standard().with_max_attempts(ATTEMPTS).with_initial_backoff(PAUSE);
        let config = sdk.standard().to_builder().timeout_config(limits).retry_config(retries).build();
        Self { actions: Actions::new(&config), group, stream, is_made: OnceCell::new() }
    }

    /// Writes events in one call. The caller has ordered them by time, and keeps them within the
    /// limits of a call. Events that CloudWatch Logs rejects as too old or too new are only
    /// reported in the log, because a retry would not help.
    pub(crate) async fn put(&self, lines: &[Line]) -> Result<(), ActionError> {
        self.is_made.get_or_try_init(|| self.make_stream()).await?;
        let put = Put { log_group_name: &self.group, log_stream_name: &self.stream, log_events: lines };
        let answer = match self.call("PutLogEvents", &put).await {
            // Somebody removed the stream. Without a new one the environment could write no more.
            Err(ActionError::Refused { code, .. }) if code == MISSING => {
                self.make_stream().await?;
                self.call("PutLogEvents", &put).await?
            }
            answer => answer?,
        };
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        if let Some(rejected) = answer.get("rejectedLogEventsInfo").filter(|rejected| !rejected.is_null()) {
            let lines = lines.len();
            tracing::error!(
                event_type = "audit.rejected",
                %rejected,
                lines,
                "the log group left out some of {lines} audit events, which are too old or too new"
            );
        }
        Ok(())
    }

    async fn make_stream(&self) -> Result<(), ActionError> {
        let body = json!({"logGroupName": self.group, "logStreamName": self.stream});
        match self.call("CreateLogStream", &body).await {
            Err(ActionError::Refused { code, .. }) if code == EXISTS => Ok(()),
            made => made.map(drop),
        }
    }

    async fn call(&self, action: &str, body: &impl Serialize) -> Result<Bytes, ActionError> {
        self.actions.json("logs", &format!("Logs_20140328.{action}"), body).await
    }
}
