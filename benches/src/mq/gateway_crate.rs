//! The crate `ibm-mq` through `broker::Broker`, as mq-access uses it. A get is a fetch and its commit,
//! as a request's is: it takes one unit of work, and gives its messages in a response's form.

use std::time::Duration;

use broker::{Broker as _, ConnectionCap, Deadline};
use ibm_mq::{IbmMq, Settings};
use mq::{
    Access, Ack, AckMode, Address, Base64Bytes, BrokerKind, ConsumeCommand, ContentSeed, Credentials,
    Endpoint, Headers, MqProps, Outgoing, Payload, Persistence, ProduceCommand, ProduceSource, QueueName,
    Selector, Tls, Transaction,
};
use tokio::sync::watch;

use super::manager::{CHANNEL, NAME, PASSWORD, USER};
use super::{Contest, Job};
use crate::cpu::Stopwatch;
use crate::error::Error;
use crate::run::Run;

/// More than any unit of work has: what is compared is taking messages, not what fits an answer.
const PLENTY: usize = 1 << 30;

pub(super) async fn run(contest: &Contest) -> Result<Run, Error> {
    let settings = Settings { library: contest.library.clone(), ..Settings::default() };
    let broker = IbmMq::new(settings, ConnectionCap::new(1));
    let access = access();
    let queue = QueueName::try_from(contest.queue.clone()).map_err(Error::Unexpected)?;
    // Opens the connection.
    broker.depth(&access, &queue, soon()).await?;
    let stopwatch = Stopwatch::start()?;
    match contest.job {
        Job::Put => {
            let outgoing = outgoing(contest)?;
            broker.produce(&access, &queue, &outgoing, 0, &watch::Sender::new(0), soon()).await?;
        }
        Job::Get => {
            let mut left = contest.messages;
            while left > 0 {
                let command = command(contest.unit.min(left))?;
                let unit = broker.fetch(&access, &queue, &command, PLENTY, soon()).await?;
                let got = u32::try_from(unit.consumed().messages.len()).unwrap_or(u32::MAX);
                if got == 0 {
                    return Err(Error::Unexpected(format!("{left} messages are missing")));
                }
                unit.commit(soon()).await?;
                left = left.saturating_sub(got);
            }
        }
    }
    stopwatch.stop(contest.messages)
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(300))
}

fn outgoing(contest: &Contest) -> Result<Outgoing, Error> {
    let transaction = Transaction { enabled: true, tx_size: bounded(contest.unit)?, atomic: true };
    let command = ProduceCommand {
        source: ProduceSource::Generated {
            count: bounded(contest.messages)?,
            payload: Payload::Fixed { body: Base64Bytes(vec![0xa5; 1024]) },
        },
        rate_limit_per_sec: None,
        transaction,
        props: MqProps { persistence: Persistence::Nonpersistent, ..MqProps::default() },
        headers: Headers::default(),
        warnings: Vec::new(),
    };
    let key = "0190b5a8-0000-7000-8000-000000000001";
    Ok(Outgoing::new(&command, ContentSeed::new("tenant", key, "fingerprint", jiff::Timestamp::now())))
}

fn command(messages: u32) -> Result<ConsumeCommand, Error> {
    Ok(ConsumeCommand {
        max_messages: bounded(messages)?,
        wait_seconds: bounded(0)?,
        mode: AckMode::Take(Ack::Commit),
        selector: Selector::default(),
        convert: false,
        backout: mq::BackoutRule::default(),
        warnings: Vec::new(),
    })
}

fn bounded<T: TryFrom<i64>>(number: u32) -> Result<T, Error> {
    T::try_from(i64::from(number)).map_err(|_| Error::Unexpected(format!("{number} is out of bounds")))
}

fn access() -> Access {
    Access {
        endpoint: Endpoint {
            broker: BrokerKind::IbmMq,
            queue_manager: NAME.to_owned(),
            channel: Some(CHANNEL.to_owned()),
            addresses: vec![Address { host: "localhost".to_owned(), port: 1414 }],
            ccdt_url: None,
            tls: Tls::Off,
            user: Some(USER.to_owned()),
            password_ref: None,
        },
        credentials: Some(Credentials { user: USER.to_owned(), password: PASSWORD.to_owned().into() }),
        trust_store: None,
        key_store: None,
        key_files: None,
        idle: mq::IdleRule::default(),
        secret_version: "1".to_owned(),
    }
}
