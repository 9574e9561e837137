//! Taking what is on a queue: how many messages are asked for at once, and how none is harmed that
//! is not kept.

mod consumers;
mod limits;

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

/// With how many commands a quorum queue may have to be told what was settled: one for each message
/// that was got alone, and one for each consumer. A channel sends so many at once and keeps the
/// others back until the queue has answered; those it forgets when it is closed
/// (`quorum_commands_soft_limit`).
const MOST_SETTLEMENTS: usize = 32;

/// What is kept of the time when waiting for a first message, for all that follows.
const WAIT_MARGIN: Duration = Duration::from_millis(500);
/// What is kept of the time when taking messages.
const TAKE_MARGIN: Duration = Duration::from_millis(250);

/// How many messages a first consumer may ask for, and by how much a later one may exceed what is
/// in hand.
const FIRST_PREFETCH: usize = 16;
const GROWTH: usize = 8;

/// How often an empty queue is asked on which no consumer may wait.
const POLL: Duration = Duration::from_millis(250);

/// How long the messages of a connection that was cut may take to be ready again. Others may have
/// taken some of them, so this is not waited for without end.
const RETURN: Duration = Duration::from_secs(1);

/// What may be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The most bytes that all messages may take in an answer.
    together: usize,
    /// The largest body of a first message that alone takes more than that, if such a message is
    /// taken at all.
    pub(crate) alone: Option<usize>,
}

impl Room {
    pub(crate) const fn of(max_bytes: usize) -> Self {
        Self { together: max_bytes, alone: None }
    }

    /// The same with room for one message that alone exceeds it.
    pub(crate) const fn with_large(self, largest: usize) -> Self {
        Self { alone: Some(largest), ..self }
    }
}

/// Why no more is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The next message does not fit any more.
    Next,
    /// The first message is larger than all may be together, and was taken alone.
    Alone,
    /// The very first one does not.
    First,
}

/// Messages being taken.
///
/// A single `basic.get` costs a round trip, and says how many messages are left. Where those are
/// many, a consumer takes them: its prefetch is what is there, is wanted and is expected to fit,
/// because whatever it brings in excess has to be put back, which marks it as redelivered. So the
/// prefetch starts small and grows with what was kept, and the largest message so far stands for
/// the next ones. The broker answers a consumer's cancellation after its last delivery: nothing is
/// on its way when a consumer is gone.
///
/// A quorum queue counts whatever goes back, in every way that there is, and drops it past its
/// delivery limit. What goes back because a channel ends returns to the head, behind what had gone
/// back before. So messages that went back before are got one by one, as long as there is room for
/// another like the largest: then at most one of them goes back again.
///
/// An auto-delete queue goes with its last consumer, so none may come there that does not stay.
///
/// Whatever the sizes are, the connection's [`Intake`](crate::intake::Intake) lets in a bounded
/// number of bytes. What exceeds it is still on its way, and everything that the broker says comes
/// after it. If it does not pass soon, that connection is of no use any more. The messages that
/// were kept are at the queue's head again when it is cut, and another run gets as many of them,
/// one by one.
pub(crate) struct Taking<'a> {
    queue: &'a QueueName,
    command: &'a ConsumeCommand,
    room: Room,
    size: usize,
    largest: usize,
    consumers: usize,
    settlements: usize,
    facts: Facts,
    /// Whether the broker refused a consumer: another client is the only one.
    pub(crate) consumer_was_refused: bool,
    may_consume: bool,
    /// How many messages an earlier run kept, where this one gets them again.
    kept_before: Option<usize>,
    /// How many messages were ready before the first one was got.
    ready_before: u32,
    /// Whether a message was given that the connection did not let in.
    pub(crate) has_exceeded_the_intake: bool,
    /// How often the last delivery had gone back; quorum queues alone say so.
    pub(crate) returns: Option<u64>,
    /// The last delivery that was kept. What came after it goes back.
    pub(crate) last_tag: Option<u64>,
    /// Whether anything came after it.
    pub(crate) has_excess: bool,
    /// How often messages that were kept had gone back; of those only that had.
    failed: Vec<u64>,
    pub(crate) stop: Option<Full>,
    pub(crate) consumed: Consumed,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(queue: &'a QueueName, command: &'a ConsumeCommand, room: Room) -> Self {
        Self {
            queue,
            command,
            room,
            size: 0,
            largest: 0,
            consumers: 0,
            settlements: 0,
            facts: Facts::NotAsked,
            consumer_was_refused: false,
            may_consume: true,
            kept_before: None,
            ready_before: 0,
            has_exceeded_the_intake: false,
            returns: None,
            last_tag: None,
            has_excess: false,
            failed: Vec::new(),
            stop: None,
            consumed: Consumed::default(),
        }
    }

    /// With what is known of the queue already.
    pub(crate) fn knowing(mut self, facts: QueueFacts) -> Self {
        self.facts = Facts::Known(facts);
        self
    }

    /// Without consumers.
    pub(crate) fn one_by_one(mut self) -> Self {
        self.may_consume = false;
        self
    }

    /// What was kept is got again, on another connection.
    pub(crate) fn again(self) -> Self {
        let mut again = Self::new(self.queue, self.command, self.room).one_by_one();
        again.kept_before = Some(self.consumed.messages.len());
        again.ready_before = self.ready_before;
        again.consumed.wait_seconds_applied = self.consumed.wait_seconds_applied;
        again.consumed.warnings = self.consumed.warnings;
        again.consumed.truncated = true;
        again
    }

    /// Takes messages, after having waited for the first one where there was none. The connection
    /// lets in `most_held` bytes.
    pub(crate) async fn run(
        &mut self,
        session: &Session,
        most_held: usize,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        if self.kept_before.is_some() {
            self.wait_for_the_return(session, deadline).await?;
            self.drain(session, deadline).await?;
            self.judge_the_counts(session, deadline).await;
            return Ok(());
        }
        let available = deadline.earlier_by(WAIT_MARGIN).remaining();
        let wait = Duration::from_secs(self.command.wait_seconds.get().into()).min(available);
        self.consumed.wait_seconds_applied = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
        if available < Duration::from_secs(self.command.wait_seconds.get().into()) {
            self.consumed.warnings.push("the wait was cut short by the time that the request has".to_owned());
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
        if self.has_exceeded_the_intake && session.let_pass(self.queue, most_held, passes).await {
            (self.has_exceeded_the_intake, self.has_excess) = (false, true);
        }
        self.judge_the_counts(session, deadline).await;
        Ok(())
    }

    /// Waits until what went back is ready again: the broker needs a moment to notice a connection
    /// that was cut, and until then what lay behind would come first.
    async fn wait_for_the_return(&self, session: &Session, deadline: Deadline) -> Result<(), Failure> {
        let until = deadline.min(RETURN);
        while inspect(session.channel(), self.queue, deadline).await?.messages < self.ready_before
            && !until.has_passed()
        {
            tokio::time::sleep(RETURN / 50).await;
        }
        Ok(())
    }

    /// Takes what is there.
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
                self.consumed.warnings.push("the time ended before all messages were taken".to_owned());
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
                // Others take from the queue too, or only one consumer may.
                consumers_help = brought != Some(0);
            }
        }
        Ok(())
    }

    /// Whether consumers may come and go.
    async fn may_consume(&mut self, session: &Session, deadline: Deadline) -> bool {
        // What cannot be found out is taken for the usual: an auto-delete queue is hardly ever read
        // by others than its own.
        self.may_consume && !self.ask(session, deadline).await.is_some_and(|facts| facts.auto_delete)
    }

    async fn may_bring_excess(&mut self, session: &Session, deadline: Deadline) -> bool {
        self.returns.is_none_or(|returns| returns == 0)
            && self.settlements < MOST_SETTLEMENTS
            && self.may_consume(session, deadline).await
    }

    /// Whether another delivery might not be settled for certain.
    async fn may_not_settle_more(&mut self, session: &Session, deadline: Deadline) -> bool {
        self.settlements >= MOST_SETTLEMENTS
            && !self.ask(session, deadline).await.is_some_and(|facts| facts.kind == QueueKind::Classic)
    }

    /// Whether a message that had gone back would probably go back again.
    fn is_hardly_room_for_what_went_back(&self) -> bool {
        self.returns.is_some_and(|returns| returns > 0)
            && !self.consumed.messages.is_empty()
            && self.size.saturating_add(self.largest) > self.room.together
    }

    /// What is known of the queue. It is asked once, and only where it matters.
    async fn ask(&mut self, session: &Session, deadline: Deadline) -> Option<&QueueFacts> {
        if matches!(self.facts, Facts::NotAsked) {
            self.facts = match queue_facts::learn(session, self.queue, deadline).await {
                Ok(facts) => Facts::Known(facts),
                Err(_) => Facts::Unknown,
            };
        }
        match &self.facts {
            Facts::Known(facts) => Some(facts),
            Facts::Unknown | Facts::NotAsked => None,
        }
    }

    fn wants_more(&self) -> bool {
        self.stop.is_none() && self.consumed.messages.len() < self.max_messages()
    }

    fn max_messages(&self) -> usize {
        let asked = usize::try_from(self.command.max_messages.get()).unwrap_or(usize::MAX);
        self.kept_before.map_or(asked, |kept| kept.min(asked))
    }

    /// How many messages a consumer may bring, of the `ready` ones.
    fn prefetch(&self, ready: usize) -> usize {
        if self.stop.is_some() {
            return 0;
        }
        let taken = self.consumed.messages.len();
        let wanted = self.max_messages().saturating_sub(taken);
        let fitting = self.room.together.saturating_sub(self.size) / self.largest.max(1);
        ready.min(wanted).min(fitting).min((taken * GROWTH).max(FIRST_PREFETCH)).min(u16::MAX.into())
    }

    /// Keeps a message, unless it does not fit, or would overtake one that does not.
    fn keep(&mut self, session: &Session, mut delivery: Delivery) {
        let tag = delivery.delivery_tag;
        content_header::restore(&mut delivery);
        self.returns = counted_returns(&delivery);
        if self.stop.is_some() {
            self.has_excess = true;
            return;
        }
        if session.intake().was_exceeded_by(tag) {
            return self.exceed_the_intake();
        }
        let message = received(delivery);
        // And the comma between two messages.
        let carried = message.carried_size().saturating_add(1);
        let size = self.size.saturating_add(carried);
        if size > self.room.together {
            if !self.may_come_alone(&message) {
                self.has_excess = true;
                return self.be_full();
            }
            self.stop = Some(Full::Alone);
        }
        self.failed.extend(self.returns.filter(|returns| *returns > 0));
        self.size = size;
        self.largest = self.largest.max(carried);
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

/// What is known of a queue.
enum Facts {
    NotAsked,
    Known(QueueFacts),
    /// The user may not ask, or the broker did not say.
    Unknown,
}
