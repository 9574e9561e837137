//! Tests with messages whose headers exceed the negotiated frame size, since each dead-lettering
//! added some.

use broker::Broker as _;
use lapin::options::{BasicGetOptions, BasicRejectOptions, QueueDeclareOptions};
use lapin::types::AMQPValue;
use lapin::{BasicProperties, types::FieldTable};
use mq::{AckMode, Destination, HeaderValue, KeptReason, MaxMoves, MoveCommand, MoveReport, ReceivedMessage};

use crate::raw::{self, HEADERS, MESSAGE_ID, long_string, short_string};
use crate::reach::everywhere;
use crate::support::{Bench, COMMIT, NONE, PLENTY, ROLLBACK, access, consume, is_at_least, rabbit, soon};

/// Length in bytes of the test header's value, close to the maximum that RabbitMQ accepts from a
/// publisher.
const LENGTH: usize = 131_000 - 30;

/// Declares a queue of type `kind` and its dead-letter queue. Returns both in this order.
async fn pair(kind: &str) -> (Bench, Bench) {
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut arguments = vec![("x-queue-type", text(kind))];
    if kind == "quorum" {
        arguments.push(("x-delivery-limit", AMQPValue::LongInt(3)));
    }
    let dead = Bench::with(&format!("long-headers-dead-{kind}"), options, &arguments).await;
    arguments.push(("x-dead-letter-exchange", text("")));
    arguments.push(("x-dead-letter-routing-key", text(dead.queue.as_str())));
    (Bench::with(&format!("long-headers-{kind}"), options, &arguments).await, dead)
}

/// Publishes one ordinary message and one with long headers, and rejects both, so that they are
/// dead-lettered.
async fn let_die(bench: &Bench, dead: &Bench) {
    let mut few = FieldTable::default();
    few.insert("k".into(), AMQPValue::LongString("few".into()));
    bench.put(b"innocent", BasicProperties::default().with_headers(few)).await;
    let trace = [&short_string(b"trace")[..], b"S", &long_string(&vec![b't'; LENGTH])].concat();
    let properties = [long_string(&trace), short_string(b"odd")].concat();
    raw::put(&bench.queue, HEADERS | MESSAGE_ID, &properties, b"odd").await;
    assert_eq!(bench.ready(2).await, 2);
    let get = || bench.channel.basic_get(bench.queue.as_str().into(), BasicGetOptions::default());
    while let Some(message) = get().await.unwrap() {
        message.delivery.acker.reject(BasicRejectOptions { requeue: false }).await.unwrap();
    }
    assert_eq!(dead.ready(2).await, 2);
}

async fn take(bench: &Bench, mode: AckMode, max: i64) -> Vec<ReceivedMessage> {
    let unit = rabbit().fetch(&access(), &bench.queue, &consume(mode, max, 0), PLENTY, soon()).await.unwrap();
    let messages = unit.consumed().messages.clone();
    match mode {
        ROLLBACK => unit.rollback(soon()).await.unwrap(),
        _ => unit.commit(soon()).await.unwrap(),
    }
    messages
}

fn expect_both(messages: &[ReceivedMessage], from: &Bench) {
    let bodies: Vec<_> = messages.iter().map(|message| message.body.0.as_slice()).collect();
    assert_eq!(bodies, [&b"innocent"[..], b"odd"]);
    let odd = &messages[1];
    assert_eq!(odd.headers.get("trace"), Some(&HeaderValue::Text("t".repeat(LENGTH))));
    assert_eq!(odd.msg_id.as_deref(), Some(&b"odd"[..]));
    assert!(odd.unreadable.0.is_empty());
    for message in messages {
        assert_eq!(message.deaths[0].queue.as_deref(), Some(from.queue.as_str()), "{:?}", message.deaths);
    }
}

fn outcomes(report: &MoveReport) -> Vec<(Option<&[u8]>, Option<KeptReason>)> {
    report.messages.iter().map(|message| (message.msg_id.as_deref(), message.stays)).collect()
}

#[tokio::test]
async fn a_message_of_long_headers_comes_with_them_and_harms_no_other() {
    for kind in ["classic", "quorum"] {
        let returns_harm = kind == "quorum" && !is_at_least(4, 3).await;
        for mode in [COMMIT, NONE] {
            let (bench, dead) = pair(kind).await;
            let_die(&bench, &dead).await;
            if !returns_harm {
                for mode in [AckMode::Browse, ROLLBACK] {
                    expect_both(&take(&dead, mode, 5).await, &bench);
                    assert_eq!(dead.ready(2).await, 2);
                }
            }
            expect_both(&take(&dead, mode, 5).await, &bench);
            assert_eq!(dead.ready(0).await, 0);
            bench.clean().await;
            dead.clean().await;
        }
    }
}

#[tokio::test]
async fn a_message_of_long_headers_is_left_by_a_move_and_the_others_go() {
    for kind in ["classic", "quorum"] {
        let (bench, dead) = pair(kind).await;
        let_die(&bench, &dead).await;
        let rabbit = rabbit();
        let max = MaxMoves::try_from(10).unwrap();
        let command = MoveCommand { to: Destination::Origin, max, msg_ids: None };
        let expected = [(None, None), (Some(&b"odd"[..]), Some(KeptReason::NotReproducible))];
        if kind == "classic" || is_at_least(4, 3).await {
            let report =
                rabbit.preview_move(&access(), &dead.queue, &command, &everywhere(), soon()).await.unwrap();
            assert_eq!(outcomes(&report), expected, "{report:?}");
            assert_eq!(dead.ready(2).await, 2);
        }
        let mut moving =
            rabbit.connect_to_move(&access(), &dead.queue, &command, &everywhere(), soon()).await.unwrap();
        loop {
            let put = moving.put(10, soon()).await.unwrap();
            moving.settle(soon()).await.unwrap();
            if put.is_last {
                break;
            }
        }
        let report = moving.finish(soon()).await;
        assert_eq!(outcomes(&report), expected, "{report:?}");
        assert_eq!(bench.bodies().await, ["innocent"]);
        assert_eq!(dead.ready(1).await, 1, "it stays");
        assert_eq!(take(&dead, COMMIT, 5).await[0].body.0, b"odd");
        bench.clean().await;
        dead.clean().await;
    }
}

#[tokio::test]
async fn the_longest_headers_that_a_publisher_may_write_come_as_they_are() {
    // RabbitMQ accepts at most eight bytes more than was agreed.
    for frame in 131_064..=131_080 {
        let bench = Bench::new("longest").await;
        let trace = vec![b't'; frame - 8 - 14 - 4 - 7];
        let trace = [&short_string(b"k")[..], b"S", &long_string(&trace)].concat();
        raw::put(&bench.queue, HEADERS, &long_string(&trace), b"odd").await;
        bench.put(b"next", BasicProperties::default()).await;
        let messages = take(&bench, COMMIT, 5).await;
        assert_eq!(messages.len(), 2, "{frame}");
        assert_eq!(messages[0].headers.len(), 1, "{frame}");
        assert_eq!(messages[1].body.0, b"next", "{frame}");
        bench.clean().await;
    }
}
