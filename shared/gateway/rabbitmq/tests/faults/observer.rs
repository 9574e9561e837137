//! Client without any code of the crate under test, which finds out what is really on a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use amqprs::FieldTable;
pub(crate) use amqprs::FieldValue;
use amqprs::channel::{BasicGetArguments, Channel, QueueDeclareArguments, QueueDeleteArguments};
use amqprs::connection::{Connection, OpenConnectionArguments};
use mq::QueueName;

use super::support;

/// Connection and channel of a client that is independent of the crate under test. Tests open it
/// after a fault, since no connection survives one.
pub(crate) struct Observer {
    channel: Channel,
    _connection: Connection,
}

impl Observer {
    pub(crate) async fn connect() -> Self {
        Self::at(support::login().0).await
    }

    /// Connects to the broker node that listens on this port of 127.0.0.1. Panics if it accepts no
    /// login within some 20 s.
    pub(crate) async fn at(port: u16) -> Self {
        let (_, user, password) = support::login();
        let arguments = OpenConnectionArguments::new("127.0.0.1", port, &user, &password);
        for _ in 0..100 {
            if let Ok(connection) = Connection::open(&arguments).await
                && let Ok(channel) = connection.open_channel(None).await
            {
                return Self { channel, _connection: connection };
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the independent client cannot connect");
    }

    /// Connects, and waits until all of these queues exist. After a crash the broker accepts logins
    /// before it has recovered all queues.
    pub(crate) async fn of(queues: &[&QueueName]) -> Self {
        let mut refused = None;
        for _ in 0..300 {
            let observer = Self::connect().await;
            match observer.find(queues).await {
                Ok(()) => return observer,
                Err(error) => refused = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{queues:?} do not answer: {refused:?}");
    }

    async fn find(&self, queues: &[&QueueName]) -> Result<(), amqprs::error::Error> {
        for queue in queues {
            let declare = QueueDeclareArguments::new(queue.as_str()).passive(true).finish();
            self.channel.queue_declare(declare).await?;
        }
        Ok(())
    }

    /// Declares a durable queue with these arguments.
    pub(crate) async fn declare(&self, queue: &QueueName, arguments: &[(&str, FieldValue)]) {
        let mut table = FieldTable::new();
        for (name, value) in arguments {
            table.insert((*name).try_into().unwrap(), value.clone());
        }
        let declare = QueueDeclareArguments::new(queue.as_str()).durable(true).arguments(table).finish();
        self.channel.queue_declare(declare).await.expect("declare");
    }

    /// Declares a queue that is exclusive to the observer's connection, so that other clients are
    /// refused.
    pub(crate) async fn declare_exclusive(&self, queue: &QueueName) {
        let declare = QueueDeclareArguments::new(queue.as_str()).exclusive(true).finish();
        self.channel.queue_declare(declare).await.expect("declare");
    }

    /// Returns the number of ready messages on a queue.
    pub(crate) async fn count(&self, queue: &QueueName) -> u64 {
        let declare = QueueDeclareArguments::new(queue.as_str()).passive(true).finish();
        self.channel.queue_declare(declare).await.expect("passive declare").expect("an answer").1.into()
    }

    /// Waits until a queue has `expected` ready messages, at most for `patience`. Returns the
    /// number that it has then.
    pub(crate) async fn settled(&self, queue: &QueueName, expected: u64, patience: Duration) -> u64 {
        let until = tokio::time::Instant::now() + patience;
        loop {
            let count = self.count(queue).await;
            if count == expected || tokio::time::Instant::now() > until {
                return count;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Removes all ready messages from a queue, and returns the number of copies of each.
    pub(crate) async fn drain(&self, queue: &QueueName) -> Messages {
        let mut messages = Messages::default();
        let get = || BasicGetArguments { queue: queue.to_string(), no_ack: true };
        while let Some((_, properties, _)) = self.channel.basic_get(get()).await.expect("get") {
            let id = properties.message_id().expect("a message id").clone();
            *messages.0.entry(id).or_default() += 1;
        }
        messages
    }

    pub(crate) async fn delete(&self, queue: &QueueName) {
        self.channel.queue_delete(QueueDeleteArguments::new(queue.as_str())).await.expect("delete");
    }
}

/// Messages that were taken from a queue: message id, and number of copies with that id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages(BTreeMap<String, usize>);

impl Messages {
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.0.keys().cloned().collect()
    }

    pub(crate) fn duplicates(&self) -> BTreeSet<String> {
        self.0.iter().filter(|(_, times)| **times > 1).map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        for (id, times) in other.0 {
            *self.0.entry(id).or_default() += times;
        }
        self
    }
}
