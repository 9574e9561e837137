use std::sync::Arc;
use std::time::Duration;

use crate::kafka::{Cluster, EventTopics, ProduceError, Producer, Record, Settings};
use runtime::Sdk;

use crate::call::PublishError;
use crate::encoded::Encoded;

/// The media type of an envelope in the structured mode of CloudEvents.
const ENVELOPE: &str = "application/cloudevents+json; charset=UTF-8";

/// Type of the events that go to the topic of failures.
const FAILURE: &str = "integrahub.chunk.given_up";

/// Time limit of a connection, and again of the records of one call to one topic. Each is shorter
/// than the limit of publishing at once, so that the log gets the reason.
const PATIENCE: Duration = Duration::from_secs(4);

/// Topics of Kafka: of chunks that were given up, and of all other events. Both may be one topic.
#[derive(Clone, Debug)]
pub struct KafkaTopics {
    /// `None` if the topic of events has the failures too.
    failures: Option<Arc<Producer>>,
    events: Arc<Producer>,
}

impl KafkaTopics {
    /// The topics of these settings. Connects to each when its first events are sent.
    #[must_use]
    pub fn new(topics: EventTopics, sdk: &Sdk) -> Self {
        let producer =
            |settings: Settings| Arc::new(Producer::new(Cluster::new(settings, sdk).with_patience(PATIENCE)));
        let is_one = topics.failures == topics.events;
        let failures = (!is_one).then(|| producer(topics.failures));
        Self { failures, events: producer(topics.events) }
    }

    /// Sends events to their topics, acknowledged by all in-sync replicas. A record's value is the
    /// whole envelope, and its key is the tenant, so that the events of a batch are in one
    /// partition of a topic. With the headers `type` and `tenant`, readers can filter without
    /// parsing.
    ///
    /// The cluster accepts all events of a call, or the call fails. It does not refuse single
    /// events.
    pub(crate) async fn send(&self, events: &[Encoded]) -> Result<(), PublishError> {
        let Some(failures) = &self.failures else {
            return sent(self.events.send(events.iter().map(record).collect()).await);
        };
        let (failed, others): (Vec<&Encoded>, Vec<&Encoded>) =
            events.iter().partition(|event| event.event_type == FAILURE);
        // Side by side, so a topic that takes nothing keeps no event of this call from the other.
        let (failed, others) = tokio::join!(
            failures.send(failed.into_iter().map(record).collect()),
            self.events.send(others.into_iter().map(record).collect()),
        );
        sent(failed.and(others))
    }
}

fn sent(result: Result<(), ProduceError>) -> Result<(), PublishError> {
    result.map_err(|error| PublishError::Kafka(Box::new(error)))
}

fn record(event: &Encoded) -> Record {
    Record::new(&event.tenant, event.json.clone().into_bytes())
        .with_header("content-type", ENVELOPE)
        .with_header("type", &event.event_type)
        .with_header("tenant", &event.tenant)
}
