//! Tests of messages that a broker refuses but may nevertheless keep. Whatever queues and exchanges
//! do with refused messages, each message on any queue was confirmed or is reported as in doubt.

use std::collections::BTreeSet;

use broker::Broker as _;
use lapin::ExchangeKind;
use lapin::options::{
    ExchangeBindOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use mq::{
    BrokerError, Destination, Exchange, KeptReason, MaxMoves, MoveCommand, Outgoing, ProduceFailure,
    RoutingKey,
};

use crate::reach::everywhere;
use crate::support::{Bench, access, explicit, outgoing, rabbit, soon, unwatched};

const OVERFLOWS: [Option<&str>; 4] =
    [None, Some("drop-head"), Some("reject-publish"), Some("reject-publish-dlx")];
/// Maximum number of messages (`x-max-length`) of the queue that refuses messages.
const ROOM: u64 = 2;

/// Way by which a test publishes messages that reach the queue with the length limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Through the default exchange, by the name of the limited queue.
    Directly,
    /// Through an exchange to which only the limited queue is bound.
    Alone,
    /// Through an exchange to which another queue is bound, too.
    WithAnother,
    /// Through an exchange to which the limited queue and another exchange are bound. That exchange
    /// has a queue of its own.
    WithAnExchange,
    /// Through an exchange without queues, whose alternate exchange has the limited queue and
    /// another one.
    AsAnAlternative,
}

const WAYS: [Way; 5] =
    [Way::Directly, Way::Alone, Way::WithAnother, Way::WithAnExchange, Way::AsAnAlternative];

/// Queues and exchange of one test case: the limited queue `full`, its dead-letter queue, and a
/// queue that also gets messages in some [`Way`]s.
struct Topology {
    full: Bench,
    dead: Bench,
    other: Bench,
    exchange: Option<Exchange>,
}

impl Topology {
    async fn new(kind: &str, overflow: Option<&str>, way: Way) -> Self {
        let text = |text: &str| AMQPValue::LongString(text.into());
        let (dead, other) = (Bench::new("refused-dead").await, Bench::new("refused-other").await);
        let mut arguments = vec![
            ("x-queue-type", text(kind)),
            ("x-max-length", AMQPValue::LongLongInt(i64::try_from(ROOM).unwrap())),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(dead.queue.as_str())),
        ];
        arguments.extend(overflow.map(|overflow| ("x-overflow", text(overflow))));
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let full = Bench::with("refused-full", options, &arguments).await;
        let mut this = Self { full, dead, other, exchange: None };
        if way != Way::Directly {
            this.exchange = Some(this.declare(way).await);
        }
        this
    }

    fn exchanges(&self) -> [String; 2] {
        ["first", "second"].map(|name| format!("{}.{name}", self.full.queue.as_str()))
    }

    async fn declare(&self, way: Way) -> Exchange {
        let (channel, [first, second]) = (&self.full.channel, self.exchanges());
        let mut arguments = FieldTable::default();
        if way == Way::AsAnAlternative {
            arguments.insert("alternate-exchange".into(), AMQPValue::LongString(second.as_str().into()));
        }
        let options = ExchangeDeclareOptions::default();
        for (name, arguments) in [(&first, arguments), (&second, FieldTable::default())] {
            let fanout = ExchangeKind::Fanout;
            channel.exchange_declare(name.as_str().into(), fanout, options, arguments).await.unwrap();
        }
        let bind = async |queue: &Bench, exchange: &str| {
            let (queue, options) = (queue.queue.as_str().into(), QueueBindOptions::default());
            let bound = channel.queue_bind(queue, exchange.into(), "".into(), options, FieldTable::default());
            bound.await.unwrap();
        };
        bind(&self.full, if way == Way::AsAnAlternative { &second } else { &first }).await;
        match way {
            Way::Directly | Way::Alone => {}
            Way::WithAnother => bind(&self.other, &first).await,
            Way::WithAnExchange => {
                let (to, from, options) = (&*second, &*first, ExchangeBindOptions::default());
                let bound =
                    channel.exchange_bind(to.into(), from.into(), "".into(), options, FieldTable::default());
                bound.await.unwrap();
                bind(&self.other, &second).await;
            }
            Way::AsAnAlternative => bind(&self.other, &second).await,
        }
        Exchange {
            name: first.try_into().unwrap(),
            routing_key: RoutingKey::try_from("k".to_owned()).unwrap(),
        }
    }

    async fn produce(&self, outgoing: &Outgoing, from: u64) -> Result<u64, ProduceFailure> {
        let (rabbit, access) = (rabbit(), access());
        let connected = match &self.exchange {
            Some(exchange) => rabbit.connect_to_publish(&access, exchange, outgoing, soon()).await,
            None => rabbit.connect_to_put(&access, &self.full.queue, outgoing, soon()).await,
        };
        let report = connected.unwrap().put(from, &unwatched(), soon()).await?;
        Ok(from + report.enqueued)
    }

    /// Takes all messages from the three queues, and returns their message ids, one for each copy.
    async fn ids(&self) -> Vec<String> {
        // Dead letters arrive a moment later.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let mut ids = Vec::new();
        for queue in [&self.full, &self.dead, &self.other] {
            while let Some(message) = queue.get().await {
                ids.push(message.properties.message_id().clone().unwrap().to_string());
            }
        }
        ids
    }

    async fn clean(self) {
        for exchange in self.exchanges() {
            // RabbitMQ accepts deleting an exchange that does not exist.
            let options = ExchangeDeleteOptions::default();
            self.full.channel.exchange_delete(exchange.as_str().into(), options).await.unwrap();
        }
        for queue in [self.full, self.dead, self.other] {
            queue.clean().await;
        }
    }
}

#[tokio::test]
async fn whatever_is_anywhere_was_confirmed_or_is_in_doubt() {
    let outgoing = outgoing(explicit(&["a", "b", "c", "d", "e"]));
    let id = |index: u64| outgoing.message_id(index).to_hex();
    for kind in ["classic", "quorum"] {
        for (overflow, way) in OVERFLOWS.iter().flat_map(|overflow| WAYS.map(|way| (*overflow, way))) {
            if kind == "quorum" && overflow == Some("reject-publish-dlx") {
                // Quorum queues do not have this overflow.
                continue;
            }
            let what = format!("{kind} {overflow:?} {way:?}");
            let topology = Topology::new(kind, overflow, way).await;
            let produced = topology.produce(&outgoing, 0).await;
            let rejects = overflow.is_some_and(|overflow| overflow.starts_with("reject"));
            let Err(failure) = produced else {
                // A quorum queue accepts some messages beyond its limit.
                assert!(!rejects || kind == "quorum", "{what}");
                topology.clean().await;
                continue;
            };
            assert!(rejects, "{what}: {failure:?}");
            let confirmed: BTreeSet<_> = (0..failure.committed).map(id).collect();
            let in_doubt: BTreeSet<_> = failure.in_doubt.iter().map(|id| id.to_hex()).collect();
            let there = topology.ids().await;
            let unnamed: Vec<_> =
                there.iter().filter(|id| !confirmed.contains(*id) && !in_doubt.contains(*id)).collect();
            assert!(unnamed.is_empty(), "{what}: {unnamed:?} of {there:?} with {failure:?}");
            let is_certain = way == Way::Directly && overflow == Some("reject-publish");
            if kind == "classic" {
                assert_eq!(
                    (failure.committed, in_doubt.is_empty()),
                    (ROOM, is_certain),
                    "{what}: {failure:?}"
                );
            }
            let is_direct = way == Way::Directly;
            assert_eq!(
                matches!(failure.error, BrokerError::QueueFull { .. }),
                is_direct,
                "{what}: {failure:?}"
            );
            topology.clean().await;
        }
    }
}

#[tokio::test]
async fn a_move_says_what_a_refusal_may_have_left() {
    for overflow in ["reject-publish", "reject-publish-dlx"] {
        let topology = Topology::new("classic", Some(overflow), Way::Directly).await;
        let from = Bench::new("refused-from").await;
        from.put_numbered(5).await;
        let (rabbit, max) = (rabbit(), MaxMoves::try_from(10).unwrap());
        let to = Destination::Queue(topology.full.queue.clone());
        let command = MoveCommand { to, max, msg_ids: None };
        let mut moving =
            rabbit.connect_to_move(&access(), &from.queue, &command, &everywhere(), soon()).await.unwrap();
        let mut moved = 0;
        loop {
            let put = moving.put(10 - moved, soon()).await.unwrap();
            moving.settle(soon()).await.unwrap();
            moved += put.count;
            if put.is_last {
                break;
            }
        }
        let left = moving.refused_in_doubt();
        let report = moving.finish(soon()).await;
        let refused =
            report.messages.iter().filter(|message| message.stays == Some(KeptReason::Refused)).count();
        assert_eq!((moved, refused), (ROOM, 3), "{report:?}");
        let dead_letters = topology.dead.ready(if overflow == "reject-publish" { 0 } else { 3 }).await;
        assert_eq!(u64::from(dead_letters), left, "{overflow}: {report:?}");
        let warns = report.warnings.iter().any(|warning| warning.contains("dead-letter exchange"));
        assert_eq!(warns, left > 0, "{report:?}");
        assert_eq!(from.ready(3).await, 3, "they stay");
        from.clean().await;
        topology.clean().await;
    }
}
