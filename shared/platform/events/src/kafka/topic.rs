//! Existence and creation of a Kafka topic.

use attempt::{Deadline, Retry, Retryable};
use krafka::admin::{CreateTopicsOptions, DescribeTopicsOptions, NewTopic};
use krafka::error::ErrorCode;
use krafka::{Kafka, KrafkaError};
use runtime::Environment;

use crate::kafka::connect::of_client;
use crate::kafka::{Cluster, ConnectError};

/// Default of `KAFKA_CHUNKS_PARTITIONS`, the number of partitions with which a missing topic is
/// created.
const PARTITIONS: u16 = 12;

/// Parameters with which a missing Kafka topic is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicPlan {
    /// Number of partitions of the new topic, at least 1. Lambda reads each partition with one
    /// execution environment at a time.
    pub partitions: u16,
    /// Replication factor of the new topic; `None` for the cluster's default.
    pub replication: Option<u16>,
}

/// Result of [`Topic::ensure`]: the topic was created, or existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicState {
    /// The topic did not exist and was created.
    Created,
    /// The topic exists. It is not changed.
    Exists {
        /// Number of partitions that the existing topic has, which may differ from the plan.
        partitions: usize,
    },
}

/// Reason why it is unknown whether a Kafka topic exists, or why the topic could not be created.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum TopicError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the topic `{0}` does not exist, and this login may not create it: let an administrator do so")]
    MayNotCreate(String),
    #[error("cannot create the topic `{topic}` with {partitions} partitions")]
    Refused {
        topic: String,
        partitions: u16,
        #[source]
        source: KrafkaError,
    },
    #[error("the cluster did not answer in time whether the topic `{0}` exists")]
    OutOfTime(String),
}

impl Retryable for TopicError {
    fn retry(&self) -> Retry {
        match self {
            Self::Connect(error) => error.retry(),
            Self::MayNotCreate(_) => Retry::AfterRepair,
            Self::Refused { source, .. } => of_client(source),
            Self::OutOfTime(_) => Retry::Later,
        }
    }
}

impl TopicPlan {
    /// Reads `KAFKA_CHUNKS_PARTITIONS` (12 by default) and `KAFKA_CHUNKS_REPLICATION` (the
    /// cluster's default if it is absent, empty or 0).
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let partitions = environment.optional("KAFKA_CHUNKS_PARTITIONS", PARTITIONS);
        if partitions == 0 {
            environment.refuse("KAFKA_CHUNKS_PARTITIONS: must be at least 1");
        }
        let replication: u16 = environment.optional("KAFKA_CHUNKS_REPLICATION", 0);
        if i16::try_from(replication).is_err() {
            environment.refuse("KAFKA_CHUNKS_REPLICATION: must be at most 32767");
        }
        Self { partitions, replication: Some(replication).filter(|copies| *copies > 0) }
    }
}

/// Kafka topic that is created according to a plan if it is missing.
#[derive(Clone, Debug)]
pub struct Topic {
    cluster: Cluster,
    plan: TopicPlan,
}

impl Topic {
    /// Creates the handle of the topic, without contacting the cluster.
    #[must_use]
    pub const fn new(cluster: Cluster, plan: TopicPlan) -> Self {
        Self { cluster, plan }
    }

    /// Returns the name of the Kafka topic.
    #[must_use]
    pub fn name(&self) -> &str {
        self.cluster.settings.topic.as_str()
    }

    /// Creates the Kafka topic if no topic of its name exists. An existing topic is left unchanged,
    /// and needs no permission to create topics.
    ///
    /// # Errors
    /// If the topic does not exist and cannot be created, or if the cluster cannot be reached.
    pub async fn ensure(&self) -> Result<TopicState, TopicError> {
        let kafka = self.cluster.connect().await?;
        let name = self.name();
        let ensuring = async {
            match self.existing(&kafka).await? {
                Some(state) => Ok(state),
                None => self.create(&kafka).await,
            }
        };
        // Twice the time limit: two requests, one after the other.
        let deadline = Deadline::after(self.cluster.timeout * 2);
        let ensured = deadline.run(Box::pin(ensuring)).await;
        ensured.map_err(|_| TopicError::OutOfTime(name.to_owned()))?
    }

    async fn existing(&self, kafka: &Kafka) -> Result<Option<TopicState>, TopicError> {
        let name = self.name();
        let options = DescribeTopicsOptions::default().timeout(self.cluster.timeout);
        let answer = kafka.admin().describe_topics([name], options).await;
        let described = answer.map_err(|source| self.refused(source))?.remove(name);
        match described {
            Some(Ok(topic)) => Ok(Some(TopicState::Exists { partitions: topic.partitions.len() })),
            None
            | Some(Err(
                KrafkaError::UnknownTopic { .. }
                | KrafkaError::Broker { code: ErrorCode::UnknownTopicOrPartition, .. },
            )) => Ok(None),
            Some(Err(source)) => Err(self.refused(source)),
        }
    }

    async fn create(&self, kafka: &Kafka) -> Result<TopicState, TopicError> {
        let name = self.name();
        let replication = self.plan.replication.and_then(|copies| i16::try_from(copies).ok()).unwrap_or(-1);
        let topic = NewTopic::new(name, i32::from(self.plan.partitions), replication);
        let topic = topic.map_err(|source| self.refused(source))?;
        let options = CreateTopicsOptions::default().timeout(self.cluster.timeout);
        let answer = kafka.admin().create_topics([topic], options).await;
        let created = answer.map_err(|source| self.refused(source))?.remove(name);
        match created {
            Some(Ok(())) => Ok(TopicState::Created),
            // Another process created it first.
            Some(Err(KrafkaError::Broker { code: ErrorCode::TopicAlreadyExists, .. })) => {
                self.existing(kafka).await?.ok_or_else(|| TopicError::OutOfTime(name.to_owned()))
            }
            Some(Err(KrafkaError::Broker {
                code: ErrorCode::TopicAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed,
                ..
            })) => Err(TopicError::MayNotCreate(name.to_owned())),
            Some(Err(source)) => Err(self.refused(source)),
            None => Err(TopicError::OutOfTime(name.to_owned())),
        }
    }

    fn refused(&self, source: KrafkaError) -> TopicError {
        TopicError::Refused {
            topic: self.cluster.settings.topic.to_string(),
            partitions: self.plan.partitions,
            source,
        }
    }
}
