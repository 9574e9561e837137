//! Reads the stream of the idempotency table, and publishes an event for each request of the
//! gateway whose outcome is unknown.
//!
//! The record is the fact, and the stream keeps each change of it for a day. So a doubt that is
//! recorded is published at least once, by whichever function it was recorded and even if that
//! function died. While a bus is unreachable, Lambda delivers the same changes again.
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

use attempt::Malformed;
use events::{Fact, Publisher, Unpublished};
use idempotency::{Doubt, Doubtful, OperationType};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::change::{Change, Changes};

/// Operation types in idempotency records whose attempts can leave messages in doubt. Produces and
/// moves progress message by message; a consume stores its response and then removes all messages
/// at once. With `"ack": "none"`, the broker removes a consume's messages on delivery, before the
/// response is stored, as the caller asked.
const DOUBTFUL: Doubtful<'static> = Doubtful {
    resumable: &[OperationType::named("PRODUCE"), OperationType::named("MOVE")],
    prepared: &[OperationType::named("CONSUME")],
};

/// Time for which an event is retried that a destination refuses although it responds. A refusal
/// may be temporary, because of throttling.
const REFUSED_FOR: Duration = Duration::from_mins(15);

/// Time for which an event is retried while a destination does not respond. It is below the 24
/// hours for which a DynamoDB stream keeps a change.
const AWAY_FOR: Duration = Duration::from_hours(20);

/// State of the function, kept between invocations.
#[derive(Debug)]
pub struct Doubts {
    pub publisher: Publisher,
    pub unhandled: UnhandledQueue,
}

/// Sequence number and time of a change of an idempotency record that leads to an event.
struct Found {
    sequence_number: String,
    made_at: Timestamp,
}

/// Response to Lambda. Lambda retries the batch from the first change that the response names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamResponse {
    pub batch_item_failures: Vec<Failed>,
}

/// Change that Lambda must deliver again, together with all changes after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// Sequence number of the change in the DynamoDB stream.
    pub item_identifier: String,
}

impl Doubts {
    /// Publishes an event for each change in a batch of stream records that leaves messages in
    /// doubt, in order.
    ///
    /// # Errors
    /// If `event` is not an event of a DynamoDB stream.
    pub async fn handle(&self, event: Value) -> Result<StreamResponse, Malformed> {
        let changes: Changes = attempt::malformed::from_value(event)?;
        let found: Vec<(Found, Fact)> = changes.records.into_iter().filter_map(found).collect();
        let (found, facts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (mut found, mut facts) = (&found[..], &facts[..]);
        while let Err(unpublished) = self.publisher.publish(facts).await {
            log_unpublished(&unpublished);
            let (first, patience) = match &unpublished.why {
                Some(_) => (unpublished.first, AWAY_FOR),
                None => (unpublished.first, REFUSED_FOR),
            };
            // Begin with the first fact if the publisher names one that does not exist: a response
            // without a failure would mean that everything is published.
            let first = if first < facts.len() { first } else { 0 };
            (found, facts) = (found.get(first..).unwrap_or_default(), facts.get(first..).unwrap_or_default());
            // An unreachable destination takes none of the others either.
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

    /// Moves events to the unhandled queue, up to the first one whose change is younger than
    /// `patience`. Returns the number of moved events.
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
                tracing::warn!(
                    event_type = "doubts.not_parked",
                    id,
                    error,
                    "event {id} cannot be moved to the unhandled queue and stays in the stream: {error}"
                );
                break;
            }
            tracing::error!(
                event_type = "message.unhandled",
                id,
                reason,
                "event {id} is in the unhandled queue: {reason}"
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
        "events of doubts were not published; Lambda delivers their changes again, unless they are too old"
    );
}

/// Returns the event that a change leads to; `None` if it leads to none. An unreadable record stays
/// unreadable, so it is logged and skipped.
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
    tracing::error!(
        event_type = "doubts.unreadable",
        sequence_number,
        error,
        "change {sequence_number} of the idempotency table cannot be read: {error}"
    );
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
        "it is unknown whether messages of request {} were put or removed",
        doubt.trace_id
    );
}
