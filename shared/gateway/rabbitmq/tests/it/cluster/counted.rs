//! Commits at many moments around the loss of a leader, each on a separate queue. Counts the
//! commits that were reported as done although the messages returned.

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

/// Number of queues that lose their leader at the same time.
const QUEUES: u64 = 27;
/// Time before the kill at which the first commit begins.
const LEAD: Duration = Duration::from_millis(40);
/// Time from the beginning of one commit to the beginning of the next.
const STEP: Duration = Duration::from_millis(2);
/// Number of messages on most queues before the commits. Every third queue has only [`TAKEN`].
const ALL: u64 = 20;
/// Number of messages of each queue that are taken and committed.
const TAKEN: u64 = 10;

/// Numbers of commits by reported result, compared with the messages on the queues afterwards.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    done: usize,
    /// Number of commits that were reported as done although messages returned.
    pub(crate) undone: usize,
    in_doubt: usize,
    /// Number of commits that were reported as in doubt and after which no message returned.
    in_doubt_and_removed: usize,
    /// Number of commits that were reported as in doubt and after which messages returned.
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

/// Queue with messages that a client has taken and not settled.
struct Held {
    queue: QueueName,
    unit: Box<dyn UnitOfWork>,
    /// Ids of the messages that the client has not taken.
    left: BTreeSet<String>,
    /// Client of the queue, which keeps the connection open.
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

/// Kills the leader of all queues while their messages are committed, and counts the results.
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
