//! Producer of records for a Kafka topic, the creation of the topic, and its state.
//!
//! ```no_run
//!
//! # async fn example(sdk: &runtime::Sdk) -> Result<(), Box<dyn std::error::Error>> {
//! let mut environment = runtime::Environment::of_process();
//! let settings = events::kafka::Settings::read(&mut environment);
//! environment.check()?;
//! let producer = events::kafka::Producer::new(events::kafka::Cluster::new(settings, sdk));
//! producer.send(vec![events::kafka::Record::new("05927228000145", b"{}".to_vec())]).await?;
//!
//! # Ok(())
//!
//! # }
//! ```
//!
//! A [`Producer`] outlives invocations and keeps one client. Before the first records, after a
//! failure, and after a minute without records it creates a new one: it reads the secret again, and
//! connects again. So connections that broke while the function was frozen, rotated secrets and
//! moved brokers need no restart.
//!
//! Records with the same key go to the same partition, the one that the Java client chooses
//! (murmur2). [`Producer::send`] returns when every in-sync replica has all records. Within one
//! client, the broker drops repetitions of a record by its sequence number. A failed call may have
//! written some of its records, and a repeated call writes them again. Readers recognise a
//! repetition by the event's `idempotencykey`.

mod cluster;
mod connect;
mod producer;
mod secret;
mod settings;
mod topic;
mod watch;

pub use cluster::Cluster;
pub use connect::{ConnectError, SecretFault};
pub use producer::{ProduceError, Producer, Record};
pub use settings::{Authentication, BootstrapServers, EventTopics, Settings, TopicName};
pub use topic::{Topic, TopicError, TopicPlan, TopicState};
pub use watch::{PartitionLag, TopicWatch, WatchError};
