//! Whether a quorum queue has applied an acknowledgement. AMQP has no answer to one, and a channel
//! that closes forgets what the queue's leader was lost with.
//!
//! The counts of a passive declaration tell. A quorum queue counts everyone who holds its messages
//! as a consumer, also by `basic.get`. So, while messages are in hand, counts of 0 mean that the
//! queue has no leader at present. After the acknowledgement, the count falls as soon as the leader
//! has applied it, which it does when most of the queue's nodes have stored it. Until then the
//! channel stays open, which sends the acknowledgement again to another leader.

use std::time::Duration;

use broker::Deadline;
use lapin::Channel;
use lapin::options::{BasicGetOptions, BasicNackOptions};
use mq::{BrokerError, QueueName};

use crate::errors::{During, Failure};
use crate::queue_facts::{self, QueueKind};
use crate::session::{Counts, Session, call, inspect, short};
use crate::settlement::Unproven;

/// How long a queue may have no leader, and how long it may take to apply an acknowledgement.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a queue that shows counts of 0 is taken for one without a leader.
const ELECTION: Duration = Duration::from_secs(1);
/// How soon a queue is asked again, at first and later.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How long an empty queue is looked at that may have no leader.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// Whether a queue may lose a leader, and with it an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// It is a quorum queue.
    Elected,
    /// It is a classic queue or a stream.
    Absent,
    /// The broker does not tell this user, or names a type that this version does not know.
    Unknown,
}

impl From<&QueueKind> for Leadership {
    fn from(kind: &QueueKind) -> Self {
        match kind {
            QueueKind::Quorum => Self::Elected,
            QueueKind::Classic | QueueKind::Stream => Self::Absent,
            QueueKind::Other(_) => Self::Unknown,
        }
    }
}

/// Whether the queue may lose a leader. For queues other than quorum queues, the broker is asked
/// once on a connection.
///
/// # Errors
/// The broker did not answer, or there is no such queue. Nothing is noted then.
pub(crate) async fn leadership(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<Leadership, BrokerError> {
    if let Some(noted) = session.noted_leadership(queue) {
        return Ok(noted);
    }
    let leadership = match queue_facts::learn(session, queue, deadline).await {
        Ok(facts) => Leadership::from(&facts.kind),
        Err(BrokerError::Unsupported { .. }) => Leadership::Unknown,
        Err(error) => return Err(error),
    };
    if leadership != Leadership::Elected {
        session.note_leadership(queue, leadership);
    }
    Ok(leadership)
}

/// Whether an answer is that of a queue which has a leader for certain.
fn shows_a_leader(counts: Counts) -> bool {
    counts.messages > 0 || counts.consumers > 0
}

/// A queue's counts. One that seems to be empty is looked at again if it is a quorum queue: that is
/// what a queue without a leader shows too.
pub(crate) async fn counts(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<Counts, Failure> {
    let counts = inspect(session.channel(), queue, deadline).await?;
    if shows_a_leader(counts) {
        return Ok(counts);
    }
    match leadership(session, queue, deadline).await {
        Ok(Leadership::Absent | Leadership::Unknown) => Ok(counts),
        // Where the broker could not say, it may be a quorum queue.
        Ok(Leadership::Elected) | Err(_) => {
            look_again(|| inspect(session.channel(), queue, deadline), deadline).await
        }
    }
}

/// Asks a queue that showed counts of 0 until it shows others, for as long as an election takes.
async fn look_again<E, Answer: Future<Output = Result<Counts, E>>>(
    mut ask: impl FnMut() -> Answer,
    deadline: Deadline,
) -> Result<Counts, E> {
    let until = deadline.min(SECOND_LOOK);
    loop {
        tokio::time::sleep(LONGEST_PAUSE.min(until.remaining())).await;
        let counts = ask().await?;
        if shows_a_leader(counts) || until.has_passed() {
            return Ok(counts);
        }
    }
}

/// How many consumers a quorum queue counts, those included that hold messages to be acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holders {
    /// How many it will count at most.
    left: u32,
    /// Whether counts of 0 are what a queue with a leader will show.
    may_be_empty: bool,
}

impl Holders {
    /// Counts them, once the queue has a leader. `settled` of them hold what will be acknowledged.
    /// It asks on a channel of its own: a refusal closes the channel that it answers, and on the
    /// one with the deliveries RabbitMQ 4.3 would count that as a failure of each.
    ///
    /// # Errors
    /// There is no leader in time, the broker refuses, or the connection is lost. Nothing was
    /// acknowledged.
    pub(crate) async fn count(
        session: &Session,
        queue: &QueueName,
        settled: usize,
        deadline: Deadline,
    ) -> Result<Self, BrokerError> {
        let until = deadline.min(PATIENCE);
        let during = During::Queue(queue);
        let channel = session.throwaway_channel(until).await.map_err(|failure| failure.into_error(during))?;
        let counted = Self::count_on(&channel, queue, settled, until).await;
        // The connection is kept only without channels.
        let _ = call(deadline, channel.close(200, "OK".into())).await;
        counted
    }

    async fn count_on(
        channel: &Channel,
        queue: &QueueName,
        settled: usize,
        until: Deadline,
    ) -> Result<Self, BrokerError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let no_leader = match inspect(channel, queue, until).await {
                Ok(counts) if shows_a_leader(counts) => {
                    let settled = u32::try_from(settled).unwrap_or(u32::MAX);
                    let left = counts.consumers.saturating_sub(settled);
                    return Ok(Self { left, may_be_empty: left == 0 && counts.messages == 0 });
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
    ) -> Result<Counts, Unproven> {
        let until = deadline.min(PATIENCE);
        let election = deadline.min(ELECTION);
        let mut pause = FIRST_PAUSE;
        loop {
            let counts = inspect(session.channel(), queue, until).await?;
            let is_fewer = counts.consumers <= self.left;
            if is_fewer && shows_a_leader(counts) {
                return Ok(counts);
            }
            // Others may have emptied the queue, and left.
            let may_be_empty = self.may_be_empty || election.has_passed();
            if is_fewer && may_be_empty && is_really_empty(session, queue, until).await? {
                return Ok(counts);
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
    Ok(inspect(channel, queue, until).await?.consumers == 0)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use super::*;

    /// Lets a broker answer with these counts, the last one again and again, and says what is made
    /// of them and how often it was asked.
    async fn look(answers: &[(u32, u32)], deadline: Deadline) -> (Counts, usize) {
        let mut asked = 0;
        let ask = || {
            let (messages, consumers) = answers[asked.min(answers.len() - 1)];
            asked += 1;
            ready(Ok::<_, Infallible>(Counts { messages, consumers }))
        };
        let Ok(counts) = look_again(ask, deadline).await;
        (counts, asked)
    }

    #[tokio::test]
    async fn a_queue_that_finds_a_leader_is_reported_with_its_own_counts() {
        let deadline = Deadline::after(Duration::from_secs(20));
        for shown in [(7, 0), (0, 1)] {
            let (counts, asked) = look(&[(0, 0), (0, 0), shown], deadline).await;
            assert_eq!((counts.messages, counts.consumers, asked), (shown.0, shown.1, 3));
        }
    }

    #[tokio::test]
    async fn a_queue_that_goes_on_showing_nothing_is_empty_after_the_time_of_an_election() {
        let begun = tokio::time::Instant::now();
        let (counts, asked) = look(&[(0, 0)], Deadline::after(Duration::from_secs(20))).await;
        assert_eq!(counts, Counts { messages: 0, consumers: 0 });
        assert!(begun.elapsed() >= SECOND_LOOK && asked > 1, "{:?}, asked {asked} times", begun.elapsed());
    }

    #[tokio::test]
    async fn a_second_look_ends_with_the_request() {
        let begun = tokio::time::Instant::now();
        look(&[(0, 0)], Deadline::after(Duration::from_millis(50))).await;
        assert!(begun.elapsed() < SECOND_LOOK);
    }

    #[tokio::test]
    async fn a_failure_ends_the_second_look() {
        let ask = || ready(Err::<Counts, _>(Failure::Deadline));
        let failed = look_again(ask, Deadline::after(Duration::from_secs(20))).await;
        assert!(matches!(failed, Err(Failure::Deadline)));
    }

    #[test]
    fn a_type_that_is_not_known_may_have_a_leader() {
        assert_eq!(Leadership::from(&QueueKind::Quorum), Leadership::Elected);
        assert_eq!(Leadership::from(&QueueKind::Classic), Leadership::Absent);
        assert_eq!(Leadership::from(&QueueKind::Stream), Leadership::Absent);
        assert_eq!(Leadership::from(&QueueKind::Other("delayed".to_owned())), Leadership::Unknown);
    }
}
