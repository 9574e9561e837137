//! Helpers of the RabbitMQ tests: the broker that `AMQP_URL` names, commands, and an independent
//! client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker::{Broker as _, Deadline};
use jiff::Timestamp;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use mq::{
    Access, Ack, AckMode, Address, BatchCount, BrokerKind, ConsumeCommand, ContentSeed, Credentials,
    Endpoint, ExplicitMessage, Headers, MaxMessages, MessageSize, MqProps, Outgoing, Payload, ProduceCommand,
    ProduceSource, QueueName, Selector, Tls, Transaction, WaitSeconds,
};
use rabbitmq::RabbitMq;
use secrecy::SecretString;
use tokio::sync::watch;

pub(crate) const PLENTY: usize = 5_000_000;

static QUEUES: AtomicUsize = AtomicUsize::new(0);

fn url() -> String {
    std::env::var("AMQP_URL").expect(
        "AMQP_URL is not set: these tests need a RabbitMQ broker; run them with `make test`, which starts one",
    )
}

pub(crate) fn uri() -> AMQPUri {
    url().parse().expect("AMQP_URL is an AMQP URL")
}

/// Returns the access to the broker and the virtual host of `AMQP_URL`, with its user.
pub(crate) fn access() -> Access {
    let uri = uri();
    access_at(&[(&uri.authority.host, uri.authority.port)])
}

pub(crate) fn access_at(addresses: &[(&str, u16)]) -> Access {
    let uri = uri();
    let address = |(host, port): &(&str, u16)| Address { host: (*host).to_owned(), port: *port };
    let addresses: Vec<_> = addresses.iter().map(address).collect();
    Access {
        endpoint: Endpoint {
            broker: BrokerKind::RabbitMq,
            queue_manager: uri.vhost,
            channel: None,
            special: addresses.clone().into(),
            addresses,
            ccdt_url: None,
            tls: Tls::Off,
            user: Some(uri.authority.userinfo.username.clone()),
            password_ref: None,
        },
        credentials: Some(Credentials {
            user: uri.authority.userinfo.username,
            password: SecretString::from(uri.authority.userinfo.password),
        }),
        trust_store: None,
        key_store: None,
        key_files: None,
        idle: mq::IdleRule::default(),
        limits: mq::ConnectionLimits::default(),
        secret_version: "1".to_owned(),
    }
}

pub(crate) fn rabbit() -> RabbitMq {
    RabbitMq::new(5)
}

/// Returns true if the test broker runs at least this version of RabbitMQ. Asks the broker.
pub(crate) async fn is_at_least(major: u32, minor: u32) -> bool {
    let report = rabbit().test(&access(), None, soon()).await;
    let version = report.version.expect("a version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a number"));
    (parts.next(), parts.next()) >= (Some(major), Some(minor))
}

pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

/// Queue of a single test, with a connection and a channel of an independent client.
/// [`Bench::clean`] deletes the queue.
pub(crate) struct Bench {
    pub(crate) connection: Connection,
    pub(crate) channel: Channel,
    pub(crate) queue: QueueName,
}

impl Bench {
    pub(crate) async fn new(name: &str) -> Self {
        Self::with(name, QueueDeclareOptions { durable: true, ..Default::default() }, &[]).await
    }

    pub(crate) async fn with(
        name: &str,
        options: QueueDeclareOptions,
        arguments: &[(&str, AMQPValue)],
    ) -> Self {
        let bench = Self::absent(name).await;
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        bench.channel.queue_declare(bench.queue.as_str().into(), options, table).await.expect("declare");
        bench
    }

    /// Connects the independent client, and chooses a queue name, but declares no queue.
    pub(crate) async fn absent(name: &str) -> Self {
        let connection = Connection::connect(&url(), ConnectionProperties::default()).await.expect("connect");
        let channel = connection.create_channel().await.expect("channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let number = QUEUES.fetch_add(1, Ordering::Relaxed);
        let queue = format!("test.rabbitmq.{name}.{}.{number}", std::process::id());
        Self { connection, channel, queue: QueueName::try_from(queue).expect("a queue name") }
    }

    pub(crate) async fn put(&self, body: &[u8], properties: BasicProperties) {
        let name = self.queue.as_str().into();
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let confirm = self.channel.basic_publish("".into(), name, options, body, properties).await;
        let confirm = confirm.expect("publish").await.expect("confirm");
        assert!(confirm.is_ack() && confirm.take_message().is_none());
    }

    pub(crate) async fn put_numbered(&self, count: usize) {
        for index in 0..count {
            self.put(format!("m{index}").as_bytes(), BasicProperties::default()).await;
        }
    }

    /// Takes one message from the queue, acknowledged at once. Returns `None` if no message is
    /// ready.
    pub(crate) async fn get(&self) -> Option<lapin::message::Delivery> {
        let options = BasicGetOptions { no_ack: true };
        let got = self.channel.basic_get(self.queue.as_str().into(), options).await.expect("get");
        got.map(|message| message.delivery)
    }

    pub(crate) async fn bodies(&self) -> Vec<String> {
        let mut bodies = Vec::new();
        while let Some(delivery) = self.get().await {
            bodies.push(String::from_utf8(delivery.data).expect("text"));
        }
        bodies
    }

    /// Returns the number of ready messages on the queue.
    pub(crate) async fn count(&self) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let name = self.queue.as_str().into();
        let queue = self.channel.queue_declare(name, options, FieldTable::default()).await;
        queue.expect("passive declare").message_count()
    }

    /// Waits up to some 5 s until the queue has `expected` ready messages. Returns the number that
    /// it has then.
    pub(crate) async fn ready(&self, expected: u32) -> u32 {
        let mut ready = 0;
        for _ in 0..100 {
            ready = self.count().await;
            if ready == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        ready
    }

    pub(crate) async fn clean(self) {
        let channel = self.connection.create_channel().await.expect("channel");
        let name = self.queue.as_str().into();
        channel.queue_delete(name, QueueDeleteOptions::default()).await.expect("delete");
    }
}

pub(crate) fn consume(mode: AckMode, max: i64, wait: i64) -> ConsumeCommand {
    ConsumeCommand {
        max_messages: MaxMessages::try_from(max).expect("in range"),
        wait_seconds: WaitSeconds::try_from(wait).expect("in range"),
        mode,
        selector: Selector::default(),
        convert: false,
        backout: mq::BackoutRule::default(),
        warnings: Vec::new(),
    }
}

pub(crate) const COMMIT: AckMode = AckMode::Take(Ack::Commit);
pub(crate) const ROLLBACK: AckMode = AckMode::Take(Ack::Rollback);
pub(crate) const NONE: AckMode = AckMode::Take(Ack::None);

/// Returns a sender for the number of confirmed messages of a produce, for tests that do not read
/// it.
pub(crate) fn unwatched() -> watch::Sender<u64> {
    watch::Sender::new(0)
}

pub(crate) fn seed() -> ContentSeed {
    let at = Timestamp::from_second(1_790_000_000).expect("a time");
    ContentSeed::new("tenant", "0190b5a8-0000-7000-8000-000000000001", "fingerprint", at)
}

pub(crate) fn command(source: ProduceSource) -> ProduceCommand {
    ProduceCommand {
        source,
        rate_limit_per_sec: None,
        transaction: Transaction::default(),
        props: MqProps::default(),
        headers: Headers::default(),
        warnings: Vec::new(),
    }
}

pub(crate) fn random(count: i64, size: i64) -> ProduceSource {
    ProduceSource::Generated {
        count: BatchCount::try_from(count).expect("in range"),
        payload: Payload::Random { size: MessageSize::try_from(size).expect("in range") },
    }
}

pub(crate) fn explicit(bodies: &[&str]) -> ProduceSource {
    ProduceSource::Explicit { messages: bodies.iter().map(|body| ExplicitMessage::of_text(body)).collect() }
}

pub(crate) fn outgoing(source: ProduceSource) -> Outgoing {
    Outgoing::new(&command(source), seed())
}
