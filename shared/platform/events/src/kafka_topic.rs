use std::sync::Arc;
use std::time::Duration;

use crate::kafka::{Cluster, EventTopics, Producer, Record, Settings};
use runtime::Sdk;

use crate::call::PublishError;
use crate::encoded::Encoded;

/// The media type of an envelope in the structured mode of CloudEvents.
const ENVELOPE: &str = "application/cloudevents+json; charset=UTF-8";

/// Type of the events that go to the topic of failures.
const FAILURE: &str = "integrahub.chunk.given_up";

/// Time limit of a connection, and again of the records of one call to one topic. Each alone is
/// shorter than the limit of publishing at once, so the log gets the reason unless both are slow.
const PATIENCE: Duration = Duration::from_secs(4);

/// Kafka topic, with the rule which events it gets.
#[derive(Clone, Debug)]
pub struct KafkaTopic {
    producer: Arc<Producer>,
    /// True for an event that goes to this topic.
    gets: fn(&Encoded) -> bool,
}

impl KafkaTopic {
    /// Creates the topics of these settings: one for chunks that were given up, and one for all
    /// other events. Both may be the same topic. Each connects when its first events are sent.
    #[must_use]
    pub fn of(topics: EventTopics, sdk: &Sdk) -> Vec<Self> {
        let EventTopics { failures, events } = topics;
        if failures == events {
            return vec![Self::new(events, sdk, |_| true)];
        }
        vec![
            Self::new(failures, sdk, |event| event.event_type == FAILURE),
            Self::new(events, sdk, |event| event.event_type != FAILURE),
        ]
    }

    fn new(settings: Settings, sdk: &Sdk, gets: fn(&Encoded) -> bool) -> Self {
        let cluster = Cluster::new(settings, sdk).with_patience(PATIENCE);
        Self { producer: Arc::new(Producer::new(cluster)), gets }
    }

    /// Returns the name of the Kafka topic.
    pub(crate) fn name(&self) -> &str {
        self.producer.topic()
    }

    /// Sends the topic's events, acknowledged by all in-sync replicas. A record's value is the
    /// whole envelope, and its key is the tenant, so that the events of a batch are in one
    /// partition of the topic. With the headers `type` and `tenant`, readers can filter without
    /// parsing.
    ///
    /// The cluster accepts all events of a call, or the call fails. It does not refuse single
    /// events.
    pub(crate) async fn send(&self, events: &[Encoded]) -> Result<(), PublishError> {
        let records = events.iter().filter(|event| (self.gets)(event)).map(record).collect();
        self.producer.send(records).await.map_err(|error| PublishError::Kafka(Box::new(error)))
    }
}

fn record(event: &Encoded) -> Record {
    Record::new(&event.tenant, event.json.clone().into_bytes())
        .with_header("content-type", ENVELOPE)
        .with_header("type", &event.event_type)
        .with_header("tenant", &event.tenant)
}
