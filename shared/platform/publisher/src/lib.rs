//! Publishes events to an event bus of EventBridge, a topic of SNS, a topic of Kafka, or several of
//! them: those of the catalogue's outbox, and those of [facts](Publisher::publish) that are durable
//! elsewhere.
//!
//! A function that committed events publishes them at once, by
//! [`publish_committed`](Publisher::publish_committed), and never fails because of it.
//! `reconcile` publishes what stayed behind, by [`publish_left`](Publisher::publish_left). Either
//! takes an event out of the outbox only after every destination has taken it. So an event is
//! published at least once, and each time with the same id.
//!
//! Destinations get the events of a call side by side, so one that is away keeps no other from
//! them. It gets no further call of the same run. The others do, and get these events again with
//! the next run.

mod bus;
mod call;
mod event;
mod kafka_topics;
mod round;
mod topic;

pub use bus::EventBus;
pub use call::{PublishError, Refusal};
pub use event::{Fact, Published, UnpublishableEvent, event_of};
pub use kafka_topics::KafkaTopics;
pub use topic::Topic;

use std::collections::BTreeSet;
use std::time::Duration;

use aws::{Environment, Sdk};
use catalog::{Database, Outbox, OutboxEvent};
use clock::Deadline;
use kafka::EventTopics;
use tokio::time::timeout;
use uuid::Uuid;

use event::Encoded;
use round::Round;

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
    /// Consumers read them in the order of each tenant.
    Kafka(KafkaTopics),
}

/// The destinations of the deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name or ARN of an event bus.
    pub bus: Option<String>,
    /// ARN of a topic of SNS.
    pub topic: Option<String>,
    /// Topics of Kafka.
    pub kafka: Option<EventTopics>,
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
    /// Reads `EVENT_BUS` (a name or an ARN), `EVENT_TOPIC_ARN`, and the variables of
    /// [`EventTopics::read`]. Without a destination, no event is written or published.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let mut given =
            |name| Some(environment.optional(name, String::new())).filter(|text| !text.is_empty());
        let (bus, topic) = (given("EVENT_BUS"), given("EVENT_TOPIC_ARN"));
        Self { bus, topic, kafka: EventTopics::read(environment) }
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
        let kafka = settings.kafka.map(|topics| Destination::Kafka(KafkaTopics::new(topics, sdk)));
        Self::new(bus.into_iter().chain(topic).chain(kafka).collect())
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
            let mut round = Round::new(&self.destinations);
            for batch_id in batches {
                let events = database.events_of(batch_id, OF_ONE_BATCH).await?;
                publish_rows(&mut round, database, &events).await?;
            }
            round.end()
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
        let mut round = Round::new(&self.destinations);
        let mut room = limit;
        while !self.destinations.is_empty() && !deadline.has_passed() {
            let page = room.min(PAGE);
            let events = database.events_left(older_than, page).await?;
            let (published, refused) = publish_rows(&mut round, database, &events).await?;
            left.published = left.published.saturating_add(published);
            left.refused = left.refused.saturating_add(refused);
            if round.has_failed() {
                break;
            }
            left.is_more = u32::try_from(events.len()).is_ok_and(|read| read >= page);
            room = room.saturating_sub(page);
            // Refused events come last, so a page with one has nothing but them after it.
            if !left.is_more || refused > 0 || room == 0 {
                break;
            }
        }
        round.end()?;
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
        let mut round = Round::new(&self.destinations);
        for call in call::calls(&encoded) {
            let refused = round.send(call).await;
            for (sequence, refusal) in &refused {
                log_refusal(*sequence, type_of(call, *sequence), refusal);
            }
            let first = if round.has_failed() {
                call.first().map(|event| event.sequence)
            } else {
                refused.iter().map(|(sequence, _)| *sequence).min()
            };
            if let Some(first) = first {
                return Err(Unpublished { first: index(first), why: round.end().err() });
            }
        }
        Ok(())
    }
}

/// Publishes the events of rows in their order, and takes those out of the outbox that every
/// destination took. Returns how many these are, and how many were refused. The round knows the
/// destinations that failed.
async fn publish_rows(
    round: &mut Round<'_>,
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
    let mut published = 0;
    for call in call::calls(&encoded) {
        for (sequence, refusal) in round.send(call).await {
            log_refusal(sequence, type_of(call, sequence), &refusal);
            refused.insert(sequence);
        }
        if round.has_failed() {
            continue;
        }
        let taken: Vec<i64> =
            call.iter().map(|event| event.sequence).filter(|sequence| !refused.contains(sequence)).collect();
        database.note_published(&taken, &[]).await?;
        published += u64::try_from(taken.len()).unwrap_or(u64::MAX);
    }
    if !refused.is_empty() {
        let places: Vec<i64> = refused.iter().copied().collect();
        database.note_published(&[], &places).await?;
    }
    Ok((published, u64::try_from(refused.len()).unwrap_or(u64::MAX)))
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
