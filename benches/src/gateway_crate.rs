//! Client of the crates `rabbitmq` and `ibm-mq` through `broker::Broker`, as mq-access uses them. A
//! get is one fetch and its commit, as for a request: it takes one unit of work, and returns
//! messages in the form of a response.

use std::time::Duration;

use broker::{Broker, Deadline};
use mq::{
    Access, Ack, AckMode, Address, BackoutRule, ConsumeCommand, ContentSeed, Credentials, Endpoint, Headers,
    MqProps, Outgoing, Payload, ProduceCommand, ProduceSource, QueueName, Selector, Transaction,
};
use tokio::sync::watch;

use crate::cpu::{Stopwatch, Took};
use crate::error::Error;

/// Maximum size of a fetch in bytes, set so high that it never takes effect: the benchmark measures
/// getting messages, not the limit of a response.
const PLENTY: usize = 1 << 30;

/// Client of a broker, with the body and the properties of the messages that it puts.
pub(crate) struct Client<B> {
    pub(crate) broker: B,
    pub(crate) access: Access,
    pub(crate) payload: Payload,
    pub(crate) props: MqProps,
}

impl<B: Broker> Client<B> {
    /// Puts `messages` messages, at most `at_once` in a call.
    pub(crate) async fn put(
        &self,
        queue: &str,
        messages: u32,
        at_once: u32,
        transaction: Transaction,
    ) -> Result<Took, Error> {
        let queue = self.connected(queue).await?;
        let stopwatch = Stopwatch::start()?;
        let mut left = messages;
        while left > 0 {
            let count = left.min(at_once);
            let outgoing = self.outgoing(count, transaction)?;
            let confirmed = watch::Sender::new(0);
            self.broker.produce(&self.access, &queue, &outgoing, 0, &confirmed, soon()).await?;
            left -= count;
        }
        stopwatch.stop()
    }

    /// Gets and commits `messages` messages, at most `unit` in a unit of work.
    pub(crate) async fn get(&self, queue: &str, messages: u32, unit: u32) -> Result<Took, Error> {
        let queue = self.connected(queue).await?;
        let stopwatch = Stopwatch::start()?;
        let mut left = messages;
        while left > 0 {
            let command = command(left.min(unit))?;
            let unit = self.broker.fetch(&self.access, &queue, &command, PLENTY, soon()).await?;
            let got = u32::try_from(unit.consumed().messages.len()).unwrap_or(u32::MAX);
            if got == 0 {
                return Err(format!("{left} messages are missing").into());
            }
            unit.commit(soon()).await?;
            left = left.saturating_sub(got);
        }
        stopwatch.stop()
    }

    async fn connected(&self, queue: &str) -> Result<QueueName, Error> {
        let queue = QueueName::try_from(queue.to_owned())?;
        self.broker.depth(&self.access, &queue, soon()).await?;
        Ok(queue)
    }

    fn outgoing(&self, count: u32, transaction: Transaction) -> Result<Outgoing, Error> {
        let command = ProduceCommand {
            source: ProduceSource::Generated { count: bounded(count)?, payload: self.payload.clone() },
            rate_limit_per_sec: None,
            transaction,
            props: self.props.clone(),
            headers: Headers::default(),
            warnings: Vec::new(),
        };
        let key = "0190b5a8-0000-7000-8000-000000000001";
        Ok(Outgoing::new(&command, ContentSeed::new("tenant", key, "fingerprint", jiff::Timestamp::now())))
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(300))
}

fn command(messages: u32) -> Result<ConsumeCommand, Error> {
    Ok(ConsumeCommand {
        max_messages: bounded(messages)?,
        wait_seconds: bounded(0)?,
        mode: AckMode::Take(Ack::Commit),
        selector: Selector::default(),
        convert: false,
        backout: BackoutRule::default(),
        warnings: Vec::new(),
    })
}

pub(crate) fn bounded<T: TryFrom<i64>>(number: u32) -> Result<T, Error> {
    T::try_from(i64::from(number)).map_err(|_| format!("{number} is out of bounds").into())
}

/// Returns the access to a broker at one address, with a user and a password.
pub(crate) fn access(endpoint: Endpoint, address: Address, user: String, password: String) -> Access {
    let addresses = vec![address];
    let special = addresses.clone().into();
    Access {
        endpoint: Endpoint { addresses, special, user: Some(user.clone()), ..endpoint },
        credentials: Some(Credentials { user, password: password.into() }),
        secret_version: "1".to_owned(),
        ..Access::default()
    }
}
