//! Whether a quorum queue has applied an acknowledgement. AMQP has no answer to one, and a channel
//! that closes forgets what the queue's leader was lost with.
//!
//! The counts of a passive declaration tell. A quorum queue counts everyone who holds its messages
//! as a consumer, also by `basic.get`. So, while messages are in hand, counts of 0 mean that the
//! queue has no leader at present. After the acknowledgement, the count falls as soon as the leader
//! has applied it, which it does when most of the queue's nodes have stored it. Until then the
//! channel stays open, which sends the acknowledgement again to another leader.

use std::time::Duration;

use lapin::Queue;
use lapin::options::{BasicGetOptions, BasicNackOptions};
use mq::{BrokerError, Deadline, QueueName};

use crate::errors::{During, Failure};
use crate::queue_facts::{self, QueueKind};
use crate::session::{Session, call, inspect, short};

/// How long a queue may have no leader, and how long it may take to apply an acknowledgement.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a queue that shows counts of 0 is taken for one without a leader.
const ELECTION: Duration = Duration::from_secs(1);
/// How soon a queue is asked again, at first and later.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How long an empty queue is looked at that may have no leader.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// Whether it is a quorum queue, as far as the user may know. It is asked once on a connection for
/// queues of other types.
pub(crate) async fn is_quorum(session: &Session, queue: &QueueName, deadline: Deadline) -> bool {
    if session.has_no_leader_to_lose(queue) {
        return false;
    }
    match queue_facts::learn(session, queue, deadline).await {
        Ok(facts) if facts.kind == QueueKind::Quorum => true,
        Ok(_) | Err(BrokerError::Unsupported { .. }) => {
            session.note_no_leader_to_lose(queue);
            false
        }
        // The question that follows shows what is wrong.
        Err(_) => false,
    }
}

/// Whether an answer is that of a queue which has a leader for certain.
fn shows_a_leader(state: &Queue) -> bool {
    state.message_count() > 0 || state.consumer_count() > 0
}

/// A queue's counts. One that seems to be empty is looked at again if it is a quorum queue: that is
/// what a queue without a leader shows too.
pub(crate) async fn counts(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<Queue, Failure> {
    let mut state = inspect(session.channel(), queue, deadline).await?;
    if shows_a_leader(&state) || !is_quorum(session, queue, deadline).await {
        return Ok(state);
    }
    let until = deadline.min(SECOND_LOOK);
    while !shows_a_leader(&state) && !until.has_passed() {
        tokio::time::sleep(LONGEST_PAUSE.min(until.remaining())).await;
        state = inspect(session.channel(), queue, deadline).await?;
    }
    Ok(state)
}

/// Why it is not known that an acknowledgement was applied.
#[derive(Debug)]
pub(crate) enum Unproven {
    Failure(Failure),
    /// The queue went on counting those whose messages were acknowledged.
    StillHeld,
}

impl From<Failure> for Unproven {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Unproven {
    pub(crate) fn into_error(self, queue: &QueueName) -> BrokerError {
        match self {
            Self::Failure(failure) => failure.into_error(During::Queue(queue)),
            Self::StillHeld => {
                BrokerError::timeout(format!("the quorum queue {queue} did not apply it in time"))
            }
        }
    }
}

/// How many consumers a quorum queue counts, those included that hold messages to be acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holders {
    /// How many it will count at most.
    left: u32,
    /// Whether counts of 0 are what a queue with a leader will show.
    may_be_empty: bool,
}

impl Holders {
    /// Counts them, once the queue has a leader. `settled` of them hold what will be acknowledged.
    ///
    /// # Errors
    /// There is no leader in time, or the connection is lost. Nothing was acknowledged.
    pub(crate) async fn count(
        session: &Session,
        queue: &QueueName,
        settled: usize,
        deadline: Deadline,
    ) -> Result<Self, BrokerError> {
        let until = deadline.min(PATIENCE);
        let mut pause = FIRST_PAUSE;
        loop {
            let no_leader = match inspect(session.channel(), queue, until).await {
                Ok(state) if shows_a_leader(&state) => {
                    let settled = u32::try_from(settled).unwrap_or(u32::MAX);
                    let left = state.consumer_count().saturating_sub(settled);
                    return Ok(Self { left, may_be_empty: left == 0 && state.message_count() == 0 });
                }
                Ok(_) => until.has_passed(),
                Err(Failure::Deadline) => true,
                Err(failure) => return Err(failure.into_error(During::Queue(queue))),
            };
            if no_leader {
                return Err(BrokerError::unreachable(format!(
                    "the quorum queue {queue} has no leader at present, so nothing was acknowledged and the messages return to it"
                )));
            }
            rest(&mut pause, until).await;
        }
    }

    /// Asks until the queue counts as many fewer as were acknowledged.
    ///
    /// # Errors
    /// It does not in time, or cannot be asked.
    pub(crate) async fn fewer(
        self,
        session: &Session,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<Queue, Unproven> {
        let until = deadline.min(PATIENCE);
        let election = deadline.min(ELECTION);
        let mut pause = FIRST_PAUSE;
        loop {
            let state = inspect(session.channel(), queue, until).await?;
            let is_fewer = state.consumer_count() <= self.left;
            if is_fewer && shows_a_leader(&state) {
                return Ok(state);
            }
            // Others may have emptied the queue, and left.
            let may_be_empty = self.may_be_empty || election.has_passed();
            if is_fewer && may_be_empty && is_really_empty(session, queue, until).await? {
                return Ok(state);
            }
            if until.has_passed() {
                return Err(Unproven::StillHeld);
            }
            rest(&mut pause, until).await;
        }
    }
}

async fn rest(pause: &mut Duration, until: Deadline) {
    tokio::time::sleep((*pause).min(until.remaining())).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

/// Whether a queue that shows counts of 0 has a leader: only a leader answers that there is no
/// message to get. Without one, the broker ends the connection (541). A message that has just come
/// goes back at once.
async fn is_really_empty(session: &Session, queue: &QueueName, until: Deadline) -> Result<bool, Failure> {
    let channel = session.channel();
    let get = channel.basic_get(short(queue), BasicGetOptions { no_ack: false });
    if let Some(message) = call(until, get).await? {
        let back = BasicNackOptions { multiple: false, requeue: true };
        call(until, channel.basic_nack(message.delivery.delivery_tag, back)).await?;
        return Ok(false);
    }
    Ok(inspect(channel, queue, until).await?.consumer_count() == 0)
}
