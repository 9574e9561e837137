//! Publisher of events to the destinations of the deployment: EventBridge, SNS and Kafka. It
//! publishes events of the outbox of the catalogue's database, and events that functions publish
//! directly.
//!
//! All destinations get the events of a call at the same time, so an unavailable one does not delay
//! the others. A destination that failed gets no further call in the same series of calls
//! ([`CallSeries`]).

use runtime::{Environment, Sdk};

use crate::call::{PublishError, calls};
use crate::call_series::CallSeries;
use crate::encoded::{DirectEvent, Encoded};
use crate::kafka::EventTopics;
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

/// Error of [`Publisher::publish`]: a destination did not accept all events.
#[derive(Debug)]
pub struct Unpublished {
    /// Index, in the call's `events`, of the first event that may be unpublished. Events after it
    /// may be published already.
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

    /// True if the deployment has any destination. Otherwise functions need not store events for
    /// later publishing.
    #[must_use]
    pub const fn has_destinations(&self) -> bool {
        !self.destinations.is_empty()
    }

    /// Starts a series of calls, in which a destination that fails gets no further call.
    #[must_use]
    pub fn series(&self) -> CallSeries<'_> {
        CallSeries::new(&self.destinations)
    }

    /// Publishes `events` in their order to every destination. An event that no destination can
    /// ever accept is logged and skipped.
    ///
    /// # Errors
    /// If a destination did not accept all events. A repeated call publishes events with the same
    /// ids.
    pub async fn publish(&self, events: &[DirectEvent]) -> Result<(), Unpublished> {
        let mut encoded = Vec::with_capacity(events.len());
        for (sequence, DirectEvent { event, group }) in (0..).zip(events) {
            match Encoded::new(sequence, event, group.clone()) {
                Ok(event) => encoded.push(event),
                Err(error) => log_refusal(sequence, &event.attributes().event_type, &error),
            }
        }
        let index = |sequence: i64| usize::try_from(sequence).unwrap_or_default();
        let mut series = self.series();
        for call in calls(&encoded) {
            let refused = series.send(call).await;
            let first = if series.has_failed() {
                call.first().map(|event| event.sequence)
            } else {
                refused.first().copied()
            };
            if let Some(first) = first {
                return Err(Unpublished { first: index(first), why: series.end().err() });
            }
        }
        Ok(())
    }
}

/// Logs that the event with the number `sequence` and the type `of_type` was not published to a
/// destination. Other events may have been published.
pub fn log_refusal(sequence: i64, of_type: &str, why: &(dyn std::error::Error + 'static)) {
    tracing::error!(
        event_type = "event.refused",
        sequence,
        of_type,
        error = why,
        "event {sequence} of type {of_type} was not published: {why}"
    );
}
