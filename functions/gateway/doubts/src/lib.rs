//! Reads the DynamoDB stream of the idempotency table, and publishes an event for each request of
//! the gateway with messages in doubt, which may or may not have been put or removed.
//!
//! A doubt is recorded in the request's idempotency record, and the stream keeps each change of a
//! record for a day. So a recorded doubt is published at least once, even if the function that
//! recorded it has died. While an event bus is unreachable, Lambda delivers the same changes again.
//!
//! A change that Lambda delivers again holds up all later changes. So an event moves to an SQS
//! queue for unhandled events if a destination refuses it for 15 minutes, or if a destination is
//! unreachable for 20 hours, before the stream drops the change.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod change;
mod event;
mod unhandled;

pub use unhandled::UnhandledQueue;

use std::time::Duration;

use attempt::Malformed;
use events::{DirectEvent, Publisher, Unpublished};
use idempotency::{Doubt, Doubtful, OperationType};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::change::{Change, Changes};

/// Types of operations, as idempotency records name them, that can leave messages in doubt.
/// Produces and moves progress message by message; a consume stores its response and then removes
/// all messages at once. With `"ack": "none"`, the broker removes a consume's messages on delivery,
/// before the response is stored, as the caller asked.
const DOUBTFUL: Doubtful<'static> = Doubtful {
    resumable: &[OperationType::named("PRODUCE"), OperationType::named("MOVE")],
    prepared: &[OperationType::named("CONSUME")],
};

/// Time for which an event is retried if a destination responds, but refuses the event. Throttling
/// makes some refusals temporary.
const REFUSED_FOR: Duration = Duration::from_mins(15);

/// Time for which an event is retried if a destination does not respond. It is below the 24 hours
/// for which a DynamoDB stream keeps a change.
const AWAY_FOR: Duration = Duration::from_hours(20);

/// State of the function `doubts` that its invocations share: the publisher of events, and the
/// queue for events that could not be published.
#[derive(Debug)]
pub struct Doubts {
    pub publisher: Publisher,
    pub unhandled: UnhandledQueue,
}

/// Sequence number (in the stream) and time of a change of an idempotency record for which an event
/// is published.
struct Found {
    sequence_number: String,
    made_at: Timestamp,
}

/// Response of the function to Lambda for one batch of changes. Lambda delivers the batch again
/// from the change that the response names. If the response names none, the batch is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamResponse {
    pub batch_item_failures: Vec<Failed>,
}

/// Change of an idempotency record that Lambda must deliver again, together with all later changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// Sequence number of the change in the DynamoDB stream.
    pub item_identifier: String,
}

impl Doubts {
    /// Publishes, in order, an event for each change of an idempotency record that shows messages
    /// in doubt. The response names the first change whose event was neither published nor moved to
    /// the queue for unhandled events. Fails if `event` is not a batch of a DynamoDB stream.
    pub async fn handle(&self, event: Value) -> Result<StreamResponse, Malformed> {
        let changes: Changes = attempt::malformed::from_value(event)?;
        let found: Vec<(Found, DirectEvent)> = changes.records.into_iter().filter_map(found).collect();
        let (found, events): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (mut found, mut events) = (&found[..], &events[..]);
        while let Err(unpublished) = self.publisher.publish(events).await {
            log_unpublished(&unpublished);
            let (first, patience) = match &unpublished.why {
                Some(_) => (unpublished.first, AWAY_FOR),
                None => (unpublished.first, REFUSED_FOR),
            };
            // Begin with the first event if the publisher names one that does not exist: a response
            // without a failure would mean that everything is published.
            let first = if first < events.len() { first } else { 0 };
            (found, events) =
                (found.get(first..).unwrap_or_default(), events.get(first..).unwrap_or_default());
            // An unreachable destination takes none of the others either.
            let most = if unpublished.why.is_some() { events.len() } else { 1 };
            let parked = self.park(found, events.get(..most).unwrap_or(events), patience).await;
            (found, events) =
                (found.get(parked..).unwrap_or_default(), events.get(parked..).unwrap_or_default());
            if parked == 0 || unpublished.why.is_some() {
                let failed = found.first().map(|found| found.sequence_number.clone());
                let failed = failed.map(|item_identifier| Failed { item_identifier });
                return Ok(StreamResponse { batch_item_failures: failed.into_iter().collect() });
            }
        }
        Ok(StreamResponse::default())
    }

    /// Moves events to the SQS queue for unhandled events, in order, until the change behind an
    /// event is younger than `patience` or SQS fails. `found` has the change behind each event of
    /// `events`. Returns the number of moved events.
    async fn park(&self, found: &[Found], events: &[DirectEvent], patience: Duration) -> usize {
        let mut parked = 0_usize;
        for (Found { made_at, .. }, DirectEvent { event, .. }) in found.iter().zip(events) {
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

/// Returns the event to publish for a change of an idempotency record; `None` if the change shows
/// no messages in doubt. An unreadable record is logged and skipped, because a retry would not
/// help.
fn found(change: Change) -> Option<(Found, DirectEvent)> {
    let made_at = change.made_at();
    let (sequence_number, old, new) = change.into_images();
    let doubt = DOUBTFUL.doubt(old, new).inspect_err(|error| unusable(&sequence_number, error)).ok()??;
    log(&doubt);
    let event = event::of(&doubt).inspect_err(|error| unusable(&sequence_number, error)).ok()?;
    let group = event.attributes().idempotency_key.to_string();
    Some((Found { sequence_number, made_at }, DirectEvent { group, event }))
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
