//! Tests of dead-lettering by queue type and dead-letter strategy: how many messages arrive on the
//! dead-letter queue, and how many the gateway can move back. An independent client counts.

use std::time::Duration;

use amqprs::FieldValue;
use broker::Broker as _;
use mq::{Ack, AckMode, BrokerError, Destination, MaxMoves, MoveCommand, QueueName};

use crate::reach::everywhere;
use crate::versions::operations::{PLENTY, fetch, new_queue, produce, put};
use crate::versions::server::{Broker, soon, text};
use crate::versions::table::Row;

/// Maximum time for a message to arrive on the dead-letter queue. The broker retries every half
/// second.
const ARRIVAL: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug)]
enum Strategy {
    Classic,
    AtMostOnce,
    AtLeastOnce,
    /// Quorum queue with the strategy at-least-once, but without the overflow behaviour
    /// `reject-publish` that the strategy needs.
    AtLeastOnceWithoutReject,
}

impl Strategy {
    const ALL: [Self; 4] =
        [Self::Classic, Self::AtMostOnce, Self::AtLeastOnce, Self::AtLeastOnceWithoutReject];

    const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::AtMostOnce => "quorum, `at-most-once`",
            Self::AtLeastOnce => "quorum, `at-least-once`, `reject-publish`",
            Self::AtLeastOnceWithoutReject => "quorum, `at-least-once` alone",
        }
    }

    fn arguments(self) -> Vec<(&'static str, FieldValue)> {
        let kind = |kind: &str| ("x-queue-type", text(kind));
        let strategy = |strategy: &str| ("x-dead-letter-strategy", text(strategy));
        match self {
            Self::Classic => vec![kind("classic")],
            Self::AtMostOnce => vec![kind("quorum"), strategy("at-most-once")],
            Self::AtLeastOnce => {
                vec![kind("quorum"), strategy("at-least-once"), ("x-overflow", text("reject-publish"))]
            }
            Self::AtLeastOnceWithoutReject => vec![kind("quorum"), strategy("at-least-once")],
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Case {
    Rejected,
    DeliveryLimit,
    NoRoom,
    NoQueue,
    Full,
    Waiting,
}

impl Case {
    const ALL: [Self; 6] =
        [Self::Rejected, Self::DeliveryLimit, Self::NoRoom, Self::NoQueue, Self::Full, Self::Waiting];

    const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "3 rejected by a consumer, then moved to `origin`",
            Self::DeliveryLimit => "3 past their delivery limit, then moved to `origin`",
            Self::NoRoom => "3 rejected, and the dead-letter queue is full at 1 until it is emptied",
            Self::NoQueue => "3 rejected, and the dead-letter queue is declared afterwards",
            Self::Full => "produce of 6, one by one, to a queue that is full at 3",
            Self::Waiting => "the same after 3 were rejected that have nowhere to go",
        }
    }

    /// Returns the arguments, in addition to the strategy's, with which the case declares its
    /// queue.
    fn arguments(self) -> Vec<(&'static str, FieldValue)> {
        match self {
            Self::Rejected | Self::NoRoom | Self::NoQueue => Vec::new(),
            Self::DeliveryLimit => vec![("x-delivery-limit", FieldValue::I(1))],
            Self::Full | Self::Waiting => vec![("x-max-length", FieldValue::I(3))],
        }
    }
}

/// Runs every case with every strategy on one broker. Returns the results as a column of the table
/// in `tables.md`, with a row for each case and strategy.
pub(crate) async fn all(broker: &Broker) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in Case::ALL {
        for strategy in Strategy::ALL {
            if let (Case::DeliveryLimit, Strategy::Classic) = (case, strategy) {
                continue;
            }
            let outcome = Queues::declare(broker, case, strategy).await.outcome(case).await;
            rows.push(Row { operation: case.name().to_owned(), queue: strategy.name().to_owned(), outcome });
        }
    }
    rows
}

/// Queue of one test case (`orders`), with its dead-letter queue.
struct Queues<'a> {
    broker: &'a Broker,
    orders: QueueName,
    dead: QueueName,
}

impl<'a> Queues<'a> {
    async fn declare(broker: &'a Broker, case: Case, strategy: Strategy) -> Self {
        let (orders, dead) = (new_queue(), new_queue());
        let mut arguments =
            vec![("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(dead.as_str()))];
        arguments.extend(strategy.arguments());
        arguments.extend(case.arguments());
        broker.declare(&orders, &arguments).await;
        match case {
            Case::NoQueue | Case::Waiting => {}
            Case::NoRoom => {
                let full = [("x-max-length", FieldValue::I(1)), ("x-overflow", text("reject-publish"))];
                broker.declare(&dead, &full).await;
            }
            _ => broker.declare(&dead, &[]).await,
        }
        Self { broker, orders, dead }
    }

    async fn outcome(self, case: Case) -> String {
        let Self { broker, orders, dead } = &self;
        let outcome = match case {
            Case::Full => self.fill(0).await,
            Case::Rejected => {
                produce(broker, orders).await.unwrap();
                broker.reject(orders, 3).await;
                self.move_back().await
            }
            Case::DeliveryLimit => {
                produce(broker, orders).await.unwrap();
                for _ in 0..2 {
                    broker.settled(orders, 3, ARRIVAL).await;
                    // As if the function had ended with the messages in hand.
                    drop(fetch(broker, orders, AckMode::Take(Ack::Commit), PLENTY).await.unwrap());
                }
                self.move_back().await
            }
            Case::NoRoom => {
                produce(broker, orders).await.unwrap();
                broker.reject(orders, 3).await;
                broker.settled(dead, 1, ARRIVAL).await;
                // The others are refused meanwhile.
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.arrived().await
            }
            Case::NoQueue => {
                produce(broker, orders).await.unwrap();
                broker.reject(orders, 3).await;
                // Time for at least one attempt before the queue exists.
                tokio::time::sleep(Duration::from_secs(1)).await;
                broker.declare(dead, &[]).await;
                self.arrived().await
            }
            Case::Waiting => {
                produce(broker, orders).await.unwrap();
                broker.reject(orders, 3).await;
                let depth = broker.gateway.depth(&broker.access, orders, soon()).await.unwrap();
                let filled = self.fill(3).await;
                format!("depth {}; {filled}", depth.current_depth)
            }
        };
        for queue in [orders, dead] {
            broker.delete(queue).await;
        }
        outcome
    }

    /// Moves the messages of the dead-letter queue back to the queue on which they died. Returns
    /// the number of dead-lettered messages and of moved ones, as text for the table.
    async fn move_back(&self) -> String {
        let Self { broker, orders, dead } = self;
        let dead_lettered = broker.settled(dead, 3, ARRIVAL).await;
        let command =
            MoveCommand { to: Destination::Origin, max: MaxMoves::try_from(10).unwrap(), msg_ids: None };
        let (access, reach) = (&broker.access, everywhere());
        let mut moving =
            broker.gateway.connect_to_move(access, dead, &command, &reach, soon()).await.unwrap();
        let mut moved = 0;
        loop {
            let put = moving.put(10, soon()).await.unwrap();
            moving.settle(soon()).await.unwrap();
            moved += put.count;
            if put.is_last {
                break;
            }
        }
        moving.finish(soon()).await;
        broker.settled(orders, 3, ARRIVAL).await;
        let there = broker.bodies(orders).await;
        assert_eq!(broker.settled(dead, 0, ARRIVAL).await, 0);
        assert_eq!(there.len(), usize::try_from(moved).unwrap(), "{there:?}");
        format!("{dead_lettered} dead-lettered, {moved} moved back")
    }

    /// Empties the dead-letter queue repeatedly, and returns as text whether none, some or all of
    /// three messages were lost on the way to it.
    async fn arrived(&self) -> String {
        let mut there = Vec::new();
        let until = tokio::time::Instant::now() + ARRIVAL;
        while tokio::time::Instant::now() < until && there.len() < 3 {
            there.extend(self.broker.bodies(&self.dead).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        there.sort();
        there.dedup();
        assert_eq!(self.broker.settled(&self.orders, 0, ARRIVAL).await, 0);
        // The exact number depends on timing.
        let outcome = match there.len() {
            3 => "none lost",
            0 => "all lost",
            _ => "some lost",
        };
        outcome.to_owned()
    }

    /// Publishes up to 6 messages one by one until one is refused. Returns as text which queues the
    /// confirmed ones are on. `before` is the number of messages that were rejected before and have
    /// no dead-letter queue.
    async fn fill(&self, before: usize) -> String {
        let Self { broker, orders, dead } = self;
        let mut confirmed = Vec::new();
        let mut end = "all confirmed".to_owned();
        for n in 0..6 {
            let body = format!("n{n}");
            match put(broker, orders, &[&body]).await {
                Ok(()) => confirmed.push(body),
                Err(error @ BrokerError::QueueFull { .. }) => {
                    assert_eq!(error.reply().map(|reply| reply.name), Some("basic.nack"), "{error:?}");
                    end = format!("`QUEUE_FULL` after {n}");
                    break;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        let expected = u32::try_from(confirmed.len()).unwrap();
        let there = match before {
            0 => expected - broker.settled(dead, expected.saturating_sub(3), ARRIVAL).await,
            _ => expected.min(3),
        };
        broker.settled(orders, there, ARRIVAL).await;
        let kept = broker.bodies(orders).await;
        let dead_letters = if before == 0 { broker.bodies(dead).await } else { Vec::new() };
        let mut all: Vec<_> = kept.iter().chain(&dead_letters).cloned().collect();
        all.sort();
        match confirmed.iter().filter(|body| !all.contains(body)).count() {
            0 if dead_letters.is_empty() => format!("{end}, all of those on the queue"),
            0 => format!("{end}, {} on the queue and {} dead-lettered", kept.len(), dead_letters.len()),
            lost => format!("{end}, {lost} lost"),
        }
    }
}
