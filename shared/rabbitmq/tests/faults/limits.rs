//! Limits of the broker: full queues, its memory, the size of a message.

use std::sync::Arc;
use std::time::Duration;

use mq::{Broker as _, BrokerError, ExplicitMessage, ProduceSource, QueueName};
use rabbitmq::RabbitMq;
use tokio::sync::Mutex;

use crate::broker::{Broker, FULL_BY_POLICY, MAX_MESSAGE};
use crate::observer::{FieldValue, Observer};
use crate::report::{kind, outcome, row, timed};
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
    let cases = [
        ("full queue that rejects (its own `x-overflow`)", full, "QueueFull"),
        ("full queue that rejects (by policy)", by_policy, "Rejected"),
    ];
    for (fault, queue, expected) in cases {
        let rabbit = RabbitMq::new(5);
        let (deadline, outgoing) = (after(3_000), messages(50, None));
        let (result, took) =
            timed(deadline, produce(&rabbit, &access(), &queue, &outgoing, 0, deadline)).await;
        let failure = result.unwrap_err();
        assert_eq!(kind(&failure.error), expected, "{failure:?}");
        let there = observer.drain(&queue).await;
        let in_doubt = failure.in_doubt.iter().map(|id| id.to_hex()).collect();
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
}

/// A broker under a memory alarm stops reading from connections that publish. What was sent may be
/// read afterwards.
pub(crate) async fn memory_alarm(broker: Arc<Mutex<Broker>>) {
    const FAULT: &str = "memory alarm (blocked connection)";
    let (observer, queue) = (Observer::connect().await, queue("alarm"));
    observer.declare(&queue, &[]).await;
    let rabbit = RabbitMq::new(5);
    produce(&rabbit, &access(), &queue, &messages(4, None), 0, soon()).await.expect("store");
    let broker = broker.lock().await;
    broker.ctl(&["set_vm_memory_high_watermark", "0.00001"]).await;

    let more = messages(10, None);
    for _ in 0..2 {
        let deadline = after(2_000);
        let (result, took) = timed(deadline, produce(&rabbit, &access(), &queue, &more, 4, deadline)).await;
        let failure = result.unwrap_err();
        assert!(matches!(failure.error, BrokerError::InDoubt { .. }), "{failure:?}");
        assert_eq!((failure.committed, failure.in_doubt.len()), (4, 1), "{failure:?}");
        assert_eq!(rabbit.pools(), vec![], "a blocked connection is not kept");
        row(
            FAULT,
            "produce of 6",
            kind(&failure.error),
            took,
            "the one in doubt, once the alarm is over, or not",
        );
    }
    let deadline = after(2_000);
    let (result, took) = timed(deadline, rabbit.depth(&access(), &queue, deadline)).await;
    assert_eq!(result.as_ref().unwrap().current_depth, 4);
    row(FAULT, "depth", outcome(&result), took, "unchanged");
    let command = consume(COMMIT, 2);
    let took = async {
        let unit = rabbit.fetch(&access(), &queue, &command, PLENTY, deadline).await?;
        unit.commit(deadline).await
    };
    let (result, took) = timed(deadline, took).await;
    assert!(result.is_ok(), "{result:?}");
    row(FAULT, "consume of 2", outcome(&result), took, "2 fewer");

    broker.ctl(&["set_vm_memory_high_watermark", "0.4"]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let there = observer.drain(&queue).await.ids();
    check_produced(&there, &ids(&more, 2..4), &ids(&more, 4..5));
    works_again(&rabbit, &access(), &queue).await;
    observer.delete(&queue).await;
}

/// The broker's own limit; what AMQP itself cannot carry never leaves.
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
    assert_eq!((failure.committed, failure.in_doubt.len()), (0, 0), "{failure:?}");
    assert_eq!(observer.count(&queue).await, 0);
    row("oversized message", "produce, the first one", kind(&failure.error), took, "0");

    let among = sizes(&[10, 20, MAX_MESSAGE + 1, 30]);
    let (result, took) = timed(deadline, produce(&rabbit, &access(), &queue, &among, 0, deadline)).await;
    let failure = result.unwrap_err();
    let there = observer.drain(&queue).await.ids();
    let in_doubt = failure.in_doubt.iter().map(|id| id.to_hex()).collect();
    assert_eq!(kind(&failure.error), "InDoubt", "{failure:?}");
    assert_eq!(failure.error.reply().map(|reply| reply.code), Some(406), "{failure:?}");
    assert_eq!(in_doubt, ids(&among, failure.committed..4), "every one that was not confirmed is named");
    check_produced(&there, &ids(&among, 0..failure.committed), &in_doubt);
    assert!(there.is_subset(&ids(&among, 0..2)), "the large one is not there, and nothing after it");
    let on_queue =
        format!("{}: {} confirmed, {} named as in doubt", there.len(), failure.committed, in_doubt.len());
    row("oversized message", "produce, the third of four", kind(&failure.error), took, &on_queue);

    works_again(&rabbit, &access(), &queue).await;
    observer.delete(&queue).await;
}
