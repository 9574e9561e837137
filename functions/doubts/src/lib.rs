//! Reads the stream of the idempotency table, and publishes an event for each request of the
//! gateway whose outcome nobody knows.
//!
//! The record is the fact, and the stream keeps each change of it for a day. So a doubt that is
//! recorded is published at least once, whoever recorded it and whatever became of that function.
//! A bus that is away makes Lambda deliver the same changes again.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod change;
mod event;

use idempotency::{Doubt, Doubtful, OperationType};
use malformed::Malformed;
use publisher::{Fact, Publisher};
use serde::Serialize;
use serde_json::Value;

use crate::change::{Change, Changes};

/// The gateway's work, as its records name it. Produces and moves go message by message, and a
/// consume removes all its messages at one moment. Messages of a consume with `"ack": "none"` are
/// gone before, which its caller asked for.
const DOUBTFUL: Doubtful<'static> = Doubtful {
    resumable: &[OperationType::named("PRODUCE"), OperationType::named("MOVE")],
    prepared: &[OperationType::named("CONSUME")],
};

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Doubts {
    pub publisher: Publisher,
}

/// Where Lambda begins again: with the first change that is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamResponse {
    pub batch_item_failures: Vec<Failed>,
}

/// A change that is to be delivered again, with all after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// The change's sequence number.
    pub item_identifier: String,
}

impl Doubts {
    /// Publishes the doubts of a batch of changes, in their order.
    ///
    /// # Errors
    /// If the event is not one of a table's stream.
    pub async fn handle(&self, event: Value) -> Result<StreamResponse, Malformed> {
        let changes: Changes = malformed::from_value(event)?;
        let found: Vec<(String, Fact)> = changes.records.into_iter().filter_map(found).collect();
        let (sequence_numbers, facts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let Err(unpublished) = self.publisher.publish(&facts).await else {
            return Ok(StreamResponse::default());
        };
        let error = unpublished.why.as_ref().map(|error| error as &dyn std::error::Error);
        tracing::warn!(event_type = "doubts.unpublished", error, "the changes will be delivered again");
        // From the first one, if the publisher names none that there is: no failure at all would
        // mean that everything is published.
        let failed = sequence_numbers.get(unpublished.first).or(sequence_numbers.first()).cloned();
        let failed = failed.map(|item_identifier| Failed { item_identifier });
        Ok(StreamResponse { batch_item_failures: failed.into_iter().collect() })
    }
}

/// The event of a change, if it is one. A record that cannot be read stays as it is however often
/// it is delivered, so it is told of and left.
fn found(change: Change) -> Option<(String, Fact)> {
    let (sequence_number, old, new) = change.into_images();
    let doubt = DOUBTFUL.doubt(old, new).inspect_err(|error| unusable(&sequence_number, error)).ok()??;
    log(&doubt);
    let event = event::of(&doubt).inspect_err(|error| unusable(&sequence_number, error)).ok()?;
    Some((sequence_number, Fact { group: event.attributes().idempotency_key.to_string(), event }))
}

fn unusable(sequence_number: &str, error: &(dyn std::error::Error + 'static)) {
    tracing::error!(event_type = "doubts.unreadable", sequence_number, error, "a change cannot be read");
}

fn log(doubt: &Doubt) {
    tracing::warn!(
        event_type = "message.in_doubt",
        correlation_id = doubt.trace_id,
        tenant = doubt.tenant,
        operation = doubt.operation,
        idempotency_key = doubt.idempotency_key,
        mq_target = doubt.target,
        attempt = doubt.attempt,
        "nobody knows whether messages of this request were put or removed"
    );
}
