//! The destinations of the deployment, and events of facts that are durable elsewhere than in the
//! catalogue.
//!
//! Destinations get the events of a call side by side, so one that is away keeps no other from
//! them. It gets no further call of the same run.

use runtime::{Environment, Sdk};

use crate::call::{PublishError, calls};
use crate::encoded::{Encoded, Fact};
use crate::kafka::EventTopics;
use crate::round::Round;
use crate::{EventBus, KafkaTopics, Topic};

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

    /// Whether there is any destination. Without one, no event need be written.
    #[must_use]
    pub const fn has_destinations(&self) -> bool {
        !self.destinations.is_empty()
    }

    /// Begins a run of calls.
    #[must_use]
    pub fn round(&self) -> Round<'_> {
        Round::new(&self.destinations)
    }

    /// Publishes the events of facts, in their order. An event that no destination can ever take is
    /// logged and left out.
    ///
    /// # Errors
    /// If a destination did not take all of them. Repeated, the same events have the same ids.
    pub async fn publish(&self, facts: &[Fact]) -> Result<(), Unpublished> {
        let mut encoded = Vec::with_capacity(facts.len());
        for (sequence, Fact { event, group }) in (0..).zip(facts) {
            match Encoded::new(sequence, event, group.clone()) {
                Ok(event) => encoded.push(event),
                Err(error) => log_refusal(sequence, &event.attributes().event_type, &error),
            }
        }
        let index = |sequence: i64| usize::try_from(sequence).unwrap_or_default();
        let mut round = self.round();
        for call in calls(&encoded) {
            let refused = round.send(call).await;
            let first = if round.has_failed() {
                call.first().map(|event| event.sequence)
            } else {
                refused.first().copied()
            };
            if let Some(first) = first {
                return Err(Unpublished { first: index(first), why: round.end().err() });
            }
        }
        Ok(())
    }
}

/// Logs that an event was not published, though others may have been.
pub fn log_refusal(sequence: i64, of_type: &str, why: &(dyn std::error::Error + 'static)) {
    tracing::error!(
        event_type = "event.refused",
        sequence,
        of_type,
        error = why,
        "an event was not published"
    );
}
