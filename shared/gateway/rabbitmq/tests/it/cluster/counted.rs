//! Test that commits consumes of many quorum queues at many moments around the loss of their
//! leader. It counts commits that were reported as done although messages are back on their queue.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use broker::{Broker as _, UnitOfWork};
use futures_util::future::join_all;
use mq::{BrokerError, QueueName};
use rabbitmq::RabbitMq;

use crate::cluster::nodes::Nodes;
use crate::cluster::observer::{FieldValue, Observer};
use crate::cluster::support::{COMMIT, PLENTY, after, consume, ids, messages, produce, queue, soon};
use crate::cluster::{RETURN, observe};

/// Number of queues, each with one commit, that lose their leader at the same time.
const QUEUES: u64 = 27;
/// Time from the beginning of the first commit until the leader is killed.
const LEAD: Duration = Duration::from_millis(40);
/// Time from the beginning of one queue's commit to the beginning of the next queue's.
const STEP: Duration = Duration::from_millis(2);
/// Number of messages on a queue before its commit. Every third queue has only [`TAKEN`] messages.
const ALL: u64 = 20;
/// Number of messages that are taken from each queue and then committed.
const TAKEN: u64 = 10;

/// Numbers of commits by the result that the client reported, and by whether their messages were
/// back on the queue afterwards.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    done: usize,
    /// Number of commits that were reported as done, although at least one of their messages was
    /// back on the queue. Included in `done`.
    pub(crate) undone: usize,
    in_doubt: usize,
    /// Number of commits that were reported as in doubt, and after which all messages were removed.
    in_doubt_and_removed: usize,
    /// Number of commits that were reported as in doubt, and after which at least one message was
    /// back.
    in_doubt_and_back: usize,
    not_done: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} done, {} of them undone by the loss; {} in doubt ({} removed, {} back); {} not done",
            self.done,
            self.undone,
            self.in_doubt,
            self.in_doubt_and_removed,
            self.in_doubt_and_back,
            self.not_done
        )
    }
}

impl Counts {
    fn add(&mut self, result: &Result<(), BrokerError>, back: usize) {
        let removed = usize::from(back == 0);
        match result {
            Ok(()) => {
                self.done += 1;
                self.undone += 1 - removed;
            }
            Err(BrokerError::InDoubt { .. }) => {
                self.in_doubt += 1;
                self.in_doubt_and_removed += removed;
                self.in_doubt_and_back += 1 - removed;
            }
            Err(BrokerError::Unreachable { .. }) => {
                assert_eq!(back, usize::try_from(TAKEN).unwrap(), "what was not committed is back");
                self.not_done += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Queue from which a client has taken [`TAKEN`] messages and not yet acknowledged them.
struct Held {
    queue: QueueName,
    unit: Box<dyn UnitOfWork>,
    /// Ids, in hexadecimal, of the messages that the client has left on the queue.
    left: BTreeSet<String>,
    /// Client under test, whose connection must stay open until `unit` is committed.
    _rabbit: RabbitMq,
}

async fn hold(nodes: &Nodes, client: usize, all: u64) -> Held {
    let queue = queue("counted");
    // A queue's first leader is on the node that its client is connected to.
    let quorum = FieldValue::S("quorum".try_into().unwrap());
    Observer::at(nodes.port(0)).await.declare(&queue, &[("x-queue-type", quorum)]).await;
    let (rabbit, access) = (RabbitMq::new(1), nodes.access(client));
    let outgoing = messages(i64::try_from(all).unwrap(), None);
    produce(&rabbit, &access, &queue, &outgoing, 0, soon()).await.expect("store");
    let command = consume(COMMIT, i64::try_from(TAKEN).unwrap());
    let unit = rabbit.fetch(&access, &queue, &command, PLENTY, soon()).await.expect("fetch");
    assert_eq!(u64::try_from(unit.consumed().messages.len()).unwrap(), TAKEN);
    Held { queue, unit, left: ids(&outgoing, TAKEN..all), _rabbit: rabbit }
}

/// Commits consumes of [`QUEUES`] queues by clients connected to node `client`, and meanwhile kills
/// node 0, which leads all queues. Returns and prints the numbers of commits by their results.
pub(crate) async fn committing(nodes: &mut Nodes, client: usize) -> Counts {
    let mut held = Vec::new();
    for number in 0..QUEUES {
        // Every third queue has no other messages, so it is empty after the commit.
        let all = if number % 3 == 0 { TAKEN } else { ALL };
        held.push(hold(nodes, client, all).await);
    }
    let commits = held.into_iter().zip(0_u32..).map(|(held, number)| async move {
        tokio::time::sleep(STEP * number).await;
        let begun = tokio::time::Instant::now();
        let result = held.unit.commit(after(10_000)).await;
        (held.queue, held.left, result, begun.elapsed())
    });
    let blow = async {
        tokio::time::sleep(LEAD).await;
        nodes.kill(0).await;
    };
    let (results, ()) = tokio::join!(join_all(commits), blow);
    nodes.start_again(0).await;
    tokio::time::sleep(RETURN).await;
    let outgoing = messages(i64::try_from(ALL).unwrap(), None);
    let taken = ids(&outgoing, 0..TAKEN);
    let (mut counts, mut longest) = (Counts::default(), Duration::ZERO);
    let (last, ..) = results.last().unwrap();
    let observer = observe(nodes, last).await;
    for (queue, left, result, took) in results {
        let there = observer.drain(&queue).await;
        assert_eq!(there.duplicates(), BTreeSet::new());
        assert!(left.is_subset(&there.ids()), "what nobody took is there");
        counts.add(&result, there.ids().intersection(&taken).count());
        longest = longest.max(took);
        observer.delete(&queue).await;
    }
    println!(
        "leader killed around {QUEUES} commits of {TAKEN}, client on {}: {counts}; at most {} ms each",
        if client == 0 { "its node" } else { "another node" },
        longest.as_millis()
    );
    counts
}
