//! Tests of moves: messages are moved unchanged, are confirmed at the destination before they
//! leave, and stay if they cannot be moved. An independent client publishes them and takes them.

mod losses;
mod staying;

use broker::Broker as _;
use lapin::BasicProperties;
use lapin::options::{BasicGetOptions, BasicRejectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable};
use mq::{Base64Bytes, BrokerError, Destination, KeptReason, MaxMoves, MoveCommand, MoveReport, QueueName};
use rabbitmq::RabbitMq;

use crate::reach::everywhere;
use crate::support::{Bench, access, is_at_least, rabbit, soon};
use crate::taking::fill;

fn command(to: Destination, max: i64) -> MoveCommand {
    MoveCommand { to, max: MaxMoves::try_from(max).unwrap(), msg_ids: None }
}

fn to(bench: &Bench) -> Destination {
    Destination::Queue(bench.queue.clone())
}

/// Moves all messages that the command selects. Returns the number of moved messages, and the
/// report about each.
async fn relocate(rabbit: &RabbitMq, from: &Bench, command: &MoveCommand) -> (u64, MoveReport) {
    let mut moving =
        rabbit.connect_to_move(&access(), &from.queue, command, &everywhere(), soon()).await.unwrap();
    let mut moved = 0;
    while moved < u64::from(command.max.get()) {
        let put = moving.put(u64::from(command.max.get()) - moved, soon()).await.unwrap();
        moving.settle(soon()).await.unwrap();
        moved += put.count;
        if put.is_last {
            break;
        }
    }
    (moved, moving.finish(soon()).await)
}

fn why(report: &MoveReport) -> Vec<Option<KeptReason>> {
    report.messages.iter().map(|message| message.stays).collect()
}

async fn dead_lettering_to(name: &str, dead: &Bench, more: &[(&str, AMQPValue)]) -> Bench {
    let mut arguments = vec![
        ("x-dead-letter-exchange", AMQPValue::LongString("".into())),
        ("x-dead-letter-routing-key", AMQPValue::LongString(dead.queue.as_str().into())),
    ];
    arguments.extend_from_slice(more);
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    Bench::with(name, options, &arguments).await
}

/// Rejects all messages of a queue without requeueing, as a failing consumer does.
async fn reject_all(bench: &Bench) {
    let get = || bench.channel.basic_get(bench.queue.as_str().into(), BasicGetOptions::default());
    while let Some(message) = get().await.unwrap() {
        message.delivery.acker.reject(BasicRejectOptions { requeue: false }).await.unwrap();
    }
}

fn everything() -> BasicProperties {
    let mut inner = FieldTable::default();
    inner.insert("n".into(), AMQPValue::LongInt(-7));
    let mut headers = FieldTable::default();
    for (name, value) in [
        ("bool", AMQPValue::Boolean(true)),
        ("i8", AMQPValue::ShortShortInt(-1)),
        ("i16", AMQPValue::ShortInt(-2)),
        ("i64", AMQPValue::LongLongInt(i64::MIN)),
        ("f32", AMQPValue::Float(0.5)),
        ("f64", AMQPValue::Double(1.5)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 5 })),
        ("text", AMQPValue::LongString("é".into())),
        ("binary", AMQPValue::LongString(vec![0xff].into())),
        ("bytes", AMQPValue::ByteArray(vec![1, 2].into())),
        ("time", AMQPValue::Timestamp(u64::MAX)),
        ("array", AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Void, AMQPValue::LongInt(1)]))),
        ("table", AMQPValue::FieldTable(inner)),
    ] {
        headers.insert(name.into(), value);
    }
    BasicProperties::default()
        .with_headers(headers)
        .with_content_type("application/x-thing".into())
        .with_content_encoding("x-none".into())
        .with_delivery_mode(2)
        .with_priority(7)
        .with_correlation_id("é".into())
        .with_reply_to("somebody".into())
        .with_expiration("600000".into())
        .with_message_id("their id".into())
        .with_timestamp(1_790_000_000)
        .with_type("order".into())
        .with_user_id(crate::support::uri().authority.userinfo.username.as_str().into())
        .with_app_id("app".into())
        .with_cluster_id("cluster".into())
}

#[tokio::test]
async fn a_message_is_moved_with_everything_that_it_has() {
    for kind in ["classic", "quorum"] {
        let from = queue("all-from", kind).await;
        let into = queue("all-to", kind).await;
        from.put(&[0, 159, 146, 150], everything()).await;
        from.put(b"", BasicProperties::default()).await;
        let (moved, report) = relocate(&rabbit(), &from, &command(to(&into), 10)).await;
        assert_eq!((moved, report.remaining, report.truncated), (2, Some(0), false), "{report:?}");
        let first = into.get().await.unwrap();
        assert_eq!((without_counts(first.properties), first.data), (everything(), vec![0, 159, 146, 150]));
        let second = into.get().await.unwrap();
        assert!(second.data.is_empty());
        assert_eq!(from.ready(0).await, 0);
        from.clean().await;
        into.clean().await;
    }
}

async fn queue(name: &str, kind: &str) -> Bench {
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    Bench::with(&format!("{name}-{kind}"), options, &[("x-queue-type", AMQPValue::LongString(kind.into()))])
        .await
}

/// Returns the properties without `x-delivery-count` and `x-acquired-count`, the headers that a
/// quorum queue adds to its deliveries.
fn without_counts(properties: BasicProperties) -> BasicProperties {
    let headers = properties.headers().clone().unwrap_or_default();
    let mut kept = FieldTable::default();
    let is_count = |name: &str| matches!(name, "x-delivery-count" | "x-acquired-count");
    for (name, value) in headers.inner().iter().filter(|(name, _)| !is_count(name.as_str())) {
        kept.insert(name.clone(), value.clone());
    }
    properties.with_headers(kept)
}

#[tokio::test]
async fn many_messages_keep_their_order_whatever_the_queues_are() {
    for (from_kind, to_kind) in [("classic", "quorum"), ("quorum", "classic")] {
        let (from, into) = (queue("many-from", from_kind).await, queue("many-to", to_kind).await);
        fill(&from, (0..150).map(|number| format!("m{number}").into_bytes())).await;
        let rabbit = rabbit();
        let (moved, report) = relocate(&rabbit, &from, &command(to(&into), 100)).await;
        assert_eq!((moved, report.remaining, report.examined), (100, Some(50), 100));
        let (moved, report) = relocate(&rabbit, &from, &command(to(&into), 100)).await;
        assert_eq!((moved, report.remaining, report.stayed), (50, Some(0), 0));
        drop(rabbit);
        // Acknowledged messages do not return when the connection has ended.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(from.count().await, 0);
        let expected: Vec<_> = (0..150).map(|number| format!("m{number}")).collect();
        assert_eq!(into.bodies().await, expected);
        from.clean().await;
        into.clean().await;
    }
}

#[tokio::test]
async fn a_message_goes_back_to_where_it_died_first() {
    let dead = Bench::new("dead").await;
    let orders = dead_lettering_to("orders", &dead, &[]).await;
    let payments = dead_lettering_to("payments", &dead, &[]).await;
    orders.put(b"order", everything()).await;
    reject_all(&orders).await;
    payments.put(b"payment", BasicProperties::default()).await;
    reject_all(&payments).await;
    assert_eq!(dead.ready(2).await, 2);
    dead.put(b"no history", BasicProperties::default()).await;
    let rabbit = rabbit();
    let origin = command(Destination::Origin, 10);
    let (moved, report) = relocate(&rabbit, &dead, &origin).await;
    assert_eq!((moved, report.remaining), (2, Some(1)));
    assert_eq!(why(&report), [None, None, Some(KeptReason::NoOrigin)]);
    assert_eq!(report.messages.iter().map(|message| message.deaths).collect::<Vec<_>>(), [1, 1, 0]);
    let back = orders.get().await.unwrap();
    // The broker removes the expiration when it dead-letters a message, and records the queue and
    // the reason.
    assert_eq!((back.properties.reply_to(), back.data), (everything().reply_to(), b"order".to_vec()));
    assert!(back.properties.headers().as_ref().unwrap().contains_key("x-death"));
    assert_eq!(payments.bodies().await, ["payment"]);
    assert_eq!(dead.bodies().await, ["no history"]);
    for bench in [dead, orders, payments] {
        bench.clean().await;
    }
}

#[tokio::test]
async fn what_dies_again_at_once_does_not_go_round() {
    let dead = Bench::new("round-dead").await;
    let orders = dead_lettering_to("round", &dead, &[("x-message-ttl", AMQPValue::LongInt(0))]).await;
    for _ in 0..3 {
        orders.put(b"poison", BasicProperties::default()).await;
    }
    assert_eq!(dead.ready(3).await, 3);
    let rabbit = rabbit();
    // From 4.0 on, the broker counts deaths from a message's last publication, and a move publishes
    // it again.
    let is_counted_on = !is_at_least(4, 0).await;
    for deaths in [1, if is_counted_on { 2 } else { 1 }] {
        let (moved, report) = relocate(&rabbit, &dead, &command(Destination::Origin, 100)).await;
        assert_eq!((moved, report.examined), (3, 3));
        assert!(report.messages.iter().all(|message| message.deaths == deaths), "{report:?}");
        assert_eq!(dead.ready(3).await, 3);
    }
    dead.clean().await;
    orders.clean().await;
}

#[tokio::test]
async fn messages_are_selected_by_their_ids_and_the_others_keep_their_places() {
    let (from, into) = (Bench::new("selected-from").await, Bench::new("selected-to").await);
    for number in 0..6 {
        let properties = BasicProperties::default().with_message_id(format!("id-{}", number % 3).into());
        from.put(format!("m{number}").as_bytes(), properties).await;
    }
    let ids = vec![Base64Bytes(b"id-1".to_vec()), Base64Bytes(b"unknown".to_vec())];
    let selecting = MoveCommand { msg_ids: Some(ids), ..command(to(&into), 10) };
    let preview = rabbit().preview_move(&access(), &from.queue, &selecting, &everywhere(), soon()).await;
    assert_eq!(preview.unwrap().not_found, [b"unknown"]);
    let first = MoveCommand { max: MaxMoves::try_from(1).unwrap(), ..selecting.clone() };
    let preview = rabbit().preview_move(&access(), &from.queue, &first, &everywhere(), soon()).await;
    assert!(preview.unwrap().not_found.is_empty(), "it was not looked for");
    let (moved, report) = relocate(&rabbit(), &from, &selecting).await;
    assert_eq!(report.not_found, [b"unknown"]);
    // Both messages that have the id: one is a duplicate.
    assert_eq!((moved, report.stayed, report.examined, report.remaining), (2, 0, 6, Some(4)));
    assert_eq!(into.bodies().await, ["m1", "m4"]);
    assert_eq!(from.bodies().await, ["m0", "m2", "m3", "m5"]);
    from.clean().await;
    into.clean().await;
}

#[tokio::test]
async fn a_queue_that_counts_what_returns_gets_one_message_back_at_most() {
    // From 4.3 on, messages that a move returns are not counted.
    if is_at_least(4, 3).await {
        return;
    }
    let (from, into) = (queue("counts", "quorum").await, Bench::new("counts-to").await);
    from.put_numbered(3).await;
    let rabbit = rabbit();
    let (moved, report) = relocate(&rabbit, &from, &command(Destination::Origin, 10)).await;
    assert_eq!((moved, report.examined, report.truncated), (0, 1, true));
    assert_eq!(why(&report), [Some(KeptReason::NoOrigin)]);
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    let ids = Some(vec![Base64Bytes(b"id".to_vec())]);
    let selecting = MoveCommand { msg_ids: ids, ..command(to(&into), 10) };
    let plain = command(to(&into), 10);
    let selected = rabbit.connect_to_move(&access(), &from.queue, &selecting, &everywhere(), soon()).await;
    assert!(matches!(selected.map(drop), Err(BrokerError::Unsupported { .. })));
    let previewed = rabbit.preview_move(&access(), &from.queue, &plain, &everywhere(), soon()).await;
    assert!(matches!(previewed, Err(BrokerError::Unsupported { .. })));
    assert_eq!(from.ready(3).await, 3);
    from.clean().await;
    into.clean().await;
}

#[tokio::test]
async fn what_a_move_returns_to_a_quorum_queue_of_4_3_is_not_counted() {
    if !is_at_least(4, 3).await {
        return;
    }
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let arguments = [
        ("x-queue-type", AMQPValue::LongString("quorum".into())),
        ("x-delivery-limit", AMQPValue::LongInt(0)),
    ];
    let (from, into) = (Bench::with("returned", options, &arguments).await, Bench::new("returned-to").await);
    let numbered = |number: usize| format!("m{number}").into_bytes();
    fill(&from, (0..40).map(numbered)).await;
    from.put(b"wanted", BasicProperties::default().with_message_id("id".into())).await;
    let rabbit = rabbit();
    for _ in 0..3 {
        let (moved, report) = relocate(&rabbit, &from, &command(Destination::Origin, 50)).await;
        assert_eq!((moved, report.examined, report.truncated), (0, 32, true), "{:?}", report.warnings);
        assert_eq!(from.ready(41).await, 41);
        let plain = command(to(&into), 50);
        let previewed =
            rabbit.preview_move(&access(), &from.queue, &plain, &everywhere(), soon()).await.unwrap();
        assert_eq!((previewed.examined, previewed.truncated), (32, true));
        assert_eq!(from.ready(41).await, 41);
    }
    let (moved, _) = relocate(&rabbit, &from, &command(to(&into), 10)).await;
    assert_eq!((moved, into.bodies().await), (10, (0..10).map(|n| format!("m{n}")).collect()));
    let selecting =
        MoveCommand { msg_ids: Some(vec![Base64Bytes(b"id".to_vec())]), ..command(to(&into), 10) };
    let (moved, report) = relocate(&rabbit, &from, &selecting).await;
    assert_eq!((moved, report.examined, report.remaining), (1, 31, Some(30)));
    assert_eq!(from.ready(30).await, 30);
    assert_eq!(into.bodies().await, ["wanted"]);
    let (moved, _) = relocate(&rabbit, &from, &command(to(&into), 50)).await;
    assert_eq!((moved, into.bodies().await), (30, (10..40).map(|n| format!("m{n}")).collect()));
    from.clean().await;
    into.clean().await;
}

#[tokio::test]
async fn a_preview_says_what_would_be_moved_and_moves_nothing() {
    let dead = Bench::new("preview-dead").await;
    let orders = dead_lettering_to("preview", &dead, &[]).await;
    let gone = dead_lettering_to("preview-gone", &dead, &[]).await;
    for bench in [&orders, &gone] {
        bench.put(b"order", BasicProperties::default()).await;
        reject_all(bench).await;
    }
    assert_eq!(dead.ready(2).await, 2);
    gone.clean().await;
    let origin = command(Destination::Origin, 10);
    let report = rabbit().preview_move(&access(), &dead.queue, &origin, &everywhere(), soon()).await.unwrap();
    assert_eq!(why(&report), [None, Some(KeptReason::Unroutable)]);
    let counts: Vec<_> = report.by_destination().into_iter().collect();
    assert_eq!((counts, report.remaining), (vec![(&orders.queue, 1)], Some(2)));
    let absent = Bench::absent("preview-absent").await;
    let to_absent = command(to(&absent), 10);
    let refused = rabbit().preview_move(&access(), &dead.queue, &to_absent, &everywhere(), soon()).await;
    assert!(matches!(refused, Err(BrokerError::QueueNotFound { queue, .. }) if queue == absent.queue));
    assert_eq!(report.warnings.len(), 1);
    assert_eq!((dead.ready(2).await, orders.count().await), (2, 0));
    dead.clean().await;
    orders.clean().await;
}

#[tokio::test]
async fn what_is_in_hand_when_a_move_ends_without_a_word_is_at_both_places() {
    let (from, into) = (Bench::new("both-from").await, Bench::new("both-to").await);
    from.put_numbered(40).await;
    let rabbit = rabbit();
    let wanted = command(to(&into), 100);
    let mut moving =
        rabbit.connect_to_move(&access(), &from.queue, &wanted, &everywhere(), soon()).await.unwrap();
    let first = moving.put(100, soon()).await.unwrap();
    moving.settle(soon()).await.unwrap();
    let second = moving.put(100, soon()).await.unwrap();
    assert!(second.count <= moving.most_in_doubt() && second.is_certain);
    drop(moving);
    let left = u32::try_from(40 - first.count).unwrap();
    assert_eq!(from.ready(left).await, left, "what was not settled is back");
    assert_eq!(u64::from(into.count().await), first.count + second.count, "and at its new place");
    let (moved, _) = relocate(&rabbit, &from, &wanted).await;
    assert_eq!(moved, u64::from(left));
    let mut bodies = into.bodies().await;
    assert_eq!(u64::try_from(bodies.len()).unwrap(), 40 + second.count);
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 40);
    from.clean().await;
    into.clean().await;
}

#[tokio::test]
async fn a_queue_that_does_not_exist_has_nothing_to_move() {
    let absent = Bench::absent("move-absent").await;
    let nowhere = QueueName::try_from("anywhere".to_owned()).unwrap();
    let wanted = command(Destination::Queue(nowhere), 1);
    let refused =
        rabbit().connect_to_move(&access(), &absent.queue, &wanted, &everywhere(), soon()).await.map(drop);
    assert!(matches!(refused, Err(BrokerError::QueueNotFound { queue, .. }) if queue == absent.queue));
}

/// Checks that a move from a stream is refused, although the stream reports 0 messages at first:
/// RabbitMQ updates the count only with its statistics.
#[tokio::test]
async fn a_stream_is_refused_and_never_taken_for_an_empty_queue() {
    let (from, into) = (queue("move", "stream").await, Bench::new("move-from-stream").await);
    from.put_numbered(3).await;
    let rabbit = rabbit();
    let wanted = command(to(&into), 10);
    let mut moving =
        rabbit.connect_to_move(&access(), &from.queue, &wanted, &everywhere(), soon()).await.unwrap();
    let refused = moving.put(10, soon()).await.map(drop).unwrap_err();
    assert!(matches!(refused.error, BrokerError::Unsupported { .. }), "{:?}", refused.error);
    assert_eq!((refused.in_doubt, into.count().await), (0, 0));
    from.clean().await;
    into.clean().await;
}
