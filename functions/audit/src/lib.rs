//! Receives the audit events of requests from CloudWatch Logs, whose subscription filters find them
//! in the logs of the functions behind the API. Writes them to a log group that is kept for longer.
//!
//! If the log group does not accept them, the invocation fails, and Lambda repeats it. So the log
//! group may have an event twice, with the same `event_id`.
//!
//! After the events are written, the function adds replays, refusals, and requests of operations
//! without an idempotency record to the usage. These counts are approximate: a repeated delivery
//! adds them again, and a failure to add them is not retried.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod calls;
mod delivery;
mod log_group;
mod usage;

pub use log_group::LogGroup;

use ::usage::UsageTable;
use attempt::Malformed;
use runtime::ActionError;
use serde_json::Value;

use crate::calls::calls;
use crate::delivery::Delivery;

/// Reason why not all audit events of a delivery were written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("the event is not one of a subscription filter")]
    Event(#[source] Malformed),
    #[error("the data of the event cannot be unpacked")]
    Data(#[source] std::io::Error),
    #[error("the data of the event are malformed")]
    Lines(#[source] Malformed),
    #[error("the audit events were not written")]
    Write(#[source] ActionError),
}

/// State of the function `audit`, which is kept between invocations.
#[derive(Debug)]
pub struct Audit {
    group: LogGroup,
    /// DynamoDB table of usage counters; `None` if the function does not count usage.
    usage: Option<UsageTable>,
}

impl Audit {
    #[must_use]
    pub fn new(group: LogGroup, usage: Option<UsageTable>) -> Self {
        Self { group, usage }
    }

    /// Writes the audit events of a delivery to the log group, ordered by time. Then adds the usage
    /// that only audit events show, such as replays and refusals, to the usage table.
    ///
    /// # Errors
    /// If the delivery cannot be unpacked, or a call to CloudWatch Logs fails. A failure to add the
    /// usage is only logged.
    pub async fn handle(&self, event: Value) -> Result<(), AuditError> {
        let Some(delivery) = Delivery::unpack(event)? else { return Ok(()) };
        let counted = self.usage.as_ref().map(|table| (table, crate::usage::lines(delivery.messages())));
        for call in calls(delivery.into_lines()) {
            self.group.put(&call).await.map_err(AuditError::Write)?;
        }
        let Some((table, days)) = counted else { return Ok(()) };
        for (day, lines) in days {
            // The events are written, and would be written again if this failed the invocation.
            if let Err(error) = table.add_approximate(day, &lines).await {
                let error = attempt::chain(&error);
                tracing::error!(
                    event_type = "audit.usage_not_counted",
                    error,
                    "replays and refusals of {day} are not in the usage: {error}"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
