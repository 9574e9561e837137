//! Faults of a move, and the checks after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use end_to_end::{Answer, Site};

use crate::crash::fault::{Fault, LATE};
use crate::crash::journey::{Journey, PUT_BACK};
use crate::crash::stand::Stand;
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::network::Cut;

/// Maximum number of messages that a move on RabbitMQ has taken and not yet acknowledged.
const WINDOW: usize = 32;

pub(crate) const MOVE_ONLY: &[Fault] = &[
    Fault::KilledBeforeCheckpoint,
    Fault::KilledAfterCheckpoint,
    Fault::Store(Op::Checkpoint, Blow::DropRequest),
    Fault::Store(Op::Checkpoint, Blow::DropAnswer),
    Fault::Store(Op::Checkpoint, Blow::Late(LATE)),
    Fault::Store(Op::Checkpoint, Blow::Status(500)),
    Fault::StoreEvery(Op::Checkpoint, Blow::DropRequest),
    Fault::StoreEvery(Op::Checkpoint, Blow::DropAnswer),
    Fault::ConfirmsCut(Cut::Fin),
    Fault::ConfirmsCut(Cut::Reset),
    Fault::CommitCut(Cut::Fin),
    Fault::CommitCut(Cut::Reset),
    Fault::CommitAnswerCut(Cut::Fin),
    Fault::CommitAnswerCut(Cut::Reset),
];

impl Journey {
    /// Checks that each message is on the source queue or on the destination queue. It may be on
    /// both, or twice on the destination, only if the response counts it. Returns the number of
    /// such messages.
    pub(crate) async fn check_moved(&self, stand: &Stand, done: &Answer) -> usize {
        let answer = done.json();
        let number = |name: &str| usize::try_from(answer[name].as_u64().unwrap()).unwrap();
        let new = self.into.as_ref().unwrap();
        let (mut copies, started) = (BTreeMap::<String, usize>::new(), Instant::now());
        let mut arrived = BTreeSet::new();
        loop {
            for found in stand.broker.drain(new).await {
                let body = String::from_utf8(found.body).unwrap();
                *copies.entry(body.clone()).or_default() += 1;
                arrived.insert(body);
            }
            for found in stand.broker.drain(&self.queue).await {
                *copies.entry(String::from_utf8(found.body).unwrap()).or_default() += 1;
            }
            if copies.keys().cloned().collect::<BTreeSet<_>>() == self.there {
                break;
            }
            assert!(started.elapsed() < PUT_BACK, "{} messages are lost", self.there.len() - copies.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let twice = copies.values().filter(|copies| **copies > 1).count();
        let (possible, earlier) = (number("possibleDuplicates"), self.replies.len().saturating_sub(1));
        // A unit of work of IBM MQ has as many messages as the move, and is at one place. A broker
        // that was lost may have all again that left a classic queue of RabbitMQ.
        let (in_doubt, window) = match stand.broker {
            Site::RabbitMq(_) => (WINDOW + self.count, WINDOW),
            Site::IbmMq(..) => (0, self.count),
        };
        assert!(possible <= in_doubt * earlier, "{possible} possible duplicates after {earlier} attempts");
        assert!(
            twice <= possible,
            "{twice} messages are there more than once, and the answer says {possible}"
        );
        let most = self.count + window * earlier;
        assert!(arrived.len() <= most, "{} of {} messages were moved", arrived.len(), self.count);
        assert!(
            number("moved") <= self.count && number("moved") + window * earlier >= self.count,
            "{answer}"
        );
        stand.broker.delete(new).await;
        twice
    }
}
