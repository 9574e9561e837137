//! Reads the stream of the idempotency table, and publishes an event for each request of the
//! gateway whose outcome nobody knows.
//!
//! The record is the fact, and the stream keeps each change of it for a day. So a doubt that is
//! recorded is published at least once, whoever recorded it and whatever became of that function.
//! A bus that is away makes Lambda deliver the same changes again.
//!
//! A change that is delivered again holds up those after it. So an event that a destination keeps
//! refusing moves to the unhandled queue after a while, and so does any other before the stream
//! forgets its change.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod change;
mod event;
mod unhandled;

pub use unhandled::UnhandledQueue;

use std::time::Duration;

use events::{Fact, Publisher, Unpublished};
use failure::Malformed;
use idempotency::{Doubt, Doubtful, OperationType};
use jiff::Timestamp;
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

/// Time for which an event is retried that a destination refuses while it answers. A refusal may be
/// for want of capacity.
const REFUSED_FOR: Duration = Duration::from_mins(15);

/// Time for which an event is retried while a destination does not answer. The stream forgets its
/// change after 24 hours.
const AWAY_FOR: Duration = Duration::from_hours(20);

/// The function's state, which outlives invocations.
#[derive(Debug)]
pub struct Doubts {
    pub publisher: Publisher,
    pub unhandled: UnhandledQueue,
}

/// A change that brings an event.
struct Found {
    sequence_number: String,
    made_at: Timestamp,
}

/// Answer to Lambda, which begins again with the first change that is named.
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
        let changes: Changes = failure::malformed::from_value(event)?;
        let found: Vec<(Found, Fact)> = changes.records.into_iter().filter_map(found).collect();
        let (found, facts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (mut found, mut facts) = (&found[..], &facts[..]);
        while let Err(unpublished) = self.publisher.publish(facts).await {
            log_unpublished(&unpublished);
            let (first, patience) = match &unpublished.why {
                Some(_) => (unpublished.first, AWAY_FOR),
                None => (unpublished.first, REFUSED_FOR),
            };
            // From the first one, if the publisher names none that there is: no failure at all
            // would mean that everything is published.
            let first = if first < facts.len() { first } else { 0 };
            (found, facts) = (found.get(first..).unwrap_or_default(), facts.get(first..).unwrap_or_default());
            // A destination that is away takes none of the others either.
            let most = if unpublished.why.is_some() { facts.len() } else { 1 };
            let parked = self.park(found, facts.get(..most).unwrap_or(facts), patience).await;
            (found, facts) =
                (found.get(parked..).unwrap_or_default(), facts.get(parked..).unwrap_or_default());
            if parked == 0 || unpublished.why.is_some() {
                let failed = found.first().map(|found| found.sequence_number.clone());
                let failed = failed.map(|item_identifier| Failed { item_identifier });
                return Ok(StreamResponse { batch_item_failures: failed.into_iter().collect() });
            }
        }
        Ok(StreamResponse::default())
    }

    /// Moves events to the unhandled queue, up to the first one that was not tried for so long yet.
    /// Returns how many.
    async fn park(&self, found: &[Found], facts: &[Fact], patience: Duration) -> usize {
        let mut parked = 0_usize;
        for (Found { made_at, .. }, Fact { event, .. }) in found.iter().zip(facts) {
            let age = Duration::try_from(Timestamp::now().duration_since(*made_at)).unwrap_or_default();
            if age < patience {
                break;
            }
            let reason = "no destination took the event in time, or one refused it";
            let id = &event.attributes().id;
            if let Err(error) = self.unhandled.park(event, reason).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(event_type = "doubts.not_parked", id, error, "the event stays in the stream");
                break;
            }
            tracing::error!(
                event_type = "message.unhandled",
                id,
                reason,
                "the event is in the unhandled queue"
            );
            parked = parked.saturating_add(1);
        }
        parked
    }
}

fn log_unpublished(unpublished: &Unpublished) {
    let error = unpublished.why.as_ref().map(|error| error as &dyn std::error::Error);
    tracing::warn!(
        event_type = "doubts.unpublished",
        error,
        "the changes will be delivered again, unless they are too old"
    );
}

/// The event of a change, if it is one. A record that cannot be read stays as it is however often
/// it is delivered, so it is told of and left.
fn found(change: Change) -> Option<(Found, Fact)> {
    let made_at = change.made_at();
    let (sequence_number, old, new) = change.into_images();
    let doubt = DOUBTFUL.doubt(old, new).inspect_err(|error| unusable(&sequence_number, error)).ok()??;
    log(&doubt);
    let event = event::of(&doubt).inspect_err(|error| unusable(&sequence_number, error)).ok()?;
    let group = event.attributes().idempotency_key.to_string();
    Some((Found { sequence_number, made_at }, Fact { group, event }))
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
