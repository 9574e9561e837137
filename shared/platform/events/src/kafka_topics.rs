use std::sync::Arc;
use std::time::Duration;

use crate::kafka::{Cluster, EventTopics, Producer, Record, Settings};
use runtime::Sdk;

use crate::call::PublishError;
use crate::encoded::Encoded;

/// The media type of an envelope in the structured mode of CloudEvents.
const ENVELOPE: &str = "application/cloudevents+json; charset=UTF-8";

/// The events that go to the topic of failures.
const FAILURE: &str = "integrahub.chunk.given_up";

/// Time for a connection, and again for the records of a call that go to one topic one after the
/// other. One such pause is shorter than publishing at once may take, so that the log has the
/// reason.
const PATIENCE: Duration = Duration::from_secs(4);

/// Two topics of Kafka: of chunks that were given up, and of all other events.
#[derive(Clone, Debug)]
pub struct KafkaTopics {
    failures: Arc<Producer>,
    events: Arc<Producer>,
}

impl KafkaTopics {
    /// The topics of these settings. Connects to each when its first events are sent.
    #[must_use]
    pub fn new(topics: EventTopics, sdk: &Sdk) -> Self {
        let producer =
            |settings: Settings| Arc::new(Producer::new(Cluster::new(settings, sdk).with_patience(PATIENCE)));
        Self { failures: producer(topics.failures), events: producer(topics.events) }
    }

    /// Sends events to their topics, acknowledged by all in-sync replicas. A record's value is the
    /// whole envelope, and its key is the tenant, so that the events of a batch are in one
    /// partition of a topic. The headers `type` and `tenant` are for readers that choose without
    /// parsing.
    ///
    /// The cluster takes all events of a call, or the call fails. It refuses no single one.
    pub(crate) async fn send(&self, events: &[Encoded]) -> Result<(), PublishError> {
        let (failures, others): (Vec<&Encoded>, Vec<&Encoded>) =
            events.iter().partition(|event| event.event_type == FAILURE);
        // Side by side: a topic that takes nothing keeps the other from no event.
        let (failures, others) = tokio::join!(
            self.failures.send(failures.into_iter().map(record).collect()),
            self.events.send(others.into_iter().map(record).collect()),
        );
        failures.and(others).map_err(|error| PublishError::Kafka(Box::new(error)))
    }
}

fn record(event: &Encoded) -> Record {
    Record::new(&event.tenant, event.json.clone().into_bytes())
        .with_header("content-type", ENVELOPE)
        .with_header("type", &event.event_type)
        .with_header("tenant", &event.tenant)
}
