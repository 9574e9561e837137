//! Tests of a move's warnings about messages that the destination queue may lose later. Each test
//! then makes the queue lose them.

use std::time::Duration;

use broker::Broker as _;
use lapin::options::{
    BasicPublishOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ExchangeKind};
use mq::{Destination, MoveCommand, MoveReport};

use super::{command, reject_all, relocate, to};
use crate::reach::everywhere;
use crate::support::{Bench, access, is_at_least, rabbit, soon};

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

async fn durable(name: &str, arguments: &[(&str, AMQPValue)]) -> Bench {
    Bench::with(name, QueueDeclareOptions { durable: true, ..Default::default() }, arguments).await
}

async fn previewed(from: &Bench, command: &MoveCommand) -> MoveReport {
    rabbit().preview_move(&access(), &from.queue, command, &everywhere(), soon()).await.unwrap()
}

fn warns(report: &MoveReport, of: &str) -> bool {
    report.warnings.iter().any(|warning| warning.contains(of))
}

async fn bind(bench: &Bench, exchange: &str, key: &str) {
    let options = QueueBindOptions::default();
    let (queue, table) = (bench.queue.as_str().into(), FieldTable::default());
    bench.channel.queue_bind(queue, exchange.into(), key.into(), options, table).await.unwrap();
}

#[tokio::test]
async fn a_message_loses_the_routing_key_by_which_it_was_dead_lettered() {
    let dead = Bench::new("keyed-dead").await;
    let [app, exchange] = ["app", "dlx"].map(|name| format!("{}.{name}", dead.queue.as_str()));
    for name in [&app, &exchange] {
        let (options, table) = (ExchangeDeclareOptions::default(), FieldTable::default());
        let declare =
            dead.channel.exchange_declare(name.as_str().into(), ExchangeKind::Topic, options, table);
        declare.await.unwrap();
    }
    let orders = durable("keyed", &[("x-dead-letter-exchange", text(&exchange))]).await;
    bind(&orders, &app, "orders.*").await;
    bind(&dead, &exchange, "orders.*").await;
    let dies = || async {
        let (options, plain) = (BasicPublishOptions::default(), BasicProperties::default());
        let publish =
            orders.channel.basic_publish(app.as_str().into(), "orders.new".into(), options, b"order", plain);
        assert!(publish.await.unwrap().await.unwrap().is_ack());
        reject_all(&orders).await;
        assert_eq!(dead.ready(1).await, 1);
    };
    let origin = command(Destination::Origin, 10);

    dies().await;
    let preview = previewed(&dead, &origin).await;
    let (moved, report) = relocate(&rabbit(), &dead, &origin).await;
    for report in [preview, report] {
        assert!(warns(&report, "and not the one before (such as `orders.new`)"), "{:?}", report.warnings);
    }
    reject_all(&orders).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((moved, dead.count().await, orders.count().await), (1, 0, 0), "it is lost, as was said");

    bind(&dead, &exchange, orders.queue.as_str()).await;
    dies().await;
    relocate(&rabbit(), &dead, &origin).await;
    reject_all(&orders).await;
    assert_eq!(dead.ready(1).await, 1, "the binding keeps it, as was said");
    // The message was already dead-lettered with the queue's name as its key.
    let (moved, report) = relocate(&rabbit(), &dead, &origin).await;
    assert_eq!((moved, report.warnings.len()), (1, 0), "{:?}", report.warnings);
    for name in [&app, &exchange] {
        let options = ExchangeDeleteOptions::default();
        dead.channel.exchange_delete(name.as_str().into(), options).await.unwrap();
    }
    dead.clean().await;
    orders.clean().await;
}

#[tokio::test]
async fn a_second_way_through_the_same_queues_is_taken_for_a_cycle() {
    let dead = Bench::new("cycle-dead").await;
    let expiring = |to: &Bench| {
        [
            ("x-message-ttl", AMQPValue::LongInt(50)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(to.queue.as_str())),
        ]
    };
    let retry = durable("cycle-retry", &expiring(&dead)).await;
    let orders = durable("cycle", &expiring(&retry)).await;
    orders.put(b"order", BasicProperties::default()).await;
    assert_eq!(dead.ready(1).await, 1);
    let (moved, report) = relocate(&rabbit(), &dead, &command(Destination::Origin, 10)).await;
    let is_lost = !is_at_least(4, 0).await;
    assert_eq!((moved, warns(&report, "takes it for a cycle")), (1, is_lost), "{:?}", report.warnings);
    assert!(warns(&report, "has x-message-ttl: 50, and dead-letters messages"), "{:?}", report.warnings);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(dead.count().await, u32::from(!is_lost));
    for bench in [dead, retry, orders] {
        bench.clean().await;
    }
}

#[tokio::test]
async fn a_queue_that_drops_its_oldest_messages_is_told_of_once() {
    for kind in ["classic", "quorum"] {
        let from = Bench::new("limit-from").await;
        let limits = [
            ("x-queue-type", text(kind)),
            ("x-max-length", AMQPValue::LongInt(2)),
            ("x-max-length-bytes", AMQPValue::LongInt(1_000)),
        ];
        let into = durable("limit-to", &limits).await;
        from.put_numbered(5).await;
        let preview = previewed(&from, &command(to(&into), 10)).await;
        let (moved, report) = relocate(&rabbit(), &from, &command(to(&into), 10)).await;
        let warning = format!(
            "the queue `{}` has x-max-length: 2, x-max-length-bytes: 1000: beyond that it confirms and drops its oldest messages",
            into.queue.as_str()
        );
        assert!(preview.warnings.contains(&warning), "{:?}", preview.warnings);
        assert_eq!((moved, &report.warnings[..]), (5, &[warning][..]));
        assert_eq!(into.bodies().await, ["m3", "m4"]);
        from.clean().await;
        into.clean().await;
    }
}

#[tokio::test]
async fn a_time_to_live_is_found_on_each_kind_of_queue() {
    for kind in ["classic", "quorum"] {
        let from = Bench::new("ttl-from").await;
        let arguments = [("x-queue-type", text(kind)), ("x-message-ttl", AMQPValue::LongInt(600_000))];
        let into = durable("ttl-to", &arguments).await;
        from.put_numbered(1).await;
        let (_, report) = relocate(&rabbit(), &from, &command(to(&into), 10)).await;
        assert!(warns(&report, "has x-message-ttl: 600000, and drops"), "{kind}: {:?}", report.warnings);
        from.clean().await;
        into.clean().await;
    }
}
