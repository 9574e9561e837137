//! Receives the audit events of requests from CloudWatch Logs, as subscription filters find them in
//! the logs of the functions behind the API, and writes them to a log group that is kept for
//! longer.
//!
//! If the group does not take them, the invocation fails, and Lambda repeats it. So a line can be
//! there twice, with the same `event_id`.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod calls;
mod delivery;
mod log_group;

pub use log_group::{LogGroup, LogGroupError};

use failure::Malformed;
use serde_json::Value;

use crate::calls::calls;
use crate::delivery::Delivery;

/// Reason why not all events were written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("the event is not one of a subscription filter")]
    Event(#[source] Malformed),
    #[error("the data of the event cannot be unpacked")]
    Data(#[source] std::io::Error),
    #[error("the data of the event are malformed")]
    Lines(#[source] Malformed),
    #[error("the audit events were not written")]
    Write(#[source] LogGroupError),
}

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Audit {
    group: LogGroup,
}

impl Audit {
    #[must_use]
    pub fn new(group: LogGroup) -> Self {
        Self { group }
    }

    /// Writes the events of a delivery, in the order of their times.
    ///
    /// # Errors
    /// If the delivery cannot be read, or the group does not take all of it.
    pub async fn handle(&self, event: Value) -> Result<(), AuditError> {
        let Some(delivery) = Delivery::unpack(event)? else { return Ok(()) };
        for call in calls(delivery.into_lines()) {
            self.group.put(&call).await.map_err(AuditError::Write)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
