//! State of a Kafka topic, and the lag of the consumer group that reads it. No record is read or
//! written.

use std::time::Duration;

use attempt::Moment;
use krafka::admin::{
    ConsumerGroupLagOptions, DescribeTopicsOptions, ListOffsetsOptions, OffsetSpec, TopicPartition,
};
use krafka::{Kafka, KrafkaError};
use tokio::sync::Mutex;

use crate::kafka::cluster::REQUEST;
use crate::kafka::{Cluster, ConnectError};

/// Maximum idle time of a Kafka client that is used again, so that a check each minute logs in only
/// once. The limit of a producer is shorter, because its writes cannot be repeated on a new
/// connection, as these reads can.
const MAX_IDLE: Duration = Duration::from_secs(240);

/// Consumer lag of a Kafka partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    /// Number of the partition in its topic, from 0.
    pub partition: i32,
    /// Number of records between the consumer group's committed offset and the end of the
    /// partition; all records of the partition if the group has committed no offset, because it
    /// then reads from the beginning.
    pub records: u64,
}

/// Reason why the lag of a Kafka topic is unknown, or why the topic cannot accept records.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum WatchError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("Kafka does not say how the topic `{topic}` is")]
    Refused {
        topic: String,
        #[source]
        source: KrafkaError,
    },
    #[error("Kafka's answer lacks a part of the topic `{0}`")]
    Incomplete(String),
    #[error("the topic `{topic}` has {partitions} partitions without a leader")]
    WithoutLeader { topic: String, partitions: usize },
}

/// Client that checks whether a Kafka topic can accept records, and reads the lag of the consumer
/// group that reads the topic.
#[derive(Debug)]
pub struct TopicWatch {
    cluster: Cluster,
    group: String,
    /// Connected client. `None` before the first request, during a request on a kept connection,
    /// and after such a request has failed or was cancelled.
    client: Mutex<Option<Client>>,
}

#[derive(Debug)]
struct Client {
    kafka: Kafka,
    last_used: Moment,
}

impl TopicWatch {
    /// Creates a client for the cluster's topic and the consumer group `group`. The first request
    /// connects to the cluster.
    #[must_use]
    pub fn new(cluster: Cluster, group: String) -> Self {
        Self { cluster, group, client: Mutex::new(None) }
    }

    /// Checks that the cluster responds, and that each partition of the topic has a leader, without
    /// which the partition accepts no records.
    ///
    /// # Errors
    /// If the cluster does not respond, if the topic is missing, or if a partition has no leader.
    pub async fn probe(&self) -> Result<(), WatchError> {
        let mut slot = self.client.lock().await;
        let kafka = self.connected(&mut slot).await?;
        self.partitions(&kafka).await?;
        *slot = Some(Client { kafka, last_used: Moment::now() });
        Ok(())
    }

    /// Returns the consumer group's lag in each partition, ordered by partition.
    ///
    /// # Errors
    /// If the cluster does not respond, if its response lacks a partition, or if a partition has no
    /// leader.
    pub async fn lag(&self) -> Result<Vec<PartitionLag>, WatchError> {
        let mut slot = self.client.lock().await;
        let kafka = self.connected(&mut slot).await?;
        let mut lag = self.lag_in(&kafka).await?;
        *slot = Some(Client { kafka, last_used: Moment::now() });
        lag.sort_unstable_by_key(|of| of.partition);
        Ok(lag)
    }

    /// Takes the client out of `slot` if it was used in the last four minutes, and otherwise
    /// connects a new one. A new client is left in `slot` even if its first request fails: logging
    /// in to all brokers may take longer than the caller waits.
    async fn connected(&self, slot: &mut Option<Client>) -> Result<Kafka, WatchError> {
        if let Some(kept) = slot.take().filter(|client| client.last_used.age() < MAX_IDLE) {
            return Ok(kept.kafka);
        }
        let kafka = self.cluster.connect().await?;
        *slot = Some(Client { kafka: kafka.clone(), last_used: Moment::now() });
        Ok(kafka)
    }

    /// Returns the partitions of the topic. Fails if one of them has no leader.
    async fn partitions(&self, kafka: &Kafka) -> Result<Vec<TopicPartition>, WatchError> {
        let topic = self.topic();
        let options = DescribeTopicsOptions::default().timeout(REQUEST);
        let asked = kafka.admin().describe_topics([topic], options).await;
        let described = asked.map_err(|source| self.refused(source))?.remove(topic);
        let described = described.ok_or_else(|| WatchError::Incomplete(topic.to_owned()))?;
        let partitions = described.map_err(|source| self.refused(source))?.partitions;
        match partitions.iter().filter(|partition| partition.leader.is_none()).count() {
            0 => Ok(partitions.iter().map(|of| TopicPartition::new(topic, of.partition)).collect()),
            without => Err(WatchError::WithoutLeader { topic: topic.to_owned(), partitions: without }),
        }
    }

    async fn lag_in(&self, kafka: &Kafka) -> Result<Vec<PartitionLag>, WatchError> {
        let partitions = self.partitions(kafka).await?;
        let admin = kafka.admin();
        let options = ConsumerGroupLagOptions::default().timeout(REQUEST).partitions(partitions);
        let asked = admin.consumer_group_lag(self.group.as_str(), options).await;
        let (mut found, mut untouched) = (Vec::new(), Vec::new());
        for (partition, lag) in asked.map_err(|source| self.refused(source))? {
            let lag = lag.map_err(|source| self.refused(source))?;
            match lag.lag {
                Some(records) => found.push(of_partition(&partition, records)),
                None => untouched.push((partition, lag.end_offset)),
            }
        }
        if untouched.is_empty() {
            return Ok(found);
        }
        let begins = untouched.iter().map(|(partition, _)| (partition.clone(), OffsetSpec::Earliest));
        let asked = admin.list_offsets(begins, ListOffsetsOptions::default().timeout(REQUEST)).await;
        let mut begins = asked.map_err(|source| self.refused(source))?;
        for (partition, end) in untouched {
            let begin = begins.remove(&partition);
            let begin = begin.ok_or_else(|| WatchError::Incomplete(self.topic().to_owned()))?;
            let begin = begin.map_err(|source| self.refused(source))?.offset;
            found.push(of_partition(&partition, end.saturating_sub(begin)));
        }
        Ok(found)
    }

    fn topic(&self) -> &str {
        self.cluster.settings.topic.as_str()
    }

    fn refused(&self, source: KrafkaError) -> WatchError {
        WatchError::Refused { topic: self.topic().to_owned(), source }
    }
}

/// Returns the lag of a partition. A negative number of `records` counts as 0: the end of the
/// partition may have been read before its beginning.
fn of_partition(partition: &TopicPartition, records: i64) -> PartitionLag {
    PartitionLag { partition: partition.partition, records: u64::try_from(records).unwrap_or(0) }
}
