//! Tests of the effects of each gateway operation on a new queue of each type.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker::{Broker as _, UnitOfWork};
use jiff::Timestamp;
use mq::{
    Ack, AckMode, BrokerError, ConsumeCommand, ContentSeed, ExplicitMessage, Headers, MaxMessages, MqProps,
    Outgoing, ProduceCommand, ProduceSource, QueueName, Selector, Transaction, WaitSeconds,
};
use rabbitmq::RabbitMq;
use tokio::sync::watch;

use crate::versions::queues::Kind;
use crate::versions::server::{Broker, soon};
use crate::versions::table::Row;

/// Number of repetitions of an operation that returns messages. It exceeds RabbitMQ's default
/// delivery limit of 20 failures.
const TIMES: u32 = 25;
pub(crate) const PLENTY: usize = 5_000_000;
/// Maximum response size in bytes for a fetch that must fail, since even one message exceeds it.
const TOO_FEW: usize = 50;

/// Maximum wait until a queue's message count includes messages that arrived or left.
const MOMENT: Duration = Duration::from_secs(1);
/// Maximum wait until a stream's message count is right. The broker updates the count with its
/// statistics, every 5 s.
const STATISTICS: Duration = Duration::from_secs(12);

const COMMIT: AckMode = AckMode::Take(Ack::Commit);
const NONE: AckMode = AckMode::Take(Ack::None);
const ROLLBACK: AckMode = AckMode::Take(Ack::Rollback);

static QUEUES: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, Debug)]
enum Operation {
    Produce,
    Depth,
    Take(AckMode),
    Return(AckMode),
    /// Fetch whose connection is closed before the messages are acknowledged, as if the function
    /// ended.
    End,
    /// Fetch that fails because the first message exceeds the response.
    TooLarge,
    /// Browse by a client whose memory limit is smaller than the three messages together.
    OverTheBound,
}

impl Operation {
    const ALL: [Self; 9] = [
        Self::Produce,
        Self::Depth,
        Self::Take(COMMIT),
        Self::Take(NONE),
        Self::Return(ROLLBACK),
        Self::Return(AckMode::Browse),
        Self::End,
        Self::TooLarge,
        Self::OverTheBound,
    ];

    fn name(self) -> String {
        match self {
            Self::Produce => "produce".to_owned(),
            Self::Depth => "depth".to_owned(),
            Self::Take(COMMIT) => "`ack: commit`".to_owned(),
            Self::Take(_) => "`ack: none`".to_owned(),
            Self::Return(AckMode::Browse) => format!("browse, {TIMES} attempts"),
            Self::Return(_) => format!("`ack: rollback`, {TIMES} attempts"),
            Self::End => format!("the function ends before a commit, {TIMES} attempts"),
            Self::TooLarge => format!("a message that fits into no response, {TIMES} attempts"),
            Self::OverTheBound => format!("browse over the memory bound, {TIMES} attempts"),
        }
    }
}

/// Runs every operation on a new queue of every type, on one broker. Returns the results as a
/// column of the table in `tables.md`, with a row for each operation and type.
pub(crate) async fn all(broker: &Broker) -> Vec<Row> {
    let mut rows = Vec::new();
    for operation in Operation::ALL {
        for kind in Kind::ALL {
            let queue = new_queue();
            broker.declare(&queue, &kind.arguments()).await;
            let outcome = outcome(broker, operation, &queue).await;
            broker.delete(&queue).await;
            rows.push(Row { operation: operation.name(), queue: kind.name().to_owned(), outcome });
        }
    }
    rows
}

/// Returns a queue name that no other test on this broker uses.
pub(crate) fn new_queue() -> QueueName {
    QueueName::try_from(format!("versions.{}", QUEUES.fetch_add(1, Ordering::Relaxed))).unwrap()
}

async fn outcome(broker: &Broker, operation: Operation, queue: &QueueName) -> String {
    let produced = produce(broker, queue).await;
    match operation {
        Operation::Produce => produced.map_or_else(|error| reason(&error), |()| "confirmed".to_owned()),
        Operation::Depth => depth(broker, queue).await,
        Operation::Take(mode) => take(broker, queue, mode).await,
        Operation::Return(_) | Operation::End | Operation::TooLarge | Operation::OverTheBound => {
            again(broker, queue, operation).await
        }
    }
}

/// Puts three messages with the bodies `m0`, `m1` and `m2` on a queue through the client under
/// test.
pub(crate) async fn produce(broker: &Broker, queue: &QueueName) -> Result<(), BrokerError> {
    put(broker, queue, &["m0", "m1", "m2"]).await
}

pub(crate) async fn put(broker: &Broker, queue: &QueueName, bodies: &[&str]) -> Result<(), BrokerError> {
    let messages = bodies.iter().map(|body| ExplicitMessage::of_text(body)).collect();
    let command = ProduceCommand {
        source: ProduceSource::Explicit { messages },
        rate_limit_per_sec: None,
        transaction: Transaction::default(),
        props: MqProps::default(),
        headers: Headers::default(),
        warnings: Vec::new(),
    };
    let at = Timestamp::from_second(1_790_000_000).unwrap();
    let seed = ContentSeed::new("tenant", "0190b5a8-0000-7000-8000-000000000001", "fingerprint", at);
    let outgoing = Outgoing::new(&command, seed);
    let progress = watch::Sender::new(0);
    let produced = broker.gateway.produce(&broker.access, queue, &outgoing, 0, &progress, soon()).await;
    produced.map(drop).map_err(|failure| failure.error)
}

async fn depth(broker: &Broker, queue: &QueueName) -> String {
    broker.settled(queue, 3, STATISTICS).await;
    match broker.gateway.depth(&broker.access, queue, soon()).await {
        Ok(report) => format!("{} of 3", report.current_depth),
        Err(error) => reason(&error),
    }
}

pub(crate) async fn fetch(
    broker: &Broker,
    queue: &QueueName,
    mode: AckMode,
    room: usize,
) -> Result<Box<dyn UnitOfWork>, BrokerError> {
    fetch_with(&broker.gateway, broker, queue, mode, room).await
}

async fn fetch_with(
    gateway: &RabbitMq,
    broker: &Broker,
    queue: &QueueName,
    mode: AckMode,
    room: usize,
) -> Result<Box<dyn UnitOfWork>, BrokerError> {
    let command = ConsumeCommand {
        max_messages: MaxMessages::try_from(10).unwrap(),
        wait_seconds: WaitSeconds::try_from(0).unwrap(),
        mode,
        selector: Selector::default(),
        convert: false,
        backout: mq::BackoutRule::default(),
        warnings: Vec::new(),
    };
    gateway.fetch(&broker.access, queue, &command, room, soon()).await
}

async fn take(broker: &Broker, queue: &QueueName, mode: AckMode) -> String {
    broker.settled(queue, 3, MOMENT).await;
    let unit = match fetch(broker, queue, mode, PLENTY).await {
        Ok(unit) => unit,
        Err(error) => return reason(&error),
    };
    let count = unit.consumed().messages.len();
    match unit.commit(soon()).await {
        Ok(()) => format!("{count} of 3 removed, {} left", broker.settled(queue, 0, MOMENT).await),
        Err(error) => reason(&error),
    }
}

/// Repeats an operation that returns its messages to the queue, up to [`TIMES`]. Returns the result
/// as text for the table: kept and in which order, dropped at which repetition, or refused.
async fn again(broker: &Broker, queue: &QueueName, operation: Operation) -> String {
    let (mut returned, mut warned) = (0, "");
    for time in 1..=TIMES {
        broker.settled(queue, 3, MOMENT).await;
        match operation {
            Operation::TooLarge => match fetch(broker, queue, COMMIT, TOO_FEW).await.map(drop) {
                Err(BrokerError::MessageTooLarge { .. }) => {}
                Err(error) => return reason(&error),
                Ok(()) => panic!("it fits"),
            },
            _ => {
                let (mode, gateway) = match operation {
                    Operation::Return(mode) => (mode, &broker.gateway),
                    Operation::OverTheBound => (AckMode::Browse, &broker.narrow),
                    _ => (COMMIT, &broker.gateway),
                };
                let unit = match fetch_with(gateway, broker, queue, mode, PLENTY).await {
                    Ok(unit) => unit,
                    Err(error) => return reason(&error),
                };
                let consumed = unit.consumed();
                if matches!(operation, Operation::OverTheBound) {
                    assert_eq!((consumed.messages.len(), consumed.truncated), (2, true));
                }
                returned = consumed.messages.iter().map(|message| message.backout_count).max().unwrap_or(0);
                if consumed
                    .warnings
                    .iter()
                    .any(|warning| warning.contains("the queue drops or dead-letters them"))
                {
                    warned = ", after a warning";
                }
                match operation {
                    Operation::End => drop(unit),
                    _ => unit.rollback(soon()).await.unwrap(),
                }
            }
        }
        if broker.settled(queue, 3, MOMENT).await < 3 {
            return format!("dropped at attempt {time}{warned}");
        }
    }
    let order = match broker.bodies(queue).await.join(" ").as_str() {
        "m0 m1 m2" => "in order",
        _ => "out of order",
    };
    match operation {
        Operation::TooLarge => format!("kept, {order}"),
        _ => format!("kept, {order}; `backoutCount` {returned}"),
    }
}

/// Returns the problem code that a caller of the gateway would receive, with the broker's reply
/// code if there is one.
fn reason(error: &BrokerError) -> String {
    let reason = match error {
        BrokerError::Unsupported { .. } => "`UNSUPPORTED_BY_BROKER`",
        BrokerError::Rejected { .. } => "`BROKER_REJECTED`",
        other => panic!("{other:?}"),
    };
    error.reply().map_or_else(|| reason.to_owned(), |reply| format!("{reason} ({})", reply.code))
}
