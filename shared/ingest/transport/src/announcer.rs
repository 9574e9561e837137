//! Announcement of chunks to the function `upsert`, over SQS or Kafka as the deployment chose.

use std::str::FromStr;

use events::kafka::{Cluster, Producer, Record};
use ingestion::chunk::ChunkReady;
use jiff::Timestamp;
use runtime::{Environment, Sdk};

use crate::{AnnounceError, ChunkQueue, Origin, chunk_event};

/// Transport by which chunks that are ready are announced to the function `upsert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkTransport {
    /// Chunks are announced on the SQS queue `chunks-ready`.
    Sqs {
        /// URL of the SQS queue `chunks-ready`.
        queue_url: String,
    },
    /// Chunks are announced on a Kafka topic.
    Kafka(events::kafka::Settings),
}

/// Client that announces chunks that are ready to be written.
#[derive(Debug)]
pub enum ChunkAnnouncer {
    /// Announces chunks on the SQS queue.
    Queue(ChunkQueue),
    /// Announces chunks on the Kafka topic.
    Topic(Box<Producer>),
}

impl ChunkTransport {
    /// Reads the transport from `CHUNK_TRANSPORT` (`sqs`, the default, or `kafka`), with the
    /// variables of that transport: `CHUNKS_QUEUE_URL`, or those of
    /// [`events::kafka::Settings::read`].
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        match environment.optional("CHUNK_TRANSPORT", Kind::Sqs) {
            Kind::Sqs => Self::Sqs { queue_url: environment.required("CHUNKS_QUEUE_URL") },
            Kind::Kafka => Self::Kafka(events::kafka::Settings::read(environment)),
        }
    }

    /// Reads `CHUNK_TRANSPORT`, and returns the settings of Kafka if that is the transport. For
    /// functions that use the SQS queue in any case, or announce no chunks.
    pub fn read_kafka<F: Fn(&str) -> Option<String>>(
        environment: &mut Environment<F>,
    ) -> Option<events::kafka::Settings> {
        match environment.optional("CHUNK_TRANSPORT", Kind::Sqs) {
            Kind::Sqs => None,
            Kind::Kafka => Some(events::kafka::Settings::read(environment)),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Sqs,
    Kafka,
}

impl FromStr for Kind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "sqs" => Ok(Self::Sqs),
            "kafka" => Ok(Self::Kafka),
            _ => Err("must be sqs or kafka"),
        }
    }
}

impl ChunkAnnouncer {
    /// Creates the announcer, without a connection yet.
    #[must_use]
    pub fn new(transport: ChunkTransport, sdk: &Sdk, sqs: aws_sdk_sqs::Client) -> Self {
        match transport {
            ChunkTransport::Sqs { queue_url } => Self::Queue(ChunkQueue::new(sqs, queue_url)),
            ChunkTransport::Kafka(settings) => {
                Self::Topic(Box::new(Producer::new(Cluster::new(settings, sdk))))
            }
        }
    }

    /// Announces chunks of one batch. Idempotent by the event's `idempotencykey`, which is the
    /// chunk's id: a chunk that is announced twice is written once. In Kafka, the record's key is
    /// the chunk's first CNPJ, so that chunks of an establishment stay in order.
    ///
    /// # Errors
    /// If the transport does not accept all announcements. It may have accepted some.
    pub async fn announce(
        &self,
        origin: &Origin,
        chunks: impl IntoIterator<Item = ChunkReady>,
    ) -> Result<(), AnnounceError> {
        match self {
            Self::Queue(queue) => queue.announce(origin, chunks).await,
            Self::Topic(topic) => {
                let records = chunks.into_iter().map(|chunk| record(origin, chunk));
                let records = records.collect::<Result<Vec<_>, _>>()?;
                // Boxed: the futures of the client are large.
                Ok(Box::pin(topic.send(records)).await?)
            }
        }
    }
}

fn record(origin: &Origin, chunk: ChunkReady) -> Result<Record, AnnounceError> {
    let cnpj = chunk.cnpj;
    let event = chunk_event(origin, chunk, Timestamp::now())?;
    Ok(Record::new(cnpj.as_str(), serde_json::to_vec(&event).map_err(AnnounceError::Json)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<ChunkTransport, String> {
        let lookup =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let mut environment = Environment::of(lookup);
        let transport = ChunkTransport::read(&mut environment);
        environment.check().map(|()| transport).map_err(|error| error.to_string())
    }

    #[test]
    fn sqs_is_the_default_and_needs_nothing_of_kafka() {
        let queue_url = "https://sqs.example/chunks".to_owned();
        let transport = read(&[("CHUNKS_QUEUE_URL", &queue_url)]).unwrap();
        assert_eq!(transport, ChunkTransport::Sqs { queue_url });
        assert!(read(&[("CHUNK_TRANSPORT", "")]).unwrap_err().contains("CHUNKS_QUEUE_URL is missing"));
    }

    #[test]
    fn kafka_needs_its_own_variables_and_no_queue() {
        let mut given = vec![
            ("CHUNK_TRANSPORT", "kafka"),
            ("KAFKA_BOOTSTRAP_SERVERS", "b-1.example:9092"),
            ("KAFKA_AUTHENTICATION", "none"),
        ];
        assert!(matches!(read(&given).unwrap(), ChunkTransport::Kafka(_)));
        given.truncate(1);
        let wrong = read(&given).unwrap_err();
        assert!(wrong.contains("KAFKA_BOOTSTRAP_SERVERS") && wrong.contains("KAFKA_AUTHENTICATION"));
        assert!(read(&[("CHUNK_TRANSPORT", "nats")]).unwrap_err().contains("must be sqs or kafka"));
    }
}
