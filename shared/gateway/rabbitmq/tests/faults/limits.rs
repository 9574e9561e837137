//! Faults by limits of the broker: full queues, its memory alarm, and the size of a message.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker as _, Deadline};

use mq::{
    AllowedQueues, BrokerError, Destination, ExplicitMessage, MaxMoves, MoveCommand, MoveFailure, Outgoing,
    ProduceSource, QueueName,
};
use rabbitmq::RabbitMq;
use tokio::sync::Mutex;

use crate::log;
use crate::observer::{FieldValue, Observer};
use crate::report::{kind, outcome, row, timed};
use crate::server::{Broker, DEAD_BY_POLICY, DEAD_LETTERING_BY_POLICY, FULL_BY_POLICY, MAX_MESSAGE};
use crate::support::{
    COMMIT, PLENTY, access, after, consume, ids, messages, outgoing, produce, queue, soon, works_again,
};
use crate::victims::check_produced;

pub(crate) async fn full_queues() {
    let observer = Observer::connect().await;
    let full = queue("full");
    let arguments = [
        ("x-max-length", FieldValue::I(3)),
        ("x-overflow", FieldValue::S("reject-publish".try_into().unwrap())),
    ];
    observer.declare(&full, &arguments).await;
    let by_policy =
        QueueName::try_from(format!("{FULL_BY_POLICY}{}", std::process::id())).expect("a queue name");
    observer.declare(&by_policy, &[]).await;
    let dead = QueueName::try_from(DEAD_BY_POLICY.to_owned()).expect("a queue name");
    observer.declare(&dead, &[]).await;
    let dead_lettering = format!("{DEAD_LETTERING_BY_POLICY}{}", std::process::id());
    let dead_lettering = QueueName::try_from(dead_lettering).expect("a queue name");
    observer.declare(&dead_lettering, &[]).await;
    // A classic queue's declared overflow overrules a policy's.
    let overruling = format!("{DEAD_LETTERING_BY_POLICY}overruled.{}", std::process::id());
    let overruling = QueueName::try_from(overruling).expect("a queue name");
    observer.declare(&overruling, &arguments).await;
    let cases = [
        ("full queue that rejects (its own `x-overflow`)", full, "QueueFull", false, 0),
        ("full queue that rejects (by policy)", by_policy, "Rejected", true, 0),
        ("full queue that dead-letters what it rejects (by policy)", dead_lettering, "Rejected", true, 1),
        ("the same policy on a queue with an `x-overflow` of its own", overruling, "QueueFull", false, 0),
    ];
    for (fault, queue, expected, is_in_doubt, fewest_dead) in cases {
        let rabbit = RabbitMq::new(5);
        let (deadline, outgoing) = (after(3_000), messages(50, None));
        let (result, took) =
            timed(deadline, produce(&rabbit, &access(), &queue, &outgoing, 0, deadline)).await;
        let failure = result.unwrap_err();
        assert_eq!(kind(&failure.error), expected, "{failure:?}");
        let there = observer.drain(&queue).await;
        let in_doubt: BTreeSet<_> = failure.in_doubt.iter().map(|id| id.to_hex()).collect();
        assert_eq!(!in_doubt.is_empty(), is_in_doubt, "{fault}: {failure:?}");
        let dead_letters = observer.drain(&dead).await.ids();
        assert!(dead_letters.len() >= fewest_dead, "{fault}: {dead_letters:?}");
        assert!(
            dead_letters.iter().all(|id| in_doubt.contains(id)),
            "{fault}: {dead_letters:?} of {in_doubt:?}"
        );
        check_produced(&there.ids(), &ids(&outgoing, 0..failure.committed), &in_doubt);
        let on_queue = format!(
            "{}: {} confirmed, {} named as in doubt",
            there.ids().len(),
            failure.committed,
            in_doubt.len()
        );
        row(fault, "produce of 50", expected, took, &on_queue);
        works_again(&rabbit, &access(), &queue).await;
        observer.delete(&queue).await;
    }
    observer.delete(&dead).await;
}

const ALARM: &str = "memory alarm (blocked connection)";

/// Checks produces and moves during a memory alarm, in which the broker reads nothing from
/// connections that publish. A message sent meanwhile is in doubt, since the broker may read it
/// after the alarm.
pub(crate) async fn memory_alarm(broker: Arc<Mutex<Broker>>) {
    let (observer, queue, to) = (Observer::connect().await, queue("alarm"), queue("alarm-to"));
    for queue in [&queue, &to] {
        observer.declare(queue, &[]).await;
    }
    let rabbit = RabbitMq::new(5);
    produce(&rabbit, &access(), &queue, &messages(4, None), 0, soon()).await.expect("store");
    let broker = broker.lock().await;
    assert_eq!(rabbit.test(&access(), Some(&queue), soon()).await.blocked, None);
    broker.ctl(&["set_vm_memory_high_watermark", "0.00001"]).await;

    let more = messages(10, None);
    for attempt in 1..=2 {
        let deadline = after(2_000);
        let (result, took) = timed(deadline, produce(&rabbit, &access(), &queue, &more, 4, deadline)).await;
        let failure = result.unwrap_err();
        let BrokerError::InDoubt { detail, .. } = &failure.error else { panic!("{failure:?}") };
        assert!(detail.contains("has blocked this connection (low on memory)"), "{detail}");
        assert_eq!((failure.committed, failure.in_doubt.len()), (4, 1), "{failure:?}");
        assert_eq!(rabbit.pools(), vec![], "a blocked connection is not kept");
        logged(attempt, 0).await;
        row(
            ALARM,
            "produce of 6",
            kind(&failure.error),
            took,
            "the one in doubt, once the alarm is over, or not",
        );
    }
    what_works_under_an_alarm(&rabbit, &queue).await;
    logged(3, 0).await;

    let deadline = after(2_000);
    let (result, took) = timed(deadline, move_one(&rabbit, &queue, &to, deadline)).await;
    let failure = result.unwrap_err();
    let BrokerError::InDoubt { detail, .. } = &failure.error else { panic!("{failure:?}") };
    assert!(detail.contains("has blocked this connection (low on memory)"), "{detail}");
    assert_eq!(failure.in_doubt, 1);
    logged(4, 0).await;
    row(ALARM, "move of 1", kind(&failure.error), took, "at one place or at both");

    let waiting = messages(13, None);
    an_alarm_ends_while_a_produce_waits(&broker, &rabbit, &queue, &waiting).await;
    let mut there = observer.drain(&queue).await.ids();
    let moved = observer.drain(&to).await.ids();
    assert!(moved.is_subset(&ids(&more, 2..3)), "{moved:?}");
    there.extend(moved);
    let certain = &ids(&more, 2..4) | &ids(&waiting, 10..13);
    check_produced(&there, &certain, &ids(&more, 4..5));
    works_again(&rabbit, &access(), &queue).await;
    for queue in [&queue, &to] {
        observer.delete(queue).await;
    }
}

/// Checks that depth and consume work during a memory alarm, and that the connection test reports
/// it.
async fn what_works_under_an_alarm(rabbit: &RabbitMq, queue: &QueueName) {
    let deadline = after(2_000);
    let (result, took) = timed(deadline, rabbit.depth(&access(), queue, deadline)).await;
    assert_eq!(result.as_ref().unwrap().current_depth, 4);
    row(ALARM, "depth", outcome(&result), took, "unchanged");
    let command = consume(COMMIT, 2);
    let took = async {
        let unit = rabbit.fetch(&access(), queue, &command, PLENTY, deadline).await?;
        unit.commit(deadline).await
    };
    let (result, took) = timed(deadline, took).await;
    assert!(result.is_ok(), "{result:?}");
    row(ALARM, "consume of 2", outcome(&result), took, "2 fewer");
    let deadline = after(3_000);
    let (report, took) = timed(deadline, rabbit.test(&access(), Some(queue), deadline)).await;
    assert_eq!((report.ok, report.blocked.as_deref()), (true, Some("low on memory")), "{report:?}");
    row(ALARM, "connection test", "ok, blocked", took, "unchanged");
}

/// Ends the memory alarm while a produce waits on the blocked connection, and checks that the
/// produce completes.
async fn an_alarm_ends_while_a_produce_waits(
    broker: &Broker,
    rabbit: &RabbitMq,
    queue: &QueueName,
    waiting: &Outgoing,
) {
    let access = access();
    // On a busy machine the broker's command alone may take most of a minute.
    let produced = produce(rabbit, &access, queue, waiting, 10, after(120_000));
    let end = async {
        while blocked_and_unblocked().0 < 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        broker.ctl(&["set_vm_memory_high_watermark", "0.4"]).await;
    };
    let (produced, ()) = tokio::join!(produced, end);
    assert_eq!(produced.expect("unblocked").enqueued, 3);
    logged(5, 1).await;
    let [unblocked] = &log::events("connection.unblocked")[..] else { panic!() };
    assert_eq!(unblocked["context"]["host"], "127.0.0.1", "{unblocked}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rabbit.test(&access, Some(queue), soon()).await.blocked, None);
}

/// Waits up to 2 s until exactly these numbers of connections were logged as blocked and as
/// unblocked, since the log entry may follow the operation's result.
async fn logged(blocked: usize, unblocked: usize) {
    let patience = Deadline::after(Duration::from_secs(2));
    while blocked_and_unblocked() != (blocked, unblocked) && !patience.has_passed() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(blocked_and_unblocked(), (blocked, unblocked));
}

/// Returns the number of log entries so far about a blocked connection, and about an unblocked one.
fn blocked_and_unblocked() -> (usize, usize) {
    let blocked = log::events("connection.blocked");
    assert!(blocked.iter().all(|event| event["context"]["reason"] == "low on memory"), "{blocked:?}");
    (blocked.len(), log::events("connection.unblocked").len())
}

/// Moves one message from the head of a queue to another queue.
async fn move_one(
    rabbit: &RabbitMq,
    from: &QueueName,
    to: &QueueName,
    deadline: Deadline,
) -> Result<(), MoveFailure> {
    let command = MoveCommand {
        to: Destination::Queue(to.clone()),
        max: MaxMoves::try_from(1).expect("in range"),
        msg_ids: None,
    };
    let reach = AllowedQueues::default();
    let early = |error| MoveFailure { error, in_doubt: 0 };
    let mut moving =
        rabbit.connect_to_move(&access(), from, &command, &reach, deadline).await.map_err(early)?;
    moving.put(1, deadline).await?;
    moving.settle(deadline).await
}

/// Checks that messages above the broker's size limit are refused or in doubt, and are never on the
/// queue.
pub(crate) async fn oversized_messages() {
    let (observer, queue) = (Observer::connect().await, queue("oversized"));
    observer.declare(&queue, &[]).await;
    let rabbit = RabbitMq::new(5);
    let sizes = |sizes: &[i64]| {
        let message = |size: &i64| ExplicitMessage::of_text(&"x".repeat(usize::try_from(*size).unwrap()));
        outgoing(ProduceSource::Explicit { messages: sizes.iter().map(message).collect() }, None)
    };

    let deadline = after(3_000);
    let alone = sizes(&[MAX_MESSAGE + 1, 10]);
    let (result, took) = timed(deadline, produce(&rabbit, &access(), &queue, &alone, 0, deadline)).await;
    let failure = result.unwrap_err();
    assert_eq!(kind(&failure.error), "MessageTooLarge", "{failure:?}");
    assert_eq!(failure.error.reply().map(|reply| reply.code), Some(406), "{failure:?}");
    assert!(failure.error.to_string().contains(&format!("{MAX_MESSAGE} bytes")), "{failure:?}");
    assert_eq!((failure.committed, failure.in_doubt.len()), (0, 0), "{failure:?}");
    assert_eq!(observer.count(&queue).await, 0);
    row("oversized message", "produce, the first one", kind(&failure.error), took, "0");

    let among = sizes(&[10, 20, MAX_MESSAGE + 1, 30]);
    let (result, took) = timed(deadline, produce(&rabbit, &access(), &queue, &among, 0, deadline)).await;
    let failure = result.unwrap_err();
    let there = observer.drain(&queue).await.ids();
    let in_doubt: BTreeSet<String> = failure.in_doubt.iter().map(|id| id.to_hex()).collect();
    assert_eq!(kind(&failure.error), "InDoubt", "{failure:?}");
    assert_eq!(failure.error.reply().map(|reply| reply.code), Some(406), "{failure:?}");
    // The broker may refuse the large one before the last one is sent.
    let (sent, all) = (ids(&among, failure.committed..3), ids(&among, failure.committed..4));
    assert!(
        in_doubt == all || in_doubt == sent,
        "every one that was sent and not confirmed is named: {in_doubt:?}, {all:?}"
    );
    check_produced(&there, &ids(&among, 0..failure.committed), &in_doubt);
    assert!(there.is_subset(&ids(&among, 0..2)), "the large one is not there, and nothing after it");
    let on_queue =
        format!("{}: {} confirmed, {} named as in doubt", there.len(), failure.committed, in_doubt.len());
    row("oversized message", "produce, the third of four", kind(&failure.error), took, &on_queue);

    works_again(&rabbit, &access(), &queue).await;
    observer.delete(&queue).await;
}
