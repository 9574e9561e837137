use std::sync::Arc;
use std::time::Duration;

use aws::Sdk;
use kafka::{Cluster, Producer, Record};

use crate::call::PublishError;
use crate::event::Encoded;

/// The media type of an envelope in the structured mode of CloudEvents.
const ENVELOPE: &str = "application/cloudevents+json; charset=UTF-8";

/// For a connection, and again for the records of a call. Less than publishing at once may take, so
/// that the log has the reason.
const PATIENCE: Duration = Duration::from_secs(4);

/// A topic of Kafka.
#[derive(Clone, Debug)]
pub struct KafkaTopic {
    producer: Arc<Producer>,
}

impl KafkaTopic {
    /// The topic of these settings. Connects when the first events are sent.
    #[must_use]
    pub fn new(settings: kafka::Settings, sdk: &Sdk) -> Self {
        let cluster = Cluster::new(settings, sdk).with_patience(PATIENCE);
        Self { producer: Arc::new(Producer::new(cluster)) }
    }

    /// Sends events to the topic, acknowledged by all in-sync replicas. A record's value is the
    /// whole envelope, and its key is the batch, so that the events of a batch are in one
    /// partition. The headers `type` and `tenant` are for readers that choose without parsing.
    ///
    /// The cluster takes all events of a call, or the call fails. It refuses no single one.
    pub(crate) async fn send(&self, events: &[Encoded]) -> Result<(), PublishError> {
        let sent = self.producer.send(events.iter().map(record).collect()).await;
        sent.map_err(|error| PublishError::Kafka(Box::new(error)))
    }
}

fn record(event: &Encoded) -> Record {
    Record::new(&event.group, event.json.clone().into_bytes())
        .with_header("content-type", ENVELOPE)
        .with_header("type", &event.event_type)
        .with_header("tenant", &event.tenant)
}
