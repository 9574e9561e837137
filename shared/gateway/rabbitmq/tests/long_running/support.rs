//! Helpers of the tests of long-running programs: a proxy in front of the broker, which can break
//! connections, and a queue for each test.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker::Deadline;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use rabbitmq::long_running::{ConnectionArguments, ConnectionConfig};
use secrecy::SecretString;
use test_support::proxy::Proxy;

static QUEUES: AtomicUsize = AtomicUsize::new(0);

fn url() -> String {
    std::env::var("AMQP_URL").expect(
        "AMQP_URL is not set: these tests need a RabbitMQ broker; run them with `make test`, which starts one",
    )
}

pub(crate) fn uri() -> AMQPUri {
    url().parse().expect("AMQP_URL is an AMQP URL")
}

pub(crate) async fn proxy() -> Proxy {
    let broker = uri().authority;
    Proxy::start((broker.host, broker.port)).await
}

/// Returns the connection arguments of a program that connects to the broker through `port` of this
/// host.
pub(crate) fn arguments(port: u16) -> ConnectionArguments {
    let uri = uri();
    ConnectionArguments {
        host: Some("127.0.0.1".to_owned()),
        port: Some(port.into()),
        user: Some(uri.authority.userinfo.username),
        password: Some(SecretString::from(uri.authority.userinfo.password)),
        vhost: Some(uri.vhost),
        ..Default::default()
    }
}

/// Returns the configuration that results from these arguments and the defaults, without
/// environment variables and file.
pub(crate) fn load(arguments: &ConnectionArguments) -> ConnectionConfig {
    arguments.load_from(|_| None, Path::new("no-such-file")).unwrap()
}

pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

/// Queue of a single test, with a connection and a channel of an independent client.
pub(crate) struct Queue {
    _connection: Connection,
    channel: Channel,
    pub(crate) name: ShortString,
}

impl Queue {
    pub(crate) async fn declare() -> Self {
        let connection = Connection::connect(&url(), ConnectionProperties::default()).await.expect("connect");
        let channel = connection.create_channel().await.expect("channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let number = QUEUES.fetch_add(1, Ordering::Relaxed);
        let name = ShortString::from(format!("test.connection.{}.{number}", std::process::id()));
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(name.clone(), options, FieldTable::default()).await.expect("declare");
        Self { _connection: connection, channel, name }
    }

    pub(crate) async fn put(&self, body: &[u8]) {
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let properties = BasicProperties::default();
        let confirm = self.channel.basic_publish("".into(), self.name.clone(), options, body, properties);
        let confirm = confirm.await.expect("publish").await.expect("confirm");
        assert!(confirm.is_ack() && confirm.take_message().is_none());
    }

    /// Waits until the queue has `expected` ready messages, for a limited time. Returns the number
    /// that it has then.
    pub(crate) async fn ready(&self, expected: u32) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let mut ready = 0;
        for _ in 0..100 {
            let queue = self.channel.queue_declare(self.name.clone(), options, FieldTable::default()).await;
            ready = queue.expect("passive declare").message_count();
            if ready == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        ready
    }

    pub(crate) async fn delete(self) {
        self.channel.queue_delete(self.name, QueueDeleteOptions::default()).await.expect("delete");
    }
}
