//! Publishing the events of the outbox.
//!
//! A function that committed events publishes them at once, by [`Database::publish_committed`], and
//! never fails because of it. `reconcile` publishes the remaining ones, by
//! [`Database::publish_left`]. Both delete an event from the outbox only after every destination
//! has accepted it.
//!
//! If one destination was unavailable, the events stay in the outbox. The next call sends them to
//! all destinations, also to those that have accepted them already.

use std::collections::BTreeSet;
use std::time::Duration;

use attempt::{Deadline, Retry, Retryable};
use events::{
    Attributes, CallSeries, Encoded, Event, EventError, PublishError, Published, Publisher, calls,
    log_refusal,
};
use tokio::time::timeout;
use uuid::Uuid;

use crate::database::Database;
use crate::error::DatabaseError;
use crate::outbox::{OutboxEvent, OutboxMode};

/// Time limit for publishing events right after their commit. Events that are not published by then
/// stay in the outbox.
const AT_ONCE: Duration = Duration::from_secs(6);

/// Maximum number of events of one batch that are published right after a commit. Only a batch
/// whose destination was unavailable for long has more; `reconcile` publishes the remaining ones.
const OF_ONE_BATCH: u32 = 50;

/// Maximum number of events that one query reads from the outbox.
const PAGE: u32 = 100;

/// Reason why events could not be published, so that they stay in the outbox.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum OutboxError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error("database error")]
    Database(#[from] DatabaseError),
}

impl Retryable for OutboxError {
    fn retry(&self) -> Retry {
        match self {
            Self::Publish(error) => error.retry(),
            Self::Database(error) => error.retry(),
        }
    }
}

/// Result of [`Database::publish_left`], which publishes events that stayed in the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftEvents {
    /// Number of events that were published and deleted from the outbox.
    pub published: u64,
    /// Number of events that a destination refused while it accepted others. They stay in the
    /// outbox.
    pub refused: u64,
    /// True if more events may be left in the outbox.
    pub is_more: bool,
}

impl OutboxMode {
    /// Returns [`Written`](Self::Written) if the publisher has a destination, otherwise
    /// [`Unused`](Self::Unused).
    #[must_use]
    pub const fn needed_by(publisher: &Publisher) -> Self {
        if publisher.has_destinations() { Self::Written } else { Self::Unused }
    }
}

impl OutboxEvent {
    /// Creates the event to publish from its row in the outbox. Repeated calls create the same
    /// event.
    ///
    /// # Errors
    /// If the row has values that the event's envelope does not allow.
    pub fn to_event(&self) -> Result<Published, EventError> {
        let id = self.event_id.to_string();
        let attributes = Attributes {
            idempotency_key: Attributes::key(&id)?,
            id,
            source: format!("/batches/{}", self.batch_id),
            event_type: self.event_type.clone(),
            subject: None,
            time: self.occurred_at,
            source_idempotency_key: Some(Attributes::source_key(&self.idempotency_key)?),
            tenant: self.tenant_id.to_string(),
            trace_id: self.trace_id.clone(),
            traceparent: None,
        };
        Event::new(attributes, self.data.clone())
    }

    fn encode(&self) -> Result<Encoded, Box<dyn std::error::Error>> {
        Ok(Encoded::new(self.sequence, &self.to_event()?, self.batch_id.to_string())?)
    }
}

impl Database {
    /// Publishes the outbox events that this process has committed, after older events of the same
    /// batches. A failure is only logged. If nothing was committed, the call makes no query.
    pub async fn publish_committed(&self, publisher: &Publisher) {
        let batches: BTreeSet<Uuid> = self.batches_with_events().into_iter().collect();
        if batches.is_empty() || !publisher.has_destinations() {
            return;
        }
        let publishing = async {
            let mut series = publisher.series();
            for batch_id in batches {
                let events = self.events_of(batch_id, OF_ONE_BATCH).await?;
                self.publish_rows(&mut series, &events).await?;
            }
            Ok::<_, OutboxError>(series.end()?)
        };
        let error: Box<dyn std::error::Error> = match timeout(AT_ONCE, Box::pin(publishing)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        };
        let error: &dyn std::error::Error = error.as_ref();
        tracing::warn!(
            event_type = "events.left",
            error,
            "events stay in the outbox and are published later: {error}"
        );
    }

    /// Publishes up to `limit` events that have been in the outbox for at least `older_than`, until
    /// the deadline. Concurrent callers may publish the same events.
    ///
    /// # Errors
    /// If the database or a destination fails as a whole. Events that were published before stay
    /// published.
    pub async fn publish_left(
        &self,
        publisher: &Publisher,
        older_than: Duration,
        limit: u32,
        deadline: Deadline,
    ) -> Result<LeftEvents, OutboxError> {
        let mut left = LeftEvents::default();
        let mut series = publisher.series();
        let mut room = limit;
        while publisher.has_destinations() && !deadline.has_passed() {
            let page = room.min(PAGE);
            let events = self.events_left(older_than, page).await?;
            let (published, refused) = self.publish_rows(&mut series, &events).await?;
            left.published = left.published.saturating_add(published);
            left.refused = left.refused.saturating_add(refused);
            if series.has_failed() {
                break;
            }
            left.is_more = u32::try_from(events.len()).is_ok_and(|read| read >= page);
            room = room.saturating_sub(page);
            // Refused events come last, so a page with one is followed only by refused events.
            if !left.is_more || refused > 0 || room == 0 {
                break;
            }
        }
        series.end()?;
        Ok(left)
    }

    /// Publishes events in order, and deletes from the outbox those that every destination
    /// accepted. Returns the number of deleted events and the number of refused ones. `series`
    /// records the destinations that failed.
    async fn publish_rows(
        &self,
        series: &mut CallSeries<'_>,
        events: &[OutboxEvent],
    ) -> Result<(u64, u64), DatabaseError> {
        let mut refused = BTreeSet::new();
        let mut encoded = Vec::with_capacity(events.len());
        for event in events {
            match event.encode() {
                Ok(event) => encoded.push(event),
                Err(error) => {
                    log_refusal(event.sequence, &event.event_type, error.as_ref());
                    refused.insert(event.sequence);
                }
            }
        }
        let mut published = 0;
        for call in calls(&encoded) {
            refused.extend(series.send(call).await);
            if series.has_failed() {
                continue;
            }
            let taken: Vec<i64> = call
                .iter()
                .map(|event| event.sequence)
                .filter(|sequence| !refused.contains(sequence))
                .collect();
            self.note_published(&taken, &[]).await?;
            published += u64::try_from(taken.len()).unwrap_or(u64::MAX);
        }
        if !refused.is_empty() {
            let places: Vec<i64> = refused.iter().copied().collect();
            self.note_published(&[], &places).await?;
        }
        Ok((published, u64::try_from(refused.len()).unwrap_or(u64::MAX)))
    }
}
