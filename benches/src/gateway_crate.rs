//! The crate `rabbitmq` through `broker::Broker`, as mq-access uses it: ids, bodies and headers made
//! for every message, every message measured, and units of work of the size that a request may
//! have.

use std::time::Duration;

use broker::{Broker as _, Deadline};
use lapin::uri::AMQPUri;
use mq::{
    Access, Ack, AckMode, Address, BatchCount, BrokerError, BrokerKind, ConsumeCommand, ContentSeed,
    Credentials, Endpoint, Headers, MaxMessages, MessageSize, MqProps, Outgoing, Payload, ProduceCommand,
    ProduceSource, QueueName, Selector, Tls, Transaction, WaitSeconds,
};
use rabbitmq::RabbitMq;
use secrecy::SecretString;
use tokio::sync::watch;

use crate::cpu::Stopwatch;
use crate::error::Error;
use crate::run::{Job, Run};

/// Most messages that a request may take, and put.
const MAX_FETCHED: u32 = 10_000;
const MAX_PRODUCED: u32 = 100_000;
/// More than any call fetches: what is compared is taking messages, not what an answer can carry.
const PLENTY: usize = 1 << 30;
const CONNECTIONS: usize = 5;
const BODY_BYTES: i64 = 1024;

pub(crate) async fn run(url: &str, job: Job, queue: &str, messages: u32) -> Result<Run, Error> {
    let access = access(url)?;
    let queue = QueueName::try_from(queue.to_owned()).map_err(Error::Unexpected)?;
    let rabbit = RabbitMq::new(CONNECTIONS);
    // Opens the connection.
    rabbit.depth(&access, &queue, soon()).await?;
    match job {
        Job::Produce => produce(&rabbit, &access, &queue, messages).await,
        Job::Consume => consume(&rabbit, &access, &queue, messages).await,
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(120))
}

async fn produce(rabbit: &RabbitMq, access: &Access, queue: &QueueName, messages: u32) -> Result<Run, Error> {
    let stopwatch = Stopwatch::start()?;
    let mut left = messages;
    while left > 0 {
        let count = left.min(MAX_PRODUCED);
        let outgoing = outgoing(count)?;
        rabbit.produce(access, queue, &outgoing, 0, &watch::Sender::new(0), soon()).await?;
        left -= count;
    }
    stopwatch.stop(messages)
}

async fn consume(rabbit: &RabbitMq, access: &Access, queue: &QueueName, messages: u32) -> Result<Run, Error> {
    let stopwatch = Stopwatch::start()?;
    let mut left = messages;
    while left > 0 {
        let command = command(left.min(MAX_FETCHED))?;
        let unit = rabbit.fetch(access, queue, &command, PLENTY, soon()).await?;
        let got = u32::try_from(unit.consumed().messages.len()).unwrap_or(u32::MAX);
        if got == 0 {
            return Err(Error::Unexpected(format!("{left} messages are missing")));
        }
        unit.commit(soon()).await?;
        left = left.saturating_sub(got);
    }
    stopwatch.stop(messages)
}

fn outgoing(count: u32) -> Result<Outgoing, Error> {
    let command = ProduceCommand {
        source: ProduceSource::Generated {
            count: BatchCount::try_from(i64::from(count)).map_err(|error| unexpected(&error))?,
            payload: Payload::Random {
                size: MessageSize::try_from(BODY_BYTES).map_err(|error| unexpected(&error))?,
            },
        },
        rate_limit_per_sec: None,
        transaction: Transaction::default(),
        props: MqProps::default(),
        headers: Headers::default(),
        warnings: Vec::new(),
    };
    let key = "0190b5a8-0000-7000-8000-000000000001";
    Ok(Outgoing::new(&command, ContentSeed::new("tenant", key, "fingerprint", jiff::Timestamp::now())))
}

fn command(max: u32) -> Result<ConsumeCommand, Error> {
    Ok(ConsumeCommand {
        max_messages: MaxMessages::try_from(i64::from(max)).map_err(|error| unexpected(&error))?,
        wait_seconds: WaitSeconds::try_from(0).map_err(|error| unexpected(&error))?,
        mode: AckMode::Take(Ack::Commit),
        selector: Selector::default(),
        convert: false,
        backout: mq::BackoutRule::default(),
        warnings: Vec::new(),
    })
}

fn unexpected(error: &impl ToString) -> Error {
    Error::Unexpected(error.to_string())
}

fn access(url: &str) -> Result<Access, Error> {
    let uri: AMQPUri = url.parse().map_err(|_| {
        let detail = "AMQP_URL is not an AMQP URL".to_owned();
        BrokerError::unsupported(detail)
    })?;
    let user = uri.authority.userinfo.username;
    Ok(Access {
        endpoint: Endpoint {
            broker: BrokerKind::RabbitMq,
            queue_manager: uri.vhost,
            channel: None,
            addresses: vec![Address { host: uri.authority.host, port: uri.authority.port }],
            ccdt_url: None,
            tls: Tls::Off,
            user: Some(user.clone()),
            password_ref: None,
        },
        credentials: Some(Credentials {
            user,
            password: SecretString::from(uri.authority.userinfo.password),
        }),
        trust_store: None,
        key_store: None,
        key_files: None,
        idle: mq::IdleRule::default(),
        secret_version: "1".to_owned(),
    })
}
