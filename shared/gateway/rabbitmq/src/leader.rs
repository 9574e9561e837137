//! Checks whether a quorum queue has applied an acknowledgement. AMQP does not answer an
//! acknowledgement, and closing the channel discards an acknowledgement that was lost with the
//! queue's leader.
//!
//! The answer to a passive declaration shows it, by its counts of messages and consumers. A quorum
//! queue counts every channel that holds its messages as a consumer, also after `basic.get`. So,
//! while a channel holds messages, counts of 0 mean that the queue has no leader at present. After
//! the acknowledgement, the consumer count falls as soon as the leader has applied it, which it
//! does when a majority of the queue's nodes have stored it. Until then the channel stays open,
//! because an open channel sends the acknowledgement again to a new leader.

use std::time::Duration;

use broker::Deadline;
use lapin::Channel;
use lapin::options::{BasicGetOptions, BasicNackOptions};
use mq::{BrokerError, QueueName};

use crate::errors::{During, Failure};
use crate::queue_facts::{self, QueueKind};
use crate::session::{Counts, Session, call, inspect, short};
use crate::settlement::Unproven;

/// Maximum time to wait until a queue has a leader, and until it has applied an acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a queue that reports no messages and no consumers is assumed to have no leader.
/// After it, the queue may be really empty.
const ELECTION: Duration = Duration::from_secs(1);
/// Pause before a queue is queried again. It doubles each time, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum time for repeating the query of a queue that reports no messages and no consumers.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// Knowledge about whether a queue has an elected leader. When a leader is lost, acknowledgements
/// can be lost with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// Quorum queue, whose nodes elect a leader.
    Elected,
    /// Classic queue or stream, which has no elected leader.
    Absent,
    /// Queue whose type the broker does not disclose to this user, or whose type is unknown to this
    /// version.
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

/// Determines whether the queue has an elected leader. The connection caches the result, except for
/// quorum queues.
///
/// # Errors
/// If the broker did not answer, or the queue does not exist. Nothing is cached then.
pub(crate) async fn leadership(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<Leadership, BrokerError> {
    if let Some(noted) = session.known_queues.get(queue) {
        return Ok(noted);
    }
    let leadership = match queue_facts::learn(session, queue, deadline).await {
        Ok(facts) => Leadership::from(&facts.kind),
        Err(BrokerError::Unsupported { .. }) => Leadership::Unknown,
        Err(error) => return Err(error),
    };
    if leadership != Leadership::Elected {
        session.known_queues.insert(queue, leadership);
    }
    Ok(leadership)
}

/// True if the counts prove that the queue has a leader: it has messages or consumers.
fn shows_a_leader(counts: Counts) -> bool {
    counts.messages > 0 || counts.consumers > 0
}

/// Returns the counts of messages and consumers of a queue. A quorum queue that reports 0 of both
/// is queried again, because it may be without a leader.
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
        // If the broker could not answer, the queue may be a quorum queue.
        Ok(Leadership::Elected) | Err(_) => {
            look_again(|| inspect(session.channel(), queue, deadline), deadline).await
        }
    }
}

/// Queries a queue by `ask` until it reports messages or consumers, for at most 500 ms. Returns the
/// last counts.
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

/// Expected consumer count of a quorum queue after an acknowledgement. The count includes channels
/// that hold unacknowledged messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExpectedConsumers {
    /// Maximum consumer count that the queue may report once the acknowledgement is applied.
    left: u32,
    /// True if the queue may report no messages and no consumers although it has a leader.
    may_be_empty: bool,
}

impl ExpectedConsumers {
    /// Returns the consumer count that the queue will have after an acknowledgement: its present
    /// count, queried once it has a leader, minus `settled`, the number of consumers whose messages
    /// will be acknowledged. Uses a separate channel, because a refusal closes its channel.
    /// RabbitMQ 4.3 would count that as a failure of the deliveries on the same channel.
    ///
    /// # Errors
    /// If the queue has no leader in time, the broker refuses, or the connection is lost. Nothing
    /// was acknowledged then.
    pub(crate) async fn count(
        session: &Session,
        queue: &QueueName,
        settled: usize,
        deadline: Deadline,
    ) -> Result<Self, BrokerError> {
        let until = deadline.min(TIMEOUT);
        let during = During::Queue(queue);
        let channel = session.open_channel(until).await.map_err(|failure| failure.into_error(during))?;
        let counted = Self::count_on(&channel, queue, settled, until).await;
        // A connection is kept for reuse only if no channel is open on it.
        let _ = session.close_channel(&channel, deadline).await;
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
                    "the quorum queue `{queue}` has no leader at present, so nothing was acknowledged and the messages return to it"
                )));
            }
            rest(&mut pause, until).await;
        }
    }

    /// Waits until the queue's consumer count has fallen so far that the acknowledgement is
    /// applied, and returns the counts.
    ///
    /// # Errors
    /// If the count does not fall in time, or the queue cannot be queried.
    pub(crate) async fn fewer(
        self,
        session: &Session,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<Counts, Unproven> {
        let until = deadline.min(TIMEOUT);
        let election = deadline.min(ELECTION);
        let mut pause = FIRST_PAUSE;
        loop {
            let counts = inspect(session.channel(), queue, until).await?;
            let is_fewer = counts.consumers <= self.left;
            if is_fewer && shows_a_leader(counts) {
                return Ok(counts);
            }
            // Other clients may have emptied the queue and disconnected.
            let may_be_empty = self.may_be_empty || election.has_passed();
            if is_fewer && may_be_empty && is_really_empty(session, queue, until).await? {
                return Ok(counts);
            }
            if until.has_passed() {
                return Err(Unproven::CountDidNotFall);
            }
            rest(&mut pause, until).await;
        }
    }
}

async fn rest(pause: &mut Duration, until: Deadline) {
    tokio::time::sleep((*pause).min(until.remaining())).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

/// True if the queue has a leader and is empty. Only a leader answers `basic.get` on an empty
/// queue; without one, the broker closes the connection (541). A message that has just arrived is
/// requeued.
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

    /// Calls [`look_again`] for a simulated queue that reports `answers`, the last one repeatedly;
    /// each has the numbers of messages and consumers. Returns the result and the number of
    /// queries.
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
