//! Test of a cluster of three nodes whose quorum queues lose their leader during produces, moves
//! and commits of the gateway. An independent client then counts messages by id on a node that is
//! alive. No confirmed message is lost, only messages reported as in doubt exist twice, and each
//! message of a commit is either removed or back on its queue.

#![allow(clippy::print_stdout, reason = "it prints what it counted")]

/// Stand-in for the fault tests' module `server`. Only their modules `observer` and `support`,
/// which this test reuses, import from it.
mod server {
    pub(crate) const USER: &str = "app";
}
mod counted;
mod moved;
mod nodes;
#[allow(dead_code, reason = "the faults use all of it")]
#[path = "../../faults/observer.rs"]
mod observer;
#[allow(dead_code, reason = "the faults use all of it")]
#[path = "../../faults/support.rs"]
mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use broker::Broker as _;

use mq::{BrokerError, ProduceFailure, ProduceReport, QueueName};
use rabbitmq::RabbitMq;
use test_support::root::Root;

use crate::cluster::nodes::Nodes;
use crate::cluster::observer::{FieldValue, Messages, Observer};
use crate::cluster::support::{COMMIT, PLENTY, after, consume, ids, messages, produce, queue, soon};

const COUNT: u64 = 1_500;
const RATE: i64 = 500;
/// Maximum time for a queue to elect a new leader and for its messages to become visible.
const ELECTION: Duration = Duration::from_secs(60);
/// Time after which all unacknowledged messages of a lost client are back on their queues, counted
/// from when all nodes run again.
const RETURN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_queue_that_loses_its_leader_loses_no_message() {
    // CLUSTER=rabbitmq-4.0 breaks a cluster of that version.
    let version = std::env::var("CLUSTER").unwrap_or_else(|_| "rabbitmq-4.3".to_owned());
    let root = Root::usable(&version).filter(|_| std::env::var("BROKERS").is_ok_and(|all| all == "all"));
    let Some(root) = root else {
        println!("SKIPPED: without BROKERS=all, or without {version}, there is no cluster to break");
        return;
    };
    let mut nodes = Nodes::start(root).await;
    support::connect_to(nodes.port(2), nodes::PASSWORD);
    // The client is on the leader's node, so that it loses its connection too, and then on another
    // one, whose channel finds the new leader.
    for client in [0, 1] {
        moved::moving(&mut nodes, client).await;
        publishing(&mut nodes, client).await;
        committing(&mut nodes, client).await;
        let counts = counted::committing(&mut nodes, client).await;
        assert_eq!(counts.undone, 0, "{counts}");
    }
}

/// Declares a quorum queue whose leader is on node 0, the node that the test kills.
async fn declare(nodes: &Nodes, name: &str) -> QueueName {
    let queue = queue(name);
    let quorum = FieldValue::S("quorum".try_into().unwrap());
    Observer::connect().await.declare(&queue, &[("x-queue-type", quorum)]).await;
    nodes.lead(0, &queue).await;
    queue
}

/// Connects an independent client once the queue has a leader on a node other than node 0. A client
/// that connects earlier would lose its channel with its deliveries.
async fn observe(nodes: &Nodes, queue: &QueueName) -> Observer {
    nodes.led_by_others(0, queue).await;
    Observer::connect().await
}

async fn publishing(nodes: &mut Nodes, client: usize) {
    let queue = declare(nodes, "leader-lost").await;
    let (rabbit, access) = (RabbitMq::new(5), nodes.access(client));
    let outgoing = messages(i64::try_from(COUNT).unwrap(), Some(RATE));
    let blow = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        nodes.kill(0).await;
    };
    let (result, ()) = tokio::join!(produce(&rabbit, &access, &queue, &outgoing, 0, after(15_000)), blow);
    let (committed, in_doubt) = told(&result);
    let confirmed = ids(&outgoing, 0..committed);
    let observer = observe(nodes, &queue).await;
    let there = drained(&observer, &queue, &confirmed).await;
    let strangers: BTreeSet<_> = there.ids().difference(&ids(&outgoing, 0..COUNT)).cloned().collect();
    assert!(confirmed.is_subset(&there.ids()), "confirmed messages are lost");
    assert_eq!((strangers, there.duplicates()), (BTreeSet::new(), BTreeSet::new()));
    // No message is outside both sets, certain and in doubt.
    let unnamed: BTreeSet<_> = &(&there.ids() - &confirmed) - &in_doubt;
    assert_eq!(unnamed, BTreeSet::new(), "{result:?}");

    // The client resumes after the certain messages.
    let resumed = produce(&rabbit, &access, &queue, &outgoing, committed, after(20_000)).await;
    let mut all = there;
    if committed < COUNT {
        resumed.expect("the queue has a leader again");
        all = all.and(drained(&observer, &queue, &ids(&outgoing, committed..COUNT)).await);
    }
    assert_eq!(all.ids(), ids(&outgoing, 0..COUNT), "after resuming, all are there");
    assert!(all.duplicates().is_subset(&in_doubt), "twice, and not named");
    println!(
        "leader killed in mid-publish, client on {}: {committed} confirmed, {} in doubt, {} lost, {} twice after resuming",
        if client == 0 { "its node" } else { "another node" },
        in_doubt.len(),
        COUNT - u64::try_from(all.ids().len()).unwrap(),
        all.duplicates().len(),
    );
    observer.delete(&queue).await;
    nodes.start_again(0).await;
}

/// Returns the number of messages that the produce reported as committed, and the ids of those that
/// it reported as in doubt. Panics if it failed for a reason other than the lost leader.
fn told(result: &Result<ProduceReport, ProduceFailure>) -> (u64, BTreeSet<String>) {
    match result {
        Ok(_) => (COUNT, BTreeSet::new()),
        Err(failure) => {
            let told = matches!(
                failure.error,
                BrokerError::InDoubt { .. } | BrokerError::Timeout { .. } | BrokerError::Unreachable { .. }
            );
            assert!(told, "{failure:?}");
            (failure.committed, failure.in_doubt.iter().map(|id| id.to_hex()).collect())
        }
    }
}

/// Takes messages from the queue until all of `expected` came or [`ELECTION`] is over. Returns all
/// messages that came.
async fn drained(observer: &Observer, queue: &QueueName, expected: &BTreeSet<String>) -> Messages {
    let until = tokio::time::Instant::now() + ELECTION;
    let mut there = Messages::default();
    loop {
        there = there.and(observer.drain(queue).await);
        if expected.is_subset(&there.ids()) || tokio::time::Instant::now() > until {
            // Messages that were on their way have arrived by now.
            tokio::time::sleep(Duration::from_millis(500)).await;
            return there.and(observer.drain(queue).await);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn committing(nodes: &mut Nodes, client: usize) {
    let (rabbit, access) = (RabbitMq::new(5), nodes.access(client));
    let mut seen = Vec::new();
    // Before the commit, and in the middle of it.
    for wait in [None, Some(2)] {
        let queue = declare(nodes, "leader-lost").await;
        let outgoing = messages(20, None);
        produce(&rabbit, &access, &queue, &outgoing, 0, soon()).await.expect("store");
        let unit = rabbit.fetch(&access, &queue, &consume(COMMIT, 10), PLENTY, soon()).await.expect("fetch");
        assert_eq!(unit.consumed().messages.len(), 10);
        let result = match wait {
            None => {
                nodes.kill(0).await;
                unit.commit(after(10_000)).await
            }
            Some(milliseconds) => {
                let blow = async {
                    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                    nodes.kill(0).await;
                };
                tokio::join!(unit.commit(after(10_000)), blow).0
            }
        };
        let all = ids(&outgoing, 0..20);
        let left = ids(&outgoing, 10..20);
        // A queue keeps the messages that a lost client had in hand until its node is back.
        nodes.start_again(0).await;
        let observer = observe(nodes, &queue).await;
        let there = match &result {
            Err(BrokerError::Unreachable { .. }) => drained(&observer, &queue, &all).await,
            // Some may be gone, so do not wait for all of them.
            _ => {
                tokio::time::sleep(RETURN).await;
                observer.drain(&queue).await
            }
        };
        assert_eq!(there.duplicates(), BTreeSet::new());
        let outcome = match &result {
            Ok(()) => {
                assert_eq!(there.ids(), left, "what was committed is gone");
                "done"
            }
            Err(BrokerError::InDoubt { .. }) => {
                assert!(left.is_subset(&there.ids()) && there.ids().is_subset(&all));
                "in doubt"
            }
            Err(BrokerError::Unreachable { .. }) => {
                assert_eq!(there.ids(), all, "what was not committed is back");
                "not done"
            }
            Err(other) => panic!("{other:?}"),
        };
        seen.push(format!("{outcome}, {} of 20 left", there.ids().len()));
        observer.delete(&queue).await;
    }
    println!(
        "leader killed around a commit of 10, client on {}: {}",
        if client == 0 { "its node" } else { "another node" },
        seen.join("; ")
    );
}
