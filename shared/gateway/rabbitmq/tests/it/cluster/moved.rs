//! Test of a move whose source queue loses its leader. Each message must be at one queue
//! afterwards, or at both if the move reported it as in doubt.

use std::collections::BTreeSet;
use std::time::Duration;

use broker::{Broker as _, Relocation};

use mq::{Destination, MaxMoves, MoveCommand, MoveFailure, QueueName};
use rabbitmq::RabbitMq;

use crate::cluster::nodes::Nodes;
use crate::cluster::observer::{FieldValue, Observer};
use crate::cluster::support::{after, ids, messages, produce, queue, soon};
use crate::cluster::{RETURN, declare, observe};
use crate::reach::everywhere;

const COUNT: u64 = 1_000;
/// Minimum number of messages that are moved before the leader is killed.
const BEFORE: u64 = 320;

/// Declares the quorum queue that messages are moved to. Its leader is on node 1, which is not
/// killed.
async fn destination(nodes: &Nodes) -> QueueName {
    let queue = queue("moved-to");
    let quorum = FieldValue::S("quorum".try_into().unwrap());
    Observer::at(nodes.port(1)).await.declare(&queue, &[("x-queue-type", quorum)]).await;
    queue
}

/// Moves messages until at least `enough` are moved, none is left, or the move fails. Returns the
/// number of messages that certainly left the source queue, and the failure.
async fn relocate(moving: &mut dyn Relocation, enough: u64) -> (u64, Result<(), MoveFailure>) {
    let mut moved = 0;
    while moved < enough {
        let put = match moving.put(COUNT, after(15_000)).await {
            Ok(put) => put,
            Err(failure) => return (moved, Err(failure)),
        };
        if let Err(failure) = moving.settle(after(15_000)).await {
            return (moved, Err(failure));
        }
        moved += put.count;
        if put.is_last {
            break;
        }
    }
    (moved, Ok(()))
}

/// Kills the leader of the source queue during a move by a client connected to node `client`, and
/// counts the messages on the source and the destination queue.
pub(crate) async fn moving(nodes: &mut Nodes, client: usize) {
    let (from, to) = (declare(nodes, "moved-from").await, destination(nodes).await);
    let (rabbit, access) = (RabbitMq::new(5), nodes.access(client));
    let outgoing = messages(i64::try_from(COUNT).unwrap(), None);
    produce(&rabbit, &access, &from, &outgoing, 0, soon()).await.expect("store");
    let command = MoveCommand {
        to: Destination::Queue(to.clone()),
        max: MaxMoves::try_from(i64::try_from(COUNT).unwrap()).unwrap(),
        msg_ids: None,
    };
    let connected = rabbit.connect_to_move(&access, &from, &command, &everywhere(), soon()).await;
    let mut moving = connected.expect("connect");
    let (before, begun) = relocate(&mut *moving, BEFORE).await;
    begun.expect("there is a leader");
    let blow = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        nodes.kill(0).await;
    };
    let ((after_it, result), ()) = tokio::join!(relocate(&mut *moving, COUNT - before), blow);
    // Messages in hand return to the queue.
    drop(moving);
    let moved = before + after_it;
    let in_doubt = result.as_ref().err().map_or(0, |failure| failure.in_doubt);
    nodes.start_again(0).await;
    tokio::time::sleep(RETURN).await;
    let observer = observe(nodes, &from).await;
    let (left, there) = (observer.drain(&from).await, observer.drain(&to).await);
    assert_eq!(&left.ids() | &there.ids(), ids(&outgoing, 0..COUNT), "{result:?}: messages are lost");
    assert_eq!((left.duplicates(), there.duplicates()), (BTreeSet::new(), BTreeSet::new()));
    assert!(ids(&outgoing, 0..moved).is_disjoint(&left.ids()), "{result:?}: what left is back");
    let at_both = u64::try_from((&left.ids() & &there.ids()).len()).unwrap();
    let arrived = u64::try_from(there.ids().len()).unwrap();
    assert!(at_both <= in_doubt, "{result:?}: {at_both} are at both places");
    assert!((moved..=moved + in_doubt).contains(&arrived), "{result:?}: {arrived} arrived, {moved} told");
    println!(
        "leader killed in mid-move, client on {}: {moved} of {COUNT} moved, {in_doubt} in doubt, {at_both} at both places, {}",
        if client == 0 { "its node" } else { "another node" },
        result.map_or_else(|failure| failure.error.to_string(), |()| "done".to_owned()),
    );
    observer.delete(&from).await;
    observer.delete(&to).await;
}
