//! Faults in which the broker refuses a login, or an operation on a channel, after which the
//! connection can still be used.

use mq::{AckMode, BrokerError};

use broker::Broker as _;
use rabbitmq::RabbitMq;

use crate::observer::{FieldValue, Observer};
use crate::proxy::Proxy;
use crate::report::{kind, outcome, row, timed};
use crate::server::{CLOSED_VHOST, OUTSIDER, USER};
use crate::support::{
    COMMIT, PLENTY, access, after, as_user, consume, is_at_least, messages, produce, queue, soon, works_again,
};

fn reply(error: &BrokerError) -> Option<i64> {
    error.reply().map(|reply| reply.code)
}

pub(crate) async fn logins(wrong_password: String) {
    let (rabbit, observer, queue) = (RabbitMq::new(5), Observer::connect().await, queue("login"));
    observer.declare(&queue, &[]).await;
    let mut missing = access();
    missing.endpoint.queue_manager = "no-such-vhost".to_owned();
    let mut closed = access();
    closed.endpoint.queue_manager = CLOSED_VHOST.to_owned();
    let cases = [
        ("wrong password", as_user(access(), USER, &wrong_password), "AuthenticationFailed", 403),
        ("virtual host that does not exist", missing, "Rejected", 530),
        ("virtual host of others", closed, "Rejected", 530),
    ];
    for (fault, access, expected, code) in cases {
        let deadline = after(3_000);
        let (result, took) =
            timed(deadline, produce(&rabbit, &access, &queue, &messages(5, None), 0, deadline)).await;
        let failure = result.unwrap_err();
        assert_eq!((kind(&failure.error), reply(&failure.error)), (expected, Some(code)), "{failure:?}");
        assert_eq!((failure.committed, failure.in_doubt.len()), (0, 0));
        assert_eq!(observer.count(&queue).await, 0);
        row(fault, "produce", expected, took, "0");
        assert_eq!(rabbit.pools(), vec![], "a refused connection is not kept");
    }
    works_again(&rabbit, &access(), &queue).await;
    observer.delete(&queue).await;
}

pub(crate) async fn missing_queue() {
    let (proxy, absent) = (Proxy::start().await, queue("absent"));
    let (rabbit, access) = (RabbitMq::new(5), proxy.access());
    let deadline = after(3_000);
    let (result, took) =
        timed(deadline, produce(&rabbit, &access, &absent, &messages(500, None), 0, deadline)).await;
    let failure = result.unwrap_err();
    assert!(
        matches!(&failure.error, BrokerError::QueueNotFound { queue, .. } if *queue == absent),
        "{failure:?}"
    );
    assert_eq!((failure.committed, failure.in_doubt.len()), (0, 0));
    assert_eq!(reply(&failure.error), Some(312), "{failure:?}");
    row("missing queue", "produce of 500", kind(&failure.error), took, "none: nothing was stored");
    let command = consume(COMMIT, 1);
    let (result, took) = timed(deadline, rabbit.fetch(&access, &absent, &command, PLENTY, deadline)).await;
    let error = result.err().expect("no queue");
    assert!(matches!(&error, BrokerError::QueueNotFound { queue, .. } if *queue == absent), "{error:?}");
    assert_eq!(reply(&error), Some(404), "{error:?}");
    row("missing queue", "consume", kind(&error), took, "none");
    let (result, took) = timed(deadline, rabbit.depth(&access, &absent, deadline)).await;
    assert_eq!(outcome(&result), "QueueNotFound");
    row("missing queue", "depth", outcome(&result), took, "none");
    let observer = Observer::connect().await;
    observer.declare(&absent, &[]).await;
    works_again(&rabbit, &access, &absent).await;
    assert_eq!(proxy.accepted(), 1, "the connection lived through all of it");
    observer.delete(&absent).await;
}

/// Checks that the broker's refusals ACCESS_REFUSED, RESOURCE_LOCKED and PRECONDITION_FAILED close
/// only the channel, and not the connection.
pub(crate) async fn on_a_channel(outsider: String) {
    let (proxy, observer) = (Proxy::start().await, Observer::connect().await);
    let (mine, locked) = (queue("channel"), queue("exclusive"));
    observer.declare(&mine, &[]).await;
    observer.declare_exclusive(&locked).await;
    let rabbit = RabbitMq::new(5);

    let stranger = as_user(proxy.access(), OUTSIDER, &outsider);
    let deadline = after(3_000);
    let (result, took) =
        timed(deadline, produce(&rabbit, &stranger, &mine, &messages(500, None), 0, deadline)).await;
    let failure = result.unwrap_err();
    assert_eq!((kind(&failure.error), reply(&failure.error)), ("Rejected", Some(403)), "{failure:?}");
    assert_eq!((failure.committed, failure.in_doubt.len()), (0, 0), "{failure:?}");
    row("access refused (403)", "produce of 500", "Rejected", took, "0");
    let command = consume(COMMIT, 1);
    let (result, took) = timed(deadline, rabbit.fetch(&stranger, &mine, &command, PLENTY, deadline)).await;
    let error = result.err().expect("refused");
    assert_eq!((kind(&error), reply(&error)), ("Rejected", Some(403)), "{error:?}");
    row("access refused (403)", "consume", "Rejected", took, "unchanged");
    assert_eq!((observer.count(&mine).await, proxy.accepted()), (0, 1));

    let access = proxy.access();
    let (result, took) = timed(deadline, rabbit.depth(&access, &locked, deadline)).await;
    let error = result.unwrap_err();
    assert_eq!((kind(&error), reply(&error)), ("Rejected", Some(405)), "{error:?}");
    row("resource locked (405)", "depth", "Rejected", took, "unchanged");
    let (result, took) = timed(deadline, rabbit.fetch(&access, &locked, &command, PLENTY, deadline)).await;
    let error = result.err().expect("refused");
    assert_eq!((kind(&error), reply(&error)), ("Rejected", Some(405)), "{error:?}");
    row("resource locked (405)", "consume", "Rejected", took, "unchanged");

    browse_a_quorum_queue(&rabbit, &access, &observer).await;
    works_again(&rabbit, &access, &mine).await;
    assert_eq!(proxy.accepted(), 2, "one connection for each user lived through all of it");
    observer.delete(&mine).await;
}

/// Browses a quorum queue, and checks that the connection stays open. To find out the queue's type,
/// the client makes several declarations that fail (406).
async fn browse_a_quorum_queue(rabbit: &RabbitMq, access: &mq::Access, observer: &Observer) {
    let quorum = queue("quorum");
    let arguments =
        [("x-queue-type", FieldValue::S("quorum".try_into().unwrap())), ("x-max-length", FieldValue::I(100))];
    observer.declare(&quorum, &arguments).await;
    produce(rabbit, access, &quorum, &messages(3, None), 0, soon()).await.expect("store");
    let deadline = after(3_000);
    let command = consume(AckMode::Browse, 3);
    let (result, took) = timed(deadline, rabbit.fetch(access, &quorum, &command, PLENTY, deadline)).await;
    // From 4.3 on, the type need not be known.
    let expected = if is_at_least(4, 3).await { "ok" } else { "Unsupported" };
    let seen = outcome(&result);
    assert_eq!(seen, expected);
    assert_eq!(observer.settled(&quorum, 3, std::time::Duration::from_secs(5)).await, 3);
    row("precondition failed (406), asked on purpose", "browse of a quorum queue", seen, took, "3 of 3");
    observer.delete(&quorum).await;
}
