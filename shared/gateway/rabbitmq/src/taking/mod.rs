//! Takes messages from a queue: decides how many to ask for at once, so that messages which are not
//! kept suffer no harm.
//!
//! A single `basic.get` costs a round trip, and its answer contains the number of messages left. If
//! many are left, a consumer takes them. Its prefetch is the number of messages that are there, are
//! wanted and are expected to fit, because each message delivered in excess has to be returned,
//! which marks it as redelivered. So the prefetch starts small and grows with the number of kept
//! messages, and the largest message so far is the estimate for the next ones. The broker answers a
//! consumer's cancellation after its last delivery, so nothing arrives after that answer. But a
//! quorum queue takes back what it sends meanwhile, so a consumer is cancelled only after its
//! deliveries, or when none are on their way.
//!
//! A quorum queue may count every return of a message, and drops the message past its delivery
//! limit. Messages that return because a channel closes go to the head of the queue, behind those
//! that had returned before. So messages that were returned before are taken one by one, as long as
//! another one as large as the largest would fit: then at most one of them is returned again.
//!
//! An auto-delete queue is deleted with its last consumer, so no temporary consumer may be started
//! there.
//!
//! The connection's [`Intake`](crate::intake::Intake) limits the bytes of deliveries in any case.
//! Deliveries beyond it still arrive, and all answers of the broker come after them. If they do not
//! arrive soon, the connection is closed. The kept messages are then at the queue's head again. The
//! fetch is repeated on a new connection, and takes the same number of messages, one by one.

mod consumers;
mod limits;
mod sizes;

use std::time::Duration;

use broker::Deadline;
use lapin::message::Delivery;
use lapin::options::BasicGetOptions;
use mq::{ConsumeCommand, Consumed, QueueName, ReceivedMessage};

use crate::content_header;
use crate::errors::Failure;
use crate::message::{counted_returns, received};
use crate::queue_facts::{self, QueueFacts, QueueKind};
use crate::session::{Session, call, inspect, short};
use sizes::Sizes;

/// Maximum number of commands needed to settle messages on a quorum queue: one for each
/// `basic.get`, and one for each consumer. A channel sends 32 at once and queues the others until
/// the queue answers; it discards those if it is closed (`quorum_commands_soft_limit`).
const MOST_SETTLEMENTS: usize = 32;

/// Time reserved before the deadline, when waiting for the first message, for everything that
/// follows: taking more messages, the response and the acknowledgement.
const WAIT_MARGIN: Duration = Duration::from_millis(500);
/// Time reserved before the deadline, when taking messages, for everything that follows, such as
/// the response and the acknowledgement.
const TAKE_MARGIN: Duration = Duration::from_millis(250);

/// Prefetch of the first consumer. Later ones may have up to [`GROWTH`] times the number of
/// messages taken so far.
const FIRST_PREFETCH: usize = 16;
const GROWTH: usize = 8;

/// Interval for polling an empty queue on which no consumer may be started.
const POLL: Duration = Duration::from_millis(250);

/// Maximum time for which a repeated fetch waits until the messages of a closed connection
/// (`RETURN`) or of a channel that the broker closed (`CHANNEL_RETURN`) are ready again. Other
/// clients may take some of them, so the full number may never return.
const RETURN: Duration = Duration::from_secs(1);
const CHANNEL_RETURN: Duration = Duration::from_millis(100);

/// Limits in bytes on the messages that a fetch takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Maximum number of bytes of all messages together in a response.
    pub(crate) together: usize,
    /// Maximum size in bytes of the body of a first message that is larger than `together`, and is
    /// then taken alone; `None` if such a message is not taken.
    pub(crate) alone: Option<usize>,
}

/// Reason why a fetch takes no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The next message does not fit into what is left of the response, or of the connection's
    /// limit on deliveries (its intake).
    Next,
    /// The first message is larger than the limit for all messages, and was taken alone.
    Alone,
    /// The first message does not fit, and is not taken.
    First,
}

/// Fetch of messages from a queue that is in progress: its limits, and the messages kept so far.
pub(crate) struct Taking<'a> {
    queue: &'a QueueName,
    command: &'a ConsumeCommand,
    room: Room,
    sizes: Sizes,
    consumers: usize,
    settlements: usize,
    /// Properties of the queue, such as its type; `None` before the broker was asked, `Some(None)`
    /// if the broker did not disclose them or did not answer.
    pub(crate) facts: Option<Option<QueueFacts>>,
    /// True if the broker refused a consumer because another client consumes exclusively.
    pub(crate) consumer_was_refused: bool,
    may_consume: bool,
    /// Maximum number of messages to take when the fetch is repeated because the deliveries
    /// exceeded the connection's limit (its intake); `None` otherwise.
    kept_before: Option<usize>,
    /// Number of ready messages before the fetch took its first one. A repeated fetch begins with
    /// the number of the fetch before, and waits until as many are ready.
    ready_before: u32,
    /// True if the deliveries exceeded the connection's limit (its intake). The connection then
    /// gets no more answers until the excess is discarded.
    pub(crate) has_exceeded_the_intake: bool,
    /// Number of returns (from RabbitMQ 4.3 on, of failures) that the header of the last delivery
    /// counts; `None` without a valid header. Only quorum queues write it.
    pub(crate) last_count: Option<u64>,
    /// Tag of the last delivery that the fetch keeps; `None` if it keeps none. Later deliveries are
    /// returned to the queue.
    pub(crate) last_tag: Option<u64>,
    /// True if deliveries arrived after the last one that the fetch keeps. These have to be
    /// returned to the queue.
    pub(crate) has_excess: bool,
    /// Number of returns (from RabbitMQ 4.3 on, of failures) that were counted for each message of
    /// the fetch; without messages whose number is 0.
    counts_of_returns: Vec<u64>,
    pub(crate) stop: Option<Full>,
    pub(crate) consumed: Consumed,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(queue: &'a QueueName, command: &'a ConsumeCommand, room: Room) -> Self {
        Self {
            queue,
            command,
            room,
            sizes: Sizes::default(),
            consumers: 0,
            settlements: 0,
            facts: None,
            consumer_was_refused: false,
            may_consume: true,
            kept_before: None,
            ready_before: 0,
            has_exceeded_the_intake: false,
            last_count: None,
            last_tag: None,
            has_excess: false,
            counts_of_returns: Vec::new(),
            stop: None,
            consumed: Consumed::default(),
        }
    }

    /// Returns a new fetch that repeats this one on a new channel, and takes messages by single
    /// `basic.get` requests. If the deliveries of this one exceeded the connection's limit (its
    /// intake), the new one takes at most as many messages as this one has kept.
    pub(crate) fn again(self) -> Self {
        let mut again = Self::new(self.queue, self.command, self.room);
        again.may_consume = false;
        again.ready_before = self.ready_before;
        if self.has_exceeded_the_intake {
            again.kept_before = Some(self.consumed.messages.len());
            again.consumed.wait_seconds_applied = self.consumed.wait_seconds_applied;
            again.consumed.warnings = self.consumed.warnings;
            again.consumed.truncated = true;
        }
        again
    }

    /// Runs the fetch: takes messages, and waits for the first one if there are none. `most_held`
    /// is the connection's limit in bytes on deliveries (its intake).
    pub(crate) async fn run(
        &mut self,
        session: &Session,
        most_held: usize,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        if self.ready_before > 0 {
            self.wait_for_the_return(session, deadline).await?;
        }
        if self.kept_before.is_some() {
            self.drain(session, deadline).await?;
            self.judge_the_counts(session, deadline).await;
            return Ok(());
        }
        let available = deadline.earlier_by(WAIT_MARGIN).remaining();
        let wait = Duration::from_secs(self.command.wait_seconds.get().into()).min(available);
        self.consumed.wait_seconds_applied = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
        if available < Duration::from_secs(self.command.wait_seconds.get().into()) {
            self.consumed.warnings.push("the wait was cut short by the time that the request has");
        }
        let wait = Deadline::after(wait);
        self.drain(session, deadline).await?;
        if self.consumed.messages.is_empty() && self.stop.is_none() && !wait.has_passed() {
            self.wait_for_first(session, wait, deadline).await?;
            if !self.consumed.messages.is_empty() {
                self.drain(session, deadline).await?;
            }
        }
        if matches!(self.stop, Some(Full::Next)) {
            self.consumed.truncated = true;
        }
        let passes = deadline.earlier_by(TAKE_MARGIN);
        if self.has_exceeded_the_intake && session.discard_excess(self.queue, most_held, passes).await {
            (self.has_exceeded_the_intake, self.has_excess) = (false, true);
        }
        self.judge_the_counts(session, deadline).await;
        Ok(())
    }

    /// Waits until the messages of the fetch before are ready again, for at most [`RETURN`] or
    /// [`CHANNEL_RETURN`]. The queue needs a moment to notice that their channel is closed; until
    /// then, messages behind them would be taken first.
    async fn wait_for_the_return(&self, session: &Session, deadline: Deadline) -> Result<(), Failure> {
        let until = deadline.min(if self.kept_before.is_some() { RETURN } else { CHANNEL_RETURN });
        while inspect(session.channel(), self.queue, deadline).await?.messages < self.ready_before
            && !until.has_passed()
        {
            tokio::time::sleep(RETURN / 50).await;
        }
        Ok(())
    }

    /// Takes the messages that are on the queue now, without waiting for more.
    async fn drain(&mut self, session: &Session, deadline: Deadline) -> Result<(), Failure> {
        let stop_at = deadline.earlier_by(TAKE_MARGIN);
        let mut consumers_help = true;
        let mut ready = usize::MAX;
        while self.wants_more() {
            if self.may_not_settle_more(session, deadline).await {
                if ready > 0 {
                    self.tell_of_settlements();
                }
                break;
            }
            if !self.consumed.messages.is_empty() && stop_at.has_passed() {
                self.consumed.warnings.push("the time ended before all messages were taken");
                break;
            }
            if ready > 0 && self.is_hardly_room_for_what_went_back() {
                self.consumed.truncated = true;
                break;
            }
            let get = session.channel().basic_get(short(self.queue), BasicGetOptions { no_ack: false });
            let Some(message) = call(deadline, get).await? else { break };
            ready = usize::try_from(message.message_count).unwrap_or(usize::MAX);
            self.settlements += 1;
            if self.kept_before.is_none() && self.consumed.messages.is_empty() {
                self.ready_before = message.message_count.saturating_add(1);
            }
            self.keep(session, message.delivery);
            if consumers_help {
                let brought = self.take_by_consumers(session, &mut ready, stop_at, deadline).await?;
                // Other clients take from the queue too, or it allows only one consumer.
                consumers_help = brought != Some(0);
            }
        }
        Ok(())
    }

    /// True if consumers may be started on the queue: they are enabled, and the end of the last one
    /// would not delete the queue.
    async fn may_consume(&mut self, session: &Session, deadline: Deadline) -> bool {
        // If this is unknown, the usual case is assumed: an auto-delete queue is rarely read by
        // clients other than its owner.
        self.may_consume && !self.ask(session, deadline).await.is_some_and(|facts| facts.auto_delete)
    }

    async fn may_bring_excess(&mut self, session: &Session, deadline: Deadline) -> bool {
        self.last_count.is_none_or(|count| count == 0)
            && self.settlements < MOST_SETTLEMENTS
            && self.may_consume(session, deadline).await
    }

    /// True if another delivery might not be settled, because the queue may be a quorum queue and
    /// [`MOST_SETTLEMENTS`] is reached.
    async fn may_not_settle_more(&mut self, session: &Session, deadline: Deadline) -> bool {
        self.settlements >= MOST_SETTLEMENTS
            && !self.ask(session, deadline).await.is_some_and(|facts| facts.kind == QueueKind::Classic)
    }

    /// True if the last message had been returned before, and the response has too little space
    /// left for another message like the largest. Such a message would have to be returned again.
    fn is_hardly_room_for_what_went_back(&mut self) -> bool {
        self.last_count.is_some_and(|count| count > 0)
            && !self.consumed.messages.is_empty()
            && self.fitting(1) == 0
    }

    /// Returns the queue's properties, such as its type; `None` if they are unknown. The broker is
    /// asked once, when they are first needed.
    async fn ask(&mut self, session: &Session, deadline: Deadline) -> Option<&QueueFacts> {
        if self.facts.is_none() {
            self.facts = Some(queue_facts::learn(session, self.queue, deadline).await.ok());
        }
        self.facts.as_ref()?.as_ref()
    }

    fn wants_more(&self) -> bool {
        self.stop.is_none() && self.consumed.messages.len() < self.max_messages()
    }

    fn max_messages(&self) -> usize {
        let asked = usize::try_from(self.command.max_messages.get()).unwrap_or(usize::MAX);
        self.kept_before.map_or(asked, |kept| kept.min(asked))
    }

    /// Returns the prefetch count for the next consumer, with `ready` messages on the queue; 0 if
    /// the request takes no more messages.
    fn prefetch(&mut self, ready: usize) -> usize {
        if self.stop.is_some() {
            return 0;
        }
        let taken = self.consumed.messages.len();
        let wanted = self.max_messages().saturating_sub(taken);
        self.fitting(ready.min(wanted).min((taken * GROWTH).max(FIRST_PREFETCH)).min(u16::MAX.into()))
    }

    /// Returns how many more messages like the largest one fit into the response, at most `most`.
    fn fitting(&mut self, most: usize) -> usize {
        self.sizes.fitting(most, &self.consumed.messages, self.room.together)
    }

    /// Adds a delivery to the kept messages; if it does not fit, or an earlier one did not, it is
    /// marked to be returned.
    fn keep(&mut self, session: &Session, mut delivery: Delivery) {
        let tag = delivery.delivery_tag;
        content_header::restore(&mut delivery);
        self.last_count = counted_returns(&delivery);
        if self.stop.is_some() {
            self.has_excess = true;
            return;
        }
        if session.intake().was_exceeded_by(tag) {
            return self.exceed_the_intake();
        }
        let message = received(delivery);
        if !self.sizes.add(&message, &self.consumed.messages, self.room.together) {
            if !self.may_come_alone(&message) {
                self.has_excess = true;
                return self.be_full();
            }
            self.stop = Some(Full::Alone);
        }
        self.counts_of_returns.extend(self.last_count.filter(|count| *count > 0));
        self.last_tag = Some(tag);
        self.consumed.messages.push(message);
    }

    fn may_come_alone(&self, message: &ReceivedMessage) -> bool {
        let fits = self.room.alone.is_some_and(|largest| message.body.0.len() <= largest);
        fits && self.consumed.messages.is_empty()
    }

    fn be_full(&mut self) {
        self.stop.get_or_insert(if self.consumed.messages.is_empty() { Full::First } else { Full::Next });
    }

    fn exceed_the_intake(&mut self) {
        self.has_exceeded_the_intake = true;
        self.be_full();
    }
}
