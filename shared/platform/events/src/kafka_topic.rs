use std::sync::Arc;
use std::time::Duration;

use crate::kafka::{Cluster, EventTopics, Producer, Record, Settings};
use runtime::Sdk;

use crate::call::PublishError;
use crate::encoded::Encoded;

/// Media type of an event's JSON in the structured mode of CloudEvents.
const ENVELOPE: &str = "application/cloudevents+json; charset=UTF-8";

/// Type of the events that are sent to `KAFKA_FAILURES_TOPIC`: chunks that were given up.
const FAILURE: &str = "integrahub.chunk.given_up";

/// Time limit of connecting to the cluster, and time limit of sending the records of one call to
/// one topic. Each is shorter than the time limit of publishing as a whole. So if one of the two
/// steps is slow, its own limit passes first, and the log names the step.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Kafka topic with the rule that selects its events.
#[derive(Clone, Debug)]
pub struct KafkaTopic {
    producer: Arc<Producer>,
    /// Returns true for an event that is sent to this topic.
    gets: fn(&Encoded) -> bool,
}

impl KafkaTopic {
    /// Creates the topics that the settings name: one for chunks that were given up, and one for
    /// all events of other types. If both have the same settings, one topic takes all events. A
    /// topic connects when its first events are sent.
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
        let cluster = Cluster::new(settings, sdk).with_timeout(TIMEOUT);
        Self { producer: Arc::new(Producer::new(cluster)), gets }
    }

    /// Returns the name of the Kafka topic.
    pub(crate) fn name(&self) -> &str {
        self.producer.topic()
    }

    /// Sends those of `events` that belong to this topic, and waits until all in-sync replicas have
    /// them. The value of a record is the event's JSON. Its key is the tenant, so all events of a
    /// tenant are in one partition. The headers `type` and `tenant` let consumers filter without
    /// parsing.
    ///
    /// Either all events are accepted or the call fails: Kafka refuses no single event.
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
