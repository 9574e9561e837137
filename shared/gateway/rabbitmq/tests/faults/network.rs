//! Faults of the network between client and broker: a silent cut, and connections that break.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use broker::Broker as _;

use mq::BrokerError;
use rabbitmq::RabbitMq;

use crate::observer::Observer;
use crate::proxy::Proxy;
use crate::report::{kind, outcome, row, timed};
use crate::support::{
    COMMIT, PLENTY, after, consume, heartbeat, ids, messages, produce, queue, soon, works_again,
};
use crate::victims::{Victims, check_produced};

/// Cuts the network without FIN or RST, so that sent bytes vanish, and checks the operations in
/// progress. The broker notices the cut by its heartbeat, and only then requeues unacknowledged
/// messages.
pub(crate) async fn silent() {
    let proxy = Proxy::start().await;
    let settings = heartbeat(2);
    let victims = Victims::prepare("network cut without a FIN", proxy.access(), settings).await;
    let blow = async {
        proxy.freeze();
        Instant::now()
    };
    victims.suffer(3_000, blow).await.settle().await;
}

pub(crate) async fn broken() {
    let proxy = Proxy::start().await;
    let victims = Victims::prepare("connections reset", proxy.access(), rabbitmq::Settings::default()).await;
    let blow = async {
        let at = Instant::now();
        proxy.cut().await;
        at
    };
    victims.suffer(3_000, blow).await.settle().await;
}

/// Checks that an operation soon gives up an idle connection whose network is dead, and does not
/// wait for the heartbeat to fail.
pub(crate) async fn silent_while_idle() {
    let (proxy, observer, queue) = (Proxy::start().await, Observer::connect().await, queue("idle"));
    observer.declare(&queue, &[]).await;
    let rabbit = RabbitMq::new(5);
    rabbit.depth(&proxy.access(), &queue, soon()).await.expect("depth");
    proxy.freeze();
    let deadline = after(30_000);
    let (result, took) = timed(deadline, rabbit.depth(&proxy.access(), &queue, deadline)).await;
    assert!(result.is_ok() && proxy.accepted() == 2, "{result:?}");
    row("network cut without a FIN, heartbeat 60 s", "idle, then depth", outcome(&result), took, "unchanged");
    works_again(&rabbit, &proxy.access(), &queue).await;
    observer.delete(&queue).await;
}

/// Cuts the connection at many moments while messages are published without a rate limit, and
/// checks that all confirmed messages are on the queue.
pub(crate) async fn publishes_at_any_moment() {
    const COUNT: i64 = 600;
    let (proxy, observer) = (Proxy::start().await, Observer::connect().await);
    let rabbit = RabbitMq::new(5);
    let (mut in_doubt_all, mut confirmed_all, mut twice, mut finished) = (0, 0, 0, 0);
    let mut longest = Duration::ZERO;
    for round in 0..10_u64 {
        let queue = queue("moment");
        observer.declare(&queue, &[]).await;
        let outgoing = messages(COUNT, None);
        let access = proxy.access();
        let deadline = after(1_000);
        let publish = produce(&rabbit, &access, &queue, &outgoing, 0, deadline);
        let cut = async {
            tokio::time::sleep(Duration::from_millis(2 + round * 5)).await;
            if round % 2 == 0 { proxy.cut().await } else { proxy.freeze() }
        };
        let ((result, took), ()) = tokio::join!(timed(deadline, publish), cut);
        longest = longest.max(took);
        proxy.cut().await;
        let (confirmed, in_doubt) = match result {
            Ok(report) => {
                finished += 1;
                (report.enqueued, BTreeSet::new())
            }
            Err(failure) => {
                kind(&failure.error);
                (failure.committed, failure.in_doubt.iter().map(|id| id.to_hex()).collect())
            }
        };
        // Messages that were on their way when the connection broke may still arrive.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let committed = ids(&outgoing, 0..confirmed);
        let first = observer.drain(&queue).await;
        check_produced(&first.ids(), &committed, &in_doubt);
        produce(&rabbit, &access, &queue, &outgoing, confirmed, soon()).await.expect("resume");
        let both = first.and(observer.drain(&queue).await);
        assert_eq!(both.ids(), ids(&outgoing, 0..outgoing.count()), "nothing is lost");
        assert!(both.duplicates().is_subset(&in_doubt), "only what was in doubt comes twice");
        in_doubt_all += in_doubt.len();
        twice += both.duplicates().len();
        confirmed_all += confirmed;
        observer.delete(&queue).await;
    }
    assert!(finished < 10, "no cut met a publish");
    let seen = format!("{confirmed_all} confirmed, {in_doubt_all} in doubt");
    row(
        "network cut at 10 moments",
        "produce of 600",
        &seen,
        longest,
        &format!("0 lost; {twice} twice after resuming"),
    );
}

/// Cuts the connection at many moments during the commit of a consume, and checks the result: done,
/// not done, or in doubt with either all messages removed or none.
pub(crate) async fn commits_at_any_moment() {
    const ROUNDS: u64 = 16;
    let (proxy, observer) = (Proxy::start().await, Observer::connect().await);
    let (rabbit, access) = (RabbitMq::new(5), proxy.access());
    let mut seen = [("done", 0), ("in doubt and done", 0), ("in doubt and not done", 0), ("not done", 0)];
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        let queue = queue("commit");
        observer.declare(&queue, &[]).await;
        let stored = messages(20, None);
        produce(&rabbit, &access, &queue, &stored, 0, soon()).await.expect("store");
        let unit = rabbit.fetch(&access, &queue, &consume(COMMIT, 10), PLENTY, soon()).await.expect("fetch");
        let deadline = after(300);
        let cut = async {
            moment(Duration::from_micros(round / 2 * 130)).await;
            if round % 2 == 0 { proxy.cut().await } else { proxy.freeze() }
        };
        let ((result, took), ()) = tokio::join!(timed(deadline, unit.commit(deadline)), cut);
        proxy.cut().await;
        let (all, rest) = (ids(&stored, 0..20), ids(&stored, 10..20));
        let expected = if result.is_ok() { 10 } else { 20 };
        let patience = Duration::from_millis(if matches!(result, Err(BrokerError::InDoubt { .. })) {
            700
        } else {
            5_000
        });
        observer.settled(&queue, expected, patience).await;
        let there = observer.drain(&queue).await.ids();
        outcome(&result);
        let is_in_doubt = matches!(result, Err(BrokerError::InDoubt { .. }));
        let index = if there == rest && result.is_ok() {
            0
        } else if there == rest && is_in_doubt {
            1
        } else if there == all && is_in_doubt {
            2
        } else if there == all && result.is_err() {
            3
        } else {
            panic!("{result:?} left {} of 20", there.len())
        };
        seen[index].1 += 1;
        longest = longest.max(took);
        observer.delete(&queue).await;
    }
    let seen = seen.map(|(name, times)| format!("{times} {name}")).join(", ");
    row("network cut at 16 moments", "commit of 10", &seen, longest, "0 lost; all or none of the ten");
}

/// Waits for `delay` in a busy loop, more precisely than Tokio's timer.
async fn moment(delay: Duration) {
    let started = Instant::now();
    while started.elapsed() < delay {
        tokio::task::yield_now().await;
    }
}
