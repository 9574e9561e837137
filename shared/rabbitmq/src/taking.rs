//! Taking what is on a queue: how many messages are asked for at once, and how none is harmed that is not kept.

use std::time::Duration;

use futures_util::stream::StreamExt as _;
use lapin::Consumer;
use lapin::message::Delivery;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions};
use lapin::types::FieldTable;
use mq::{ConsumeCommand, Consumed, Deadline, QueueName};

use crate::errors::Failure;
use crate::message::{received, returns};
use crate::queue_facts::{self, QueueFacts, QueueKind};
use crate::session::{Session, call, inspect, short};

/// With how many commands a quorum queue may have to be told what was settled: one for each message that was got alone,
/// and one for each consumer. A channel sends so many at once and keeps the others back until the queue has answered;
/// those it forgets when it is closed (`quorum_commands_soft_limit`).
const MOST_SETTLEMENTS: usize = 32;

/// What is kept of the time when waiting for a first message, for all that follows.
const WAIT_MARGIN: Duration = Duration::from_millis(500);
/// What is kept of the time when taking messages.
const TAKE_MARGIN: Duration = Duration::from_millis(250);

/// Begins the consumers' tags.
const CONSUMER: &str = "integrahub";

/// Fewer messages than this are got one by one: a consumer takes three round trips to come and go.
const FEWEST_BY_CONSUMER: usize = 4;
/// How many messages a first consumer may ask for, and by how much a later one may exceed what is in hand.
const FIRST_PREFETCH: usize = 16;
const GROWTH: usize = 8;
/// How long a consumer may be given nothing before the queue is asked again: others may have been faster.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often an empty queue is asked on which no consumer may wait.
const POLL: Duration = Duration::from_millis(250);

/// How long a consumer that is gone may take to end.
const GONE: Duration = Duration::from_secs(1);

/// Why no more is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The next message does not fit any more.
    Next,
    /// The very first one does not.
    First,
}

/// Messages being taken.
///
/// A single `basic.get` costs a round trip, and says how many messages are left. Where those are many, a consumer
/// takes them: its prefetch is what is there, is wanted and is expected to fit, because whatever it brings in excess has
/// to be put back, which marks it as redelivered. So the prefetch starts small and grows with what was kept, and the
/// largest message so far stands for the next ones. The broker answers a consumer's cancellation after its last
/// delivery: nothing is on its way when a consumer is gone.
///
/// A quorum queue counts whatever goes back, in every way that there is, and drops it past its delivery limit. What
/// goes back because a channel ends returns to the head, behind what had gone back before. So messages that went back
/// before are got one by one, as long as there is room for another like the largest: then at most one of them goes back
/// again.
///
/// An auto-delete queue goes with its last consumer, so none may come there that does not stay.
pub(crate) struct Taking<'a> {
    queue: &'a QueueName,
    command: &'a ConsumeCommand,
    max_bytes: usize,
    size: usize,
    largest: usize,
    consumers: usize,
    settlements: usize,
    facts: Facts,
    /// Whether the broker refused a consumer: another client is the only one.
    pub(crate) consumer_was_refused: bool,
    may_consume: bool,
    /// How often the last delivery had gone back; quorum queues alone say so.
    pub(crate) returns: Option<u64>,
    /// The last delivery that was kept. What came after it goes back when the channel ends.
    pub(crate) last_tag: Option<u64>,
    pub(crate) stop: Option<Full>,
    pub(crate) consumed: Consumed,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(queue: &'a QueueName, command: &'a ConsumeCommand, max_bytes: usize) -> Self {
        Self {
            queue,
            command,
            max_bytes,
            size: 0,
            largest: 0,
            consumers: 0,
            settlements: 0,
            facts: Facts::NotAsked,
            consumer_was_refused: false,
            may_consume: true,
            returns: None,
            last_tag: None,
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

    pub(crate) async fn run(&mut self, session: &Session, deadline: Deadline) -> Result<(), Failure> {
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
            self.keep(message.delivery);
            while consumers_help
                && self.prefetch(ready) >= FEWEST_BY_CONSUMER
                && !stop_at.has_passed()
                && self.may_bring_excess(session, deadline).await
            {
                let asked = self.prefetch(ready);
                let brought = self.take_by_consumer(session, asked, stop_at, deadline).await?;
                ready = ready.saturating_sub(brought);
                if brought < asked {
                    // Others take from the queue too, or only one consumer may: what is there has to be asked again.
                    consumers_help = brought > 0;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether consumers may come and go.
    async fn may_consume(&mut self, session: &Session, deadline: Deadline) -> bool {
        // What cannot be found out is taken for the usual: an auto-delete queue is hardly ever read by others than its own.
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
            && self.size.saturating_add(self.largest) > self.max_bytes
    }

    fn tell_of_settlements(&mut self) {
        self.consumed.truncated = true;
        self.consumed.warnings.push(format!(
            "only {MOST_SETTLEMENTS} messages can be taken one by one from a queue that is not known to be a classic one"
        ));
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
        usize::try_from(self.command.max_messages.get()).unwrap_or(usize::MAX)
    }

    /// How many messages a consumer may bring, of the `ready` ones.
    fn prefetch(&self, ready: usize) -> usize {
        if self.stop.is_some() {
            return 0;
        }
        let taken = self.consumed.messages.len();
        let wanted = self.max_messages().saturating_sub(taken);
        let fitting = self.max_bytes.saturating_sub(self.size) / self.largest.max(1);
        ready.min(wanted).min(fitting).min((taken * GROWTH).max(FIRST_PREFETCH)).min(u16::MAX.into())
    }

    /// Takes up to `count` messages with a consumer, which is gone again when this returns, and says how many it
    /// brought.
    async fn take_by_consumer(
        &mut self,
        session: &Session,
        count: usize,
        stop_at: Deadline,
        deadline: Deadline,
    ) -> Result<usize, Failure> {
        let prefetch = u16::try_from(count).unwrap_or(u16::MAX);
        let mut consumer = self.start_consumer(session, prefetch, deadline).await?;
        let mut brought = 0;
        // One timer for all deliveries: setting one for each costs more than the delivery.
        let mut pause = std::pin::pin!(tokio::time::sleep(PATIENCE));
        let mut idle = true;
        while brought < count && self.stop.is_none() {
            tokio::select! {
                biased;
                delivery = consumer.next() => {
                    let Some(delivery) = delivery else { break };
                    brought += 1;
                    idle = false;
                    self.keep(delivery?);
                }
                () = &mut pause => {
                    if idle || stop_at.has_passed() {
                        break;
                    }
                    idle = true;
                    pause.as_mut().reset(tokio::time::Instant::now() + PATIENCE);
                }
            }
        }
        stop_consumer(session, &consumer, deadline).await?;
        while let Some(delivery) = self.delivered_before_it_went(session, &mut consumer, deadline).await? {
            brought += 1;
            self.keep(delivery);
        }
        self.settlements += usize::from(brought > 0);
        Ok(brought)
    }

    /// Each consumer has a tag of its own: a quorum queue goes on counting where one left off that has the same tag and
    /// unsettled messages, which the broker (3.10) does not survive on its channel.
    async fn start_consumer(
        &mut self,
        session: &Session,
        prefetch: u16,
        deadline: Deadline,
    ) -> Result<Consumer, Failure> {
        let channel = session.channel();
        call(deadline, channel.basic_qos(prefetch, BasicQosOptions::default())).await?;
        self.consumers += 1;
        let consume = channel.basic_consume(
            short(self.queue),
            format!("{CONSUMER}-{}", self.consumers).into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let started = call(deadline, consume).await;
        // The permission to read was not in question: a message was asked for before.
        self.consumer_was_refused =
            started.as_ref().err().and_then(Failure::reply).is_some_and(|reply| reply.code == 403);
        started
    }

    /// What a consumer that is gone was given before. The library has all of it by now, but does not always end the
    /// consumer when the queue is deleted in the same moment; then the queue is asked, and what is in doubt is cut.
    async fn delivered_before_it_went(
        &self,
        session: &Session,
        consumer: &mut Consumer,
        deadline: Deadline,
    ) -> Result<Option<Delivery>, Failure> {
        match deadline.min(GONE).run(consumer.next()).await {
            Ok(delivery) => Ok(delivery.transpose()?),
            Err(_) => {
                inspect(session.channel(), self.queue, deadline).await?;
                Err(Failure::Deadline)
            }
        }
    }

    /// Waits for one message with a consumer, which is gone again when this returns.
    async fn wait_for_first(
        &mut self,
        session: &Session,
        wait: Deadline,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        if !self.may_consume(session, deadline).await {
            while self.consumed.messages.is_empty() && self.stop.is_none() && !wait.has_passed() {
                tokio::time::sleep(POLL.min(wait.remaining())).await;
                self.drain(session, deadline).await?;
            }
            return Ok(());
        }
        let mut consumer = self.start_consumer(session, 1, deadline).await?;
        let first = wait.run(consumer.next()).await;
        stop_consumer(session, &consumer, deadline).await?;
        let first = match first {
            Ok(Some(delivery)) => Some(delivery?),
            // The broker ended the consumer, because the queue went away. Asking for a message tells.
            Ok(None) => return self.drain(session, deadline).await,
            // A message may have come while the consumer went.
            Err(_) => self.delivered_before_it_went(session, &mut consumer, deadline).await?,
        };
        if let Some(delivery) = first {
            self.settlements += 1;
            self.keep(delivery);
        }
        Ok(())
    }

    /// Keeps a message, unless it does not fit, or would overtake one that does not.
    fn keep(&mut self, delivery: Delivery) {
        let tag = delivery.delivery_tag;
        self.returns = returns(&delivery);
        if self.stop.is_some() {
            return;
        }
        let message = received(delivery);
        // And the comma between two messages.
        let carried = message.carried_size().saturating_add(1);
        let size = self.size.saturating_add(carried);
        if size > self.max_bytes {
            self.stop = Some(if self.consumed.messages.is_empty() { Full::First } else { Full::Next });
            return;
        }
        self.size = size;
        self.largest = self.largest.max(carried);
        self.last_tag = Some(tag);
        self.consumed.messages.push(message);
    }
}

/// What is known of a queue.
enum Facts {
    NotAsked,
    Known(QueueFacts),
    /// The user may not ask, or the broker did not say.
    Unknown,
}

async fn stop_consumer(session: &Session, consumer: &Consumer, deadline: Deadline) -> Result<(), Failure> {
    call(deadline, session.channel().basic_cancel(consumer.tag(), BasicCancelOptions::default())).await
}
