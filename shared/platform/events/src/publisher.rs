//! Destinations of the deployment, and events of facts that are stored elsewhere than in the
//! catalogue.
//!
//! All destinations get the events of a call at the same time, so an unavailable one does not delay
//! the others. It gets no further call in the same run.

use runtime::{Environment, Sdk};

use crate::call::{PublishError, calls};
use crate::encoded::{Encoded, Fact};
use crate::kafka::EventTopics;
use crate::round::Round;
use crate::{EventBus, KafkaTopic, Topic};

/// Destination to which events are published: EventBridge, SNS or Kafka.
#[derive(Clone, Debug)]
pub enum Destination {
    /// Event bus, whose rules route the events.
    Bus(EventBus),
    /// SNS topic, whose subscriptions filter the events.
    Topic(Topic),
    /// Kafka topic, whose consumers read the events of each tenant in order.
    Kafka(KafkaTopic),
}

/// Settings of the destinations to which this deployment publishes events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name or ARN of the event bus; `None` if there is none.
    pub bus: Option<String>,
    /// ARN of the SNS topic for the events; `None` if there is none.
    pub topic: Option<String>,
    /// Kafka topics for the events; `None` if Kafka is not configured.
    pub kafka: Option<EventTopics>,
}

/// Publisher of events to all destinations of the deployment.
#[derive(Clone, Debug)]
pub struct Publisher {
    destinations: Vec<Destination>,
}

/// Error if not all facts were published as events.
#[derive(Debug)]
pub struct Unpublished {
    /// Index of the first fact that may be unpublished. Facts after it may be published already.
    pub first: usize,
    /// Failure of a destination. `None` if the destinations only refused single events, which is
    /// logged.
    pub why: Option<PublishError>,
}

impl Settings {
    /// Reads `EVENT_BUS` (a name or an ARN), `EVENT_TOPIC_ARN`, and the variables of
    /// [`EventTopics::read`]. If none of them names a destination, no event is stored or published.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let (bus, topic) = (environment.given("EVENT_BUS"), environment.given("EVENT_TOPIC_ARN"));
        Self { bus, topic, kafka: EventTopics::read(environment) }
    }
}

impl Publisher {
    /// Creates a publisher that sends to these destinations.
    #[must_use]
    pub const fn new(destinations: Vec<Destination>) -> Self {
        Self { destinations }
    }

    /// Creates a publisher to the destinations of the deployment, with a client for each of them.
    #[must_use]
    pub fn of(sdk: &Sdk, settings: Settings) -> Self {
        let bus = settings.bus.map(|bus| {
            Destination::Bus(EventBus::new(aws_sdk_eventbridge::Client::new(sdk.standard()), bus))
        });
        let topic = settings
            .topic
            .map(|arn| Destination::Topic(Topic::new(aws_sdk_sns::Client::new(sdk.standard()), arn)));
        let kafka = settings.kafka.into_iter().flat_map(|topics| KafkaTopic::of(topics, sdk));
        Self::new(bus.into_iter().chain(topic).chain(kafka.map(Destination::Kafka)).collect())
    }

    /// True if the deployment has any destination. Otherwise no event needs to be stored.
    #[must_use]
    pub const fn has_destinations(&self) -> bool {
        !self.destinations.is_empty()
    }

    /// Starts a run of calls, in which a destination that fails gets no further call.
    #[must_use]
    pub fn round(&self) -> Round<'_> {
        Round::new(&self.destinations)
    }

    /// Publishes the events of `facts` in their order to every destination. An event that no
    /// destination can ever accept is logged and skipped.
    ///
    /// # Errors
    /// If a destination did not accept all events. A repeated call publishes events with the same
    /// ids.
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

/// Logs that an event was not published to a destination. Other events may have been published.
pub fn log_refusal(sequence: i64, of_type: &str, why: &(dyn std::error::Error + 'static)) {
    tracing::error!(
        event_type = "event.refused",
        sequence,
        of_type,
        error = why,
        "event {sequence} of type {of_type} was not published: {why}"
    );
}
