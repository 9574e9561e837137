//! Helpers of the fault tests and the cluster test: access to the broker, commands, and messages.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker::{Broker as _, ConnectionSettings, Deadline};
use jiff::Timestamp;
use lapin::uri::{AMQPAuthority, AMQPUri, AMQPUserInfo};
use mq::{
    Access, Ack, AckMode, Address, Base64Bytes, BatchCount, BrokerKind, ConsumeCommand, ContentSeed,
    Credentials, Endpoint, Headers, MaxMessages, MqProps, Outgoing, Payload, ProduceCommand, ProduceFailure,
    ProduceReport, ProduceSource, QueueName, RateLimit, Selector, Tls, Transaction, WaitSeconds,
};
use rabbitmq::{RabbitMq, Settings};
use secrecy::SecretString;
use tokio::sync::watch;

use super::server::USER;

pub(crate) const PLENTY: usize = 5_000_000;
pub(crate) const COMMIT: AckMode = AckMode::Take(Ack::Commit);
/// Body of every generated message in these tests, which must not occur in any log.
pub(crate) const BODY: &str = "an order of a customer of ours";

static LOGIN: OnceLock<(u16, String)> = OnceLock::new();
static QUEUES: AtomicUsize = AtomicUsize::new(0);

/// Sets the port and password that all helpers of this process use. Panics if it is called twice.
pub(crate) fn connect_to(port: u16, password: &str) {
    LOGIN.set((port, password.to_owned())).expect("there is one broker");
}

/// Returns the broker's port, user and password, as set by [`connect_to`].
pub(crate) fn login() -> (u16, String, String) {
    let (port, password) = LOGIN.get().expect("the broker runs");
    (*port, USER.to_owned(), password.clone())
}

pub(crate) fn uri() -> AMQPUri {
    let (port, username, password) = login();
    let userinfo = AMQPUserInfo { username, password };
    AMQPUri {
        authority: AMQPAuthority { userinfo, host: "127.0.0.1".to_owned(), port },
        ..AMQPUri::default()
    }
}

pub(crate) fn access() -> Access {
    access_at(&[("127.0.0.1", login().0)])
}

pub(crate) fn access_at(addresses: &[(&str, u16)]) -> Access {
    let (_, user, password) = login();
    let address = |(host, port): &(&str, u16)| Address { host: (*host).to_owned(), port: *port };
    let addresses: Vec<_> = addresses.iter().map(address).collect();
    Access {
        endpoint: Endpoint {
            broker: BrokerKind::RabbitMq,
            queue_manager: "/".to_owned(),
            channel: None,
            special: addresses.clone().into(),
            addresses,
            ccdt_url: None,
            tls: Tls::Off,
            user: Some(user.clone()),
            password_ref: None,
        },
        credentials: Some(Credentials { user, password: SecretString::from(password) }),
        trust_store: None,
        key_store: None,
        key_files: None,
        idle: mq::IdleRule::default(),
        limits: mq::ConnectionLimits::default(),
        secret_version: "1".to_owned(),
    }
}

/// Returns `access` with the credentials of another user, and with a secret version that no other
/// access has, so that no connection is shared.
pub(crate) fn as_user(access: Access, user: &str, password: &str) -> Access {
    let credentials =
        Credentials { user: user.to_owned(), password: SecretString::from(password.to_owned()) };
    Access { credentials: Some(credentials), secret_version: format!("of {user} {}", unique()), ..access }
}

fn unique() -> String {
    format!("{}.{}", std::process::id(), QUEUES.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::try_from(format!("faults.{name}.{}", unique())).expect("a queue name")
}

pub(crate) fn after(milliseconds: u64) -> Deadline {
    Deadline::after(Duration::from_millis(milliseconds))
}

pub(crate) fn soon() -> Deadline {
    after(20_000)
}

/// Builds a produce of `count` messages with the body [`BODY`], at most `rate` a second; `None`
/// sets no limit. Equal calls give the same message ids.
pub(crate) fn messages(count: i64, rate: Option<i64>) -> Outgoing {
    outgoing(
        ProduceSource::Generated {
            count: BatchCount::try_from(count).expect("in range"),
            payload: Payload::Fixed { body: Base64Bytes(BODY.as_bytes().to_vec()) },
        },
        rate,
    )
}

pub(crate) fn outgoing(source: ProduceSource, rate: Option<i64>) -> Outgoing {
    let command = ProduceCommand {
        source,
        rate_limit_per_sec: rate.map(|rate| RateLimit::try_from(rate).expect("in range")),
        transaction: Transaction::default(),
        props: MqProps::default(),
        headers: Headers::default(),
        warnings: Vec::new(),
    };
    let at = Timestamp::from_second(1_790_000_000).expect("a time");
    Outgoing::new(
        &command,
        ContentSeed::new("tenant", "0190b5a8-0000-7000-8000-000000000001", "fingerprint", at),
    )
}

/// Returns the ids, in hexadecimal, of the produce's messages with these indices.
pub(crate) fn ids(outgoing: &Outgoing, indexes: std::ops::Range<u64>) -> BTreeSet<String> {
    indexes.map(|index| outgoing.message_id(index).to_hex()).collect()
}

/// Returns true if the broker runs at least this version of RabbitMQ. Asks the broker.
pub(crate) async fn is_at_least(major: u32, minor: u32) -> bool {
    let report = RabbitMq::new(1).test(&access(), None, soon()).await;
    let version = report.version.expect("a version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a number"));
    (parts.next(), parts.next()) >= (Some(major), Some(minor))
}

pub(crate) fn consume(mode: AckMode, max: i64) -> ConsumeCommand {
    ConsumeCommand {
        max_messages: MaxMessages::try_from(max).expect("in range"),
        wait_seconds: WaitSeconds::try_from(0).expect("in range"),
        mode,
        selector: Selector::default(),
        convert: false,
        backout: mq::BackoutRule::default(),
        warnings: Vec::new(),
    }
}

pub(crate) async fn produce(
    rabbit: &RabbitMq,
    access: &Access,
    queue: &QueueName,
    outgoing: &Outgoing,
    from: u64,
    deadline: Deadline,
) -> Result<ProduceReport, ProduceFailure> {
    rabbit.produce(access, queue, outgoing, from, &watch::Sender::new(from), deadline).await
}

/// Checks that produce, depth, fetch and commit succeed on the client that went through a fault.
/// Empties the queue.
pub(crate) async fn works_again(rabbit: &RabbitMq, access: &Access, queue: &QueueName) {
    let before = rabbit.depth(access, queue, soon()).await.expect("depth").current_depth;
    produce(rabbit, access, queue, &messages(3, None), 0, soon()).await.expect("produce");
    let command = consume(COMMIT, i64::try_from(before).unwrap() + 3);
    let unit = rabbit.fetch(access, queue, &command, PLENTY, soon()).await.expect("fetch");
    assert_eq!(u64::try_from(unit.consumed().messages.len()).unwrap(), before + 3);
    unit.commit(soon()).await.expect("commit");
    assert_eq!(rabbit.depth(access, queue, soon()).await.expect("depth").current_depth, 0);
}

/// Returns the client's default settings with a heartbeat of `seconds`.
pub(crate) fn heartbeat(seconds: u64) -> Settings {
    let connections =
        ConnectionSettings { heartbeat: Duration::from_secs(seconds), ..ConnectionSettings::default() };
    Settings { connections, ..Settings::default() }
}
