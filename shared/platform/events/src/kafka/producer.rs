//! Producer for a Kafka topic. It sends records in bounded batches, which all in-sync replicas
//! acknowledge.

use std::time::Duration;

use attempt::{Deadline, Moment, Retry, Retryable};
use krafka::producer::{Acks, DeliveryHandle};
use krafka::{Kafka, KrafkaError};
use tokio::sync::Mutex;

use crate::kafka::cluster::REQUEST;
use crate::kafka::connect::of_client;
use crate::kafka::{Cluster, ConnectError};

/// Number of records that are sent together, before their acknowledgements are awaited.
const AT_ONCE: usize = 500;
/// Maximum bytes of records for one partition in one request. Brokers accept 1 MB by default.
const REQUEST_BYTES: usize = 256 * 1024;

/// Kafka record to send to a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    key: String,
    value: Vec<u8>,
    headers: Vec<(&'static str, String)>,
}

/// Reason why sending records failed. Some of the records may have been written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum ProduceError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot produce to the topic `{topic}` at {servers}")]
    Refused {
        topic: String,
        servers: String,
        #[source]
        source: KrafkaError,
    },
    #[error("the topic `{topic}` at {servers} did not take {records} records in time")]
    OutOfTime { topic: String, servers: String, records: usize },
}

impl Retryable for ProduceError {
    fn retry(&self) -> Retry {
        match self {
            Self::Connect(error) => error.retry(),
            Self::Refused { source, .. } => of_client(source),
            Self::OutOfTime { .. } => Retry::Later,
        }
    }
}

impl Record {
    /// Creates a record. Kafka keeps the order of records with the same key.
    #[must_use]
    pub fn new(key: impl Into<String>, value: Vec<u8>) -> Self {
        Self { key: key.into(), value, headers: Vec::new() }
    }

    /// Adds a header to the record.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn to(self, topic: &str) -> krafka::Record {
        let record = krafka::Record::new(topic, self.value).key(self.key);
        self.headers.into_iter().fold(record, |record, (name, value)| record.header(name, value))
    }
}

/// Kafka producer for one topic of a cluster.
#[derive(Debug)]
pub struct Producer {
    cluster: Cluster,
    /// Connected client; `None` before the first use, while records are sent, and after a failure
    /// or a dropped call.
    client: Mutex<Option<Client>>,
}

#[derive(Debug)]
struct Client {
    producer: krafka::producer::Producer,
    /// Client that owns the connections, and must live as long as the producer.
    _kafka: Kafka,
    last_used: Moment,
}

impl Producer {
    /// Creates a producer. It connects when the first records are sent.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, client: Mutex::new(None) }
    }

    /// Returns the name of the Kafka topic.
    pub(crate) fn topic(&self) -> &str {
        self.cluster.settings.topic.as_str()
    }

    /// Sends records in order, and returns once all in-sync replicas have them. Concurrent calls
    /// wait for each other. Connecting and each batch of 500 records may take ten seconds.
    ///
    /// # Errors
    /// If the cluster did not acknowledge every record. Records of earlier batches and of the
    /// failed batch may have been written.
    pub async fn send(&self, records: Vec<Record>) -> Result<(), ProduceError> {
        // Nothing to send is no reason to connect.
        if records.is_empty() {
            return Ok(());
        }
        let mut slot = self.client.lock().await;
        let kept = slot.take().filter(|client| client.last_used.age() < self.cluster.max_idle);
        let mut client = match kept {
            Some(client) => client,
            None => self.connect().await?,
        };
        let mut records = records.into_iter();
        loop {
            let batch: Vec<Record> = records.by_ref().take(AT_ONCE).collect();
            if batch.is_empty() {
                break;
            }
            self.send_batch(&client, batch).await?;
        }
        client.last_used = Moment::now();
        *slot = Some(client);
        Ok(())
    }

    async fn connect(&self) -> Result<Client, ProduceError> {
        let kafka = self.cluster.connect().await?;
        let producer = kafka
            .producer()
            .acks(Acks::All)
            .idempotent(true)
            .batch_size(REQUEST_BYTES)
            .linger(Duration::ZERO)
            // The batch's own deadline passes shortly before this one, unless the client reports a
            // reason.
            .delivery_timeout(self.cluster.timeout.max(REQUEST))
            .max_block(self.cluster.timeout)
            .metrics_push(false)
            .build();
        let producer = producer.await.map_err(|source| self.refused(source))?;
        Ok(Client { producer, _kafka: kafka, last_used: Moment::now() })
    }

    async fn send_batch(&self, client: &Client, batch: Vec<Record>) -> Result<(), ProduceError> {
        let topic = self.topic();
        let records = batch.len();
        let sending = async {
            let mut handles: Vec<DeliveryHandle> = Vec::with_capacity(records);
            for record in batch {
                handles.push(client.producer.enqueue(record.to(topic)).await?);
            }
            for handle in handles {
                let _place = handle.await?;
            }
            Ok(())
        };
        // The client's own limit gives a more precise error, so it passes first.
        let deadline = Deadline::after(self.cluster.timeout + Duration::from_secs(1));
        match deadline.run(Box::pin(sending)).await {
            Ok(sent) => sent.map_err(|source| self.refused(source)),
            Err(_) => Err(ProduceError::OutOfTime {
                topic: topic.to_owned(),
                servers: self.cluster.settings.servers.to_string(),
                records,
            }),
        }
    }

    fn refused(&self, source: KrafkaError) -> ProduceError {
        let settings = &self.cluster.settings;
        ProduceError::Refused {
            topic: settings.topic.to_string(),
            servers: settings.servers.to_string(),
            source,
        }
    }
}
