//! RabbitMQ server of one version, with the client under test and an independent client.

use std::time::Duration;

use amqprs::FieldTable;
pub(crate) use amqprs::FieldValue;
use amqprs::channel::{
    BasicGetArguments, BasicRejectArguments, Channel, QueueDeclareArguments, QueueDeleteArguments,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use broker::{Broker as _, Deadline};
use mq::{Access, Address, BrokerKind, Credentials, Endpoint, QueueName, Tls};
use rabbitmq::{RabbitMq, Settings};
use secrecy::SecretString;
use test_support::rabbitmq::{Node, RabbitMq as Server};
use test_support::root::Root;

const USER: &str = "app";
const PASSWORD: &str = "only-for-tests";

/// Content of the server's `advanced.config`: quorum queues retry unconfirmed dead letters every
/// half second, instead of every three minutes.
const ADVANCED: &str = "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 500}]}].\n";

/// Memory limit in bytes of [`Broker::narrow`], which two of the test messages fit into, but not
/// three.
const TWO_MESSAGES: usize = 5_000;

pub(crate) struct Broker {
    pub(crate) gateway: RabbitMq,
    /// Client under test whose fetches hold at most two test messages in memory.
    pub(crate) narrow: RabbitMq,
    pub(crate) access: Access,
    channel: Channel,
    _connection: Connection,
    _server: Server,
}

impl Broker {
    pub(crate) async fn start(root: Root) -> Self {
        let server = Server::start(root, "versions@localhost", |Node { home, .. }| {
            std::fs::write(home.join("advanced.config"), ADVANCED).unwrap();
            let lines = format!(
                "default_user = {USER}\ndefault_pass = {PASSWORD}\ndisk_free_limit.absolute = 50MB\n"
            );
            (lines, [])
        })
        .await;
        let port = server.node.port;
        let arguments = OpenConnectionArguments::new("127.0.0.1", port, USER, PASSWORD);
        let connection = Connection::open(&arguments).await.expect("connect");
        let channel = connection.open_channel(None).await.expect("open a channel");
        let this = Self {
            gateway: RabbitMq::new(5),
            narrow: RabbitMq::with_settings(Settings { most_held: TWO_MESSAGES, ..Settings::default() }),
            access: access(port),
            channel,
            _connection: connection,
            _server: server,
        };
        this.is_usable().await;
        this
    }

    /// Waits until quorum queues can be declared, which is not possible in the first moments after
    /// the start.
    async fn is_usable(&self) {
        let queue = QueueName::try_from("first".to_owned()).unwrap();
        self.declare(&queue, &[("x-queue-type", text("quorum"))]).await;
        self.delete(&queue).await;
    }

    /// Returns the major and minor number of the server's version, such as `4.3`.
    pub(crate) async fn version(&self) -> String {
        let report = self.gateway.test(&self.access, None, soon()).await;
        let version = report.version.expect("a version");
        version.split('.').take(2).collect::<Vec<_>>().join(".")
    }

    /// Declares a durable queue with these arguments by the independent client.
    pub(crate) async fn declare(&self, queue: &QueueName, arguments: &[(&str, FieldValue)]) {
        let mut table = FieldTable::new();
        for (name, value) in arguments {
            table.insert((*name).try_into().unwrap(), value.clone());
        }
        let declare = QueueDeclareArguments::new(queue.as_str()).durable(true).arguments(table).finish();
        self.channel.queue_declare(declare).await.expect("declare");
    }

    /// Waits until a queue has `expected` ready messages, at most for `patience`. Returns the
    /// number that it has then.
    pub(crate) async fn settled(&self, queue: &QueueName, expected: u32, patience: Duration) -> u32 {
        let until = tokio::time::Instant::now() + patience;
        loop {
            let declare = QueueDeclareArguments::new(queue.as_str()).passive(true).finish();
            let (_, ready, _) = self.channel.queue_declare(declare).await.expect("ask").expect("an answer");
            if ready == expected || tokio::time::Instant::now() > until {
                return ready;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Takes all messages from a queue, acknowledged at once, and returns their bodies.
    pub(crate) async fn bodies(&self, queue: &QueueName) -> Vec<String> {
        let mut bodies = Vec::new();
        let get = || BasicGetArguments { queue: queue.to_string(), no_ack: true };
        while let Some((_, _, body)) = self.channel.basic_get(get()).await.expect("get") {
            bodies.push(String::from_utf8(body).expect("text"));
        }
        bodies
    }

    /// Takes `count` messages from a queue, and rejects them without requeueing, as a failing
    /// consumer does.
    pub(crate) async fn reject(&self, queue: &QueueName, count: u32) {
        assert_eq!(self.settled(queue, count, Duration::from_secs(5)).await, count);
        for _ in 0..count {
            let get = BasicGetArguments { queue: queue.to_string(), no_ack: false };
            let (got, _, _) = self.channel.basic_get(get).await.expect("get").expect("a message");
            let reject = BasicRejectArguments { delivery_tag: got.delivery_tag(), requeue: false };
            self.channel.basic_reject(reject).await.expect("reject");
        }
    }

    pub(crate) async fn delete(&self, queue: &QueueName) {
        self.channel.queue_delete(QueueDeleteArguments::new(queue.as_str())).await.expect("delete");
    }
}

pub(crate) fn text(text: &str) -> FieldValue {
    FieldValue::S(text.try_into().unwrap())
}

pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

fn access(port: u16) -> Access {
    let addresses = vec![Address { host: "127.0.0.1".to_owned(), port }];
    Access {
        endpoint: Endpoint {
            broker: BrokerKind::RabbitMq,
            queue_manager: "/".to_owned(),
            channel: None,
            special: addresses.clone().into(),
            addresses,
            ccdt_url: None,
            tls: Tls::Off,
            user: Some(USER.to_owned()),
            password_ref: None,
        },
        credentials: Some(Credentials { user: USER.to_owned(), password: SecretString::from(PASSWORD) }),
        trust_store: None,
        key_store: None,
        key_files: None,
        idle: mq::IdleRule::default(),
        limits: mq::ConnectionLimits::default(),
        secret_version: "1".to_owned(),
    }
}
