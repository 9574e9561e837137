//! Publishes events to an event bus of EventBridge, a topic of SNS, or both: those of the
//! catalogue's outbox, and those of [facts](Publisher::publish) that are durable elsewhere.
//!
//! A function that committed events publishes them at once, by
//! [`publish_committed`](Publisher::publish_committed), and never fails because of it.
//! `reconcile` publishes what stayed behind, by [`publish_left`](Publisher::publish_left). Either
//! takes an event out of the outbox only after every destination has taken it. So an event is
//! published at least once, and each time with the same id.

mod bus;
mod call;
mod event;
mod topic;

pub use bus::EventBus;
pub use call::{PublishError, Refusal};
pub use event::{Fact, Published, UnpublishableEvent, event_of};
pub use topic::Topic;

use std::collections::BTreeSet;
use std::time::Duration;

use aws::{Environment, Sdk};
use catalog::{Database, Outbox, OutboxEvent};
use clock::Deadline;
use tokio::time::timeout;
use uuid::Uuid;

use event::Encoded;

/// The time that publishing at once may take. What is not published by then stays in the outbox.
const AT_ONCE: Duration = Duration::from_secs(6);

/// Events of one batch that are published at once. A batch with more has a destination that was
/// away for long; `reconcile` publishes the rest.
const OF_ONE_BATCH: u32 = 50;

/// Events that are read from the outbox together.
const PAGE: u32 = 100;

/// Where events are published to. A further kind of destination is a further variant.
#[derive(Clone, Debug)]
pub enum Destination {
    /// Rules of the bus route them.
    Bus(EventBus),
    /// Subscriptions of the topic filter them.
    Topic(Topic),
}

/// The destinations of the deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name or ARN of an event bus.
    pub bus: Option<String>,
    /// ARN of a topic.
    pub topic: Option<String>,
}

/// Publishes events to every destination.
#[derive(Clone, Debug)]
pub struct Publisher {
    destinations: Vec<Destination>,
}

/// Facts that were not all published.
#[derive(Debug)]
pub struct Unpublished {
    /// The index of the first one that may not have been. Some after it may have been.
    pub first: usize,
    /// Why. Without it, a destination refused some and took others, which is logged.
    pub why: Option<PublishError>,
}

/// What [`publish_left`](Publisher::publish_left) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Events that were published and taken out of the outbox.
    pub published: u64,
    /// Events that a destination refused while it took others. They stay.
    pub refused: u64,
    /// Whether there may be more than the limit allowed.
    pub is_more: bool,
}

impl Settings {
    /// Reads `EVENT_BUS` (a name or an ARN) and `EVENT_TOPIC_ARN`. Without either, no event is
    /// written or published.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let mut given =
            |name| Some(environment.optional(name, String::new())).filter(|text| !text.is_empty());
        Self { bus: given("EVENT_BUS"), topic: given("EVENT_TOPIC_ARN") }
    }
}

impl Publisher {
    /// A publisher to these destinations.
    #[must_use]
    pub const fn new(destinations: Vec<Destination>) -> Self {
        Self { destinations }
    }

    /// A publisher to the destinations of the deployment. A client is made only for those that
    /// there are.
    #[must_use]
    pub fn of(sdk: &Sdk, settings: Settings) -> Self {
        let bus = settings.bus.map(|bus| {
            Destination::Bus(EventBus::new(aws_sdk_eventbridge::Client::new(sdk.standard()), bus))
        });
        let topic = settings
            .topic
            .map(|arn| Destination::Topic(Topic::new(aws_sdk_sns::Client::new(sdk.standard()), arn)));
        Self::new(bus.into_iter().chain(topic).collect())
    }

    /// Whether the database has to write events.
    #[must_use]
    pub const fn outbox(&self) -> Outbox {
        if self.destinations.is_empty() { Outbox::Unused } else { Outbox::Written }
    }

    /// Publishes the events that this process committed, after those of the same batches that
    /// stayed behind, and logs what goes wrong. Free if nothing was committed.
    pub async fn publish_committed(&self, database: &Database) {
        let batches: BTreeSet<Uuid> = database.batches_with_events().into_iter().collect();
        if batches.is_empty() || self.destinations.is_empty() {
            return;
        }
        let publishing = async {
            for batch_id in batches {
                let events = database.events_of(batch_id, OF_ONE_BATCH).await?;
                self.publish_rows(database, &events).await?;
            }
            Ok::<_, PublishError>(())
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
            "events stay in the outbox, and will be published later"
        );
    }

    /// Publishes up to `limit` events that have been in the outbox for `older_than`, until the
    /// deadline. Two callers at once may publish the same events.
    ///
    /// # Errors
    /// If the database or a destination fails as a whole. What was published until then is done.
    pub async fn publish_left(
        &self,
        database: &Database,
        older_than: Duration,
        limit: u32,
        deadline: Deadline,
    ) -> Result<Left, PublishError> {
        let mut left = Left::default();
        let mut room = limit;
        while !self.destinations.is_empty() && !deadline.has_passed() {
            let page = room.min(PAGE);
            let events = database.events_left(older_than, page).await?;
            let (published, refused) = self.publish_rows(database, &events).await?;
            left.published = left.published.saturating_add(published);
            left.refused = left.refused.saturating_add(refused);
            left.is_more = u32::try_from(events.len()).is_ok_and(|read| read >= page);
            room = room.saturating_sub(page);
            // Refused events come last, so a page with one has nothing but them after it.
            if !left.is_more || refused > 0 || room == 0 {
                break;
            }
        }
        Ok(left)
    }

    /// Publishes the events of facts, in their order. An event that no destination can ever take is
    /// logged and left out.
    ///
    /// # Errors
    /// If a destination did not take all of them. Repeated, the same events have the same ids.
    pub async fn publish(&self, facts: &[Fact]) -> Result<(), Unpublished> {
        let mut encoded = Vec::with_capacity(facts.len());
        for (sequence, Fact { event, group }) in (0..).zip(facts) {
            match Encoded::of_event(sequence, event, group.clone()) {
                Ok(event) => encoded.push(event),
                Err(error) => log_refusal(sequence, &event.attributes().event_type, &error),
            }
        }
        let index = |sequence: i64| usize::try_from(sequence).unwrap_or_default();
        for call in call::calls(&encoded) {
            let refused = match self.send(call).await {
                Ok(refused) => refused,
                Err(error) => {
                    let first = call.first().map_or(0, |event| index(event.sequence));
                    return Err(Unpublished { first, why: Some(error) });
                }
            };
            for (sequence, refusal) in &refused {
                log_refusal(*sequence, type_of(call, *sequence), refusal);
            }
            if let Some(first) = refused.iter().map(|(sequence, _)| *sequence).min() {
                return Err(Unpublished { first: index(first), why: None });
            }
        }
        Ok(())
    }

    /// Publishes the events of rows in their order, and takes those out of the outbox that every
    /// destination took. Returns how many these are, and how many were refused.
    async fn publish_rows(
        &self,
        database: &Database,
        events: &[OutboxEvent],
    ) -> Result<(u64, u64), PublishError> {
        let mut refused = BTreeSet::new();
        let mut encoded = Vec::with_capacity(events.len());
        for event in events {
            match Encoded::of(event) {
                Ok(event) => encoded.push(event),
                Err(error) => {
                    log_refusal(event.sequence, &event.event_type, &error);
                    refused.insert(event.sequence);
                }
            }
        }
        let (mut published, mut failure) = (0, None);
        for call in call::calls(&encoded) {
            let found = match self.send(call).await {
                Ok(found) => found,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            for (sequence, refusal) in &found {
                log_refusal(*sequence, type_of(call, *sequence), refusal);
                refused.insert(*sequence);
            }
            let taken: Vec<i64> = call
                .iter()
                .map(|event| event.sequence)
                .filter(|sequence| !refused.contains(sequence))
                .collect();
            database.note_published(&taken, &[]).await?;
            published += u64::try_from(taken.len()).unwrap_or(u64::MAX);
        }
        if !refused.is_empty() {
            let places: Vec<i64> = refused.iter().copied().collect();
            database.note_published(&[], &places).await?;
        }
        match failure {
            Some(error) => Err(error),
            None => Ok((published, u64::try_from(refused.len()).unwrap_or(u64::MAX))),
        }
    }

    /// Sends the events of one call to every destination, and returns those that one of them
    /// refused.
    async fn send(&self, call: &[Encoded]) -> Result<Vec<(i64, Refusal)>, PublishError> {
        let mut refused = Vec::new();
        for destination in &self.destinations {
            refused.extend(match destination {
                Destination::Bus(bus) => Box::pin(bus.put(call)).await?,
                Destination::Topic(topic) => Box::pin(topic.publish(call)).await?,
            });
        }
        Ok(refused)
    }
}

fn type_of(call: &[Encoded], sequence: i64) -> &str {
    call.iter().find(|event| event.sequence == sequence).map_or("", |event| event.event_type.as_str())
}

fn log_refusal(sequence: i64, of_type: &str, why: &(dyn std::error::Error + 'static)) {
    tracing::error!(
        event_type = "event.refused",
        sequence,
        of_type,
        error = why,
        "an event was not published"
    );
}
