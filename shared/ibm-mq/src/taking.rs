//! Taking or showing what is on a queue, on the connection's thread.
//!
//! A message is got without a look at it first, as long as it surely fits: the buffer is as long as
//! a body may be that takes the rest of the answer in its longest form, and what is longer stays on
//! the queue. From there on each message is looked at and locked, and got from under the cursor if
//! it fits. So what does not fit was never taken, and its backout count stays.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libmqm_sys::{self as mqi, MQLONG};
use mq::{Consumed, ReceivedMessage};
use tokio::sync::oneshot;

use crate::doubt::{self, Evidence};
use crate::incoming::received;
use crate::mqi::{Connection, Got, Object, Properties, Refusal, Take};
use crate::poison::{Poison, Verdict};
use crate::session::Told;

/// How long one call may block. A call that blocks cannot be stopped.
const SLICE: Duration = Duration::from_millis(500);

/// What the longest form of a byte of a body takes in an answer: base64, and a control character
/// that is escaped twice in its text.
const LONGEST_FORM: usize = 9;

/// What is kept for properties and other members when a message is got without a look at it.
const BESIDE_BODY: usize = 64 * 1024;

/// What the properties of one message may take. A larger body than an answer can carry has not
/// more.
const MOST_PROPERTIES: usize = 8 * 1024 * 1024;

/// How many messages may be moved to a backout queue in one unit of work.
const MOST_MOVED: usize = 100;

/// What is to be taken.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) queue: String,
    pub(crate) most: usize,
    pub(crate) max_bytes: usize,
    pub(crate) selection: Selection,
    pub(crate) convert: bool,
    pub(crate) is_browse: bool,
    /// Whether messages past the backout threshold are moved.
    pub(crate) moves_poison: bool,
    pub(crate) wait: Wait,
    /// Until when a first message is waited for.
    pub(crate) wait_until: Instant,
    /// Until when messages are taken.
    pub(crate) stop_at: Instant,
}

/// Which messages are wanted, if not all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) message_id: Option<mqi::MQBYTE24>,
    pub(crate) correlation_id: Option<mqi::MQBYTE24>,
    /// Properties that messages have to have.
    pub(crate) expression: Option<String>,
}

/// The wait that is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) seconds: u32,
    pub(crate) is_cut: bool,
}

/// What was taken. It is in the connection's unit of work.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) consumed: Consumed,
    /// The messages, for a commit in doubt.
    pub(crate) evidence: Vec<Evidence>,
    /// How many messages were moved to the backout queue.
    pub(crate) moved: usize,
    /// The first message alone exceeds what an answer can carry.
    pub(crate) first_is_too_large: bool,
}

impl Taken {
    fn nothing(plan: &Plan) -> Self {
        let mut taken = Self::default();
        taken.consumed.wait_seconds_applied = plan.wait.seconds;
        if plan.wait.is_cut {
            let warning = "the wait was cut short by the time that the request has";
            taken.consumed.warnings.push(warning.to_owned());
        }
        taken
    }
}

/// Opens the queue, and tells where what is taken or shown will come. Takes or shows messages as
/// `plan` says then, until it is `abandoned`.
pub(crate) fn take(
    connection: &Connection,
    plan: &Plan,
    abandoned: &AtomicBool,
    told: Told<oneshot::Receiver<Result<Taken, Refusal>>>,
) {
    let mut taking = match Taking::open(connection, plan) {
        Ok(taking) => taking,
        Err(refusal) => {
            let _ = told.send(Err(refusal));
            return;
        }
    };
    let (answer, taken) = oneshot::channel();
    if told.send(Ok(taken)).is_err() {
        // Nobody waits any more.
        return;
    }
    let ended = taking.run_to_the_end(abandoned);
    let taken = ended.map(|()| std::mem::take(&mut taking.taken));
    if plan.is_browse {
        // Nothing else is done on the connection, so the queue is closed before it is free.
        drop(taking);
    }
    // Otherwise it is closed while the caller works, and before the commit.
    let _ = answer.send(taken);
}

fn open<'c>(connection: &'c Connection, plan: &Plan, options: MQLONG) -> Result<Object<'c>, Refusal> {
    match &plan.selection.expression {
        Some(expression) => Object::open_selection(connection, &plan.queue, options, expression),
        None => Object::open_queue(connection, &plan.queue, options),
    }
}

enum Ended {
    Done,
    /// A message was got that does not fit, because of what is beside its body.
    MustLook,
}

struct Taking<'c> {
    plan: &'c Plan,
    connection: &'c Connection,
    queue: Object<'c>,
    properties: Properties<'c>,
    poison: Poison<'c>,
    /// Whether each message is looked at before it is got.
    careful: bool,
    is_first_look: bool,
    buffer: Vec<u8>,
    room: Room,
    taken: Taken,
}

/// How much of the answer the messages take. What each takes at most is known at once, and what it
/// does take is counted once that matters: when by the first sum half of the answer is full.
#[derive(Debug, Default)]
struct Room {
    /// What is known exactly, of so many messages.
    exact: usize,
    counted: usize,
    /// What the others take at most.
    at_most: usize,
}

impl Room {
    fn left(&mut self, messages: &[ReceivedMessage], max_bytes: usize) -> usize {
        let left = |room: &Self| max_bytes.saturating_sub(room.exact.saturating_add(room.at_most));
        if self.at_most > 0 && left(self) < max_bytes / 2 {
            let others = messages.get(self.counted..).unwrap_or_default();
            self.exact += others.iter().map(ReceivedMessage::carried_size).sum::<usize>();
            (self.counted, self.at_most) = (messages.len(), 0);
        }
        left(self)
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.connection.keep_buffer(std::mem::take(&mut self.buffer));
    }
}

/// A message that came, or why none did.
enum Next {
    Message(Box<mqi::MQMD>, Box<ReceivedMessage>, usize),
    Nothing,
    /// It exceeds the rest of the answer.
    DoesNotFit,
    /// It may exceed the rest of the answer.
    MayNotFit,
}

impl<'c> Taking<'c> {
    fn open(connection: &'c Connection, plan: &'c Plan) -> Result<Self, Refusal> {
        let options = match plan.is_browse {
            true => mqi::MQOO_BROWSE,
            false => mqi::MQOO_INPUT_SHARED | mqi::MQOO_SAVE_ALL_CONTEXT,
        };
        Ok(Self {
            plan,
            connection,
            queue: open(connection, plan, options)?,
            properties: Properties::new(connection)?,
            poison: Poison::new(connection, &plan.queue),
            careful: plan.is_browse,
            is_first_look: true,
            buffer: connection.take_buffer(),
            room: Room::default(),
            taken: Taken::nothing(plan),
        })
    }

    fn run_to_the_end(&mut self, abandoned: &AtomicBool) -> Result<(), Refusal> {
        while let Ended::MustLook = self.run(abandoned)? {
            // What was taken goes back, and is taken again after a look at each.
            self.connection.back_out()?;
            self.look_from_now_on()?;
            self.room = Room::default();
            self.taken = Taken::nothing(self.plan);
        }
        Ok(())
    }

    fn run(&mut self, abandoned: &AtomicBool) -> Result<Ended, Refusal> {
        while self.taken.consumed.messages.len() < self.plan.most {
            let (md, message, size) = match self.next(abandoned)? {
                Next::Message(md, message, size) => (md, message, size),
                Next::Nothing => break,
                Next::DoesNotFit => {
                    self.taken.first_is_too_large = self.taken.consumed.messages.is_empty();
                    self.taken.consumed.truncated = true;
                    break;
                }
                Next::MayNotFit => {
                    self.look_from_now_on()?;
                    continue;
                }
            };
            if size > self.left() {
                // Only what was looked at first cannot come here.
                return Ok(Ended::MustLook);
            }
            if !self.is_moved(&md, &message)? {
                self.keep(&md, *message, size);
            }
        }
        Ok(Ended::Done)
    }

    fn left(&mut self) -> usize {
        self.room.left(&self.taken.consumed.messages, self.plan.max_bytes)
    }

    fn keep(&mut self, md: &mqi::MQMD, message: ReceivedMessage, size: usize) {
        doubt::remember(&mut self.taken.evidence, md);
        self.room.at_most += size;
        self.taken.consumed.messages.push(message);
    }

    /// Opens the queue so that messages can be looked at before they are got. What is in hand stays
    /// in hand.
    fn look_from_now_on(&mut self) -> Result<(), Refusal> {
        let options = mqi::MQOO_INPUT_SHARED | mqi::MQOO_SAVE_ALL_CONTEXT | mqi::MQOO_BROWSE;
        self.queue = open(self.connection, self.plan, options)?;
        self.careful = true;
        self.is_first_look = true;
        Ok(())
    }

    /// The next message, waited for in slices if it is the first.
    fn next(&mut self, abandoned: &AtomicBool) -> Result<Next, Refusal> {
        loop {
            if abandoned.load(Ordering::SeqCst) || Instant::now() >= self.plan.stop_at {
                return Ok(Next::Nothing);
            }
            let wait = self.wait();
            let next = match (self.plan.is_browse, self.careful) {
                (true, _) => self.look(wait, 0)?,
                (false, false) => self.get(wait)?,
                (false, true) => self.look_and_get(wait)?,
            };
            if !matches!(next, Next::Nothing) || self.wait().is_zero() {
                return Ok(next);
            }
        }
    }

    /// How long the next call may wait: not at all if there is a message already.
    fn wait(&self) -> Duration {
        if !self.taken.consumed.messages.is_empty() || self.taken.moved > 0 {
            return Duration::ZERO;
        }
        self.plan.wait_until.saturating_duration_since(Instant::now()).min(SLICE)
    }

    /// Gets a message that surely fits.
    fn get(&mut self, wait: Duration) -> Result<Next, Refusal> {
        let most = self.left().saturating_sub(BESIDE_BODY) / LONGEST_FORM;
        self.call(mqi::MQGMO_SYNCPOINT, wait, most, Next::MayNotFit)
    }

    /// Looks at a message, and gets it if it fits.
    fn look_and_get(&mut self, wait: Duration) -> Result<Next, Refusal> {
        match self.look(wait, mqi::MQGMO_LOCK)? {
            Next::Message(_, _, size) if size > self.left() => {
                self.queue.unlock()?;
                Ok(Next::DoesNotFit)
            }
            Next::Message(..) => {
                // It is locked, so nobody else can have taken it.
                self.call(
                    mqi::MQGMO_SYNCPOINT | mqi::MQGMO_MSG_UNDER_CURSOR,
                    Duration::ZERO,
                    usize::MAX,
                    Next::DoesNotFit,
                )
            }
            other => Ok(other),
        }
    }

    /// Looks at the message after the last one that was looked at.
    fn look(&mut self, wait: Duration, options: MQLONG) -> Result<Next, Refusal> {
        let which = if self.is_first_look { mqi::MQGMO_BROWSE_FIRST } else { mqi::MQGMO_BROWSE_NEXT };
        // A body in base64 is longer than itself.
        let most = self.left() / 4 * 3;
        let next = self.call(which | options, wait, most, Next::DoesNotFit)?;
        match next {
            // While there was nothing, the cursor stayed in front of the first message.
            Next::Nothing => {}
            _ => self.is_first_look = false,
        }
        match next {
            Next::Message(_, _, size) if self.plan.is_browse && size > self.left() => Ok(Next::DoesNotFit),
            next => Ok(next),
        }
    }

    /// Calls the library, and again with a longer buffer if that is what it takes and a body of at
    /// most `most` bytes is wanted; `if_longer` stands for a longer one.
    fn call(
        &mut self,
        options: MQLONG,
        wait: Duration,
        most: usize,
        if_longer: Next,
    ) -> Result<Next, Refusal> {
        let is_by_cursor = options & mqi::MQGMO_MSG_UNDER_CURSOR != 0;
        let take = Take {
            options,
            wait: MQLONG::try_from(wait.as_millis()).unwrap_or(MQLONG::MAX),
            message_id: self.plan.selection.message_id.filter(|_| !is_by_cursor),
            correlation_id: self.plan.selection.correlation_id.filter(|_| !is_by_cursor),
            convert: self.plan.convert,
        };
        loop {
            let length = self.buffer.len().min(most);
            let buffer = self.buffer.get_mut(..length).unwrap_or_default();
            match self.queue.get(&take, &self.properties, buffer)? {
                Got::Nothing => return Ok(Next::Nothing),
                Got::TooLong { length } if length > most => return Ok(if_longer),
                Got::TooLong { length } => self.buffer.resize(length.max(self.buffer.len() * 2), 0),
                Got::Message { descriptor, length, warning, .. } => {
                    return self.received(descriptor, length, warning);
                }
            }
        }
    }

    fn received(
        &mut self,
        md: Box<mqi::MQMD>,
        length: usize,
        warning: Option<MQLONG>,
    ) -> Result<Next, Refusal> {
        let body = self.buffer.get(..length).unwrap_or_default().to_vec();
        // Properties that exceed every answer make a message that fits into none.
        let properties = self.properties.read(self.plan.max_bytes.min(MOST_PROPERTIES))?;
        let is_beyond = properties.is_none();
        let message = received(&md, properties.unwrap_or_default(), body);
        let size = match message.carried_at_most() {
            _ if is_beyond => usize::MAX,
            at_most if at_most <= self.left() => at_most,
            _ => message.carried_size(),
        };
        if let Some(reason) = warning {
            self.warn(reason);
        }
        Ok(Next::Message(md, Box::new(message), size))
    }

    /// Says once what the library warned of.
    fn warn(&mut self, reason: MQLONG) {
        let known = crate::reason::Reason::of(reason);
        let text = format!("{} ({reason}, {})", known.words, known.name);
        if !self.taken.consumed.warnings.contains(&text) {
            self.taken.consumed.warnings.push(text);
        }
    }

    /// Moves the message that was just got, if it came back too often.
    fn is_moved(&mut self, md: &mqi::MQMD, message: &ReceivedMessage) -> Result<bool, Refusal> {
        let may_move = self.plan.moves_poison && !self.plan.is_browse && self.taken.moved < MOST_MOVED;
        let verdict =
            self.poison.judge(md, message, &self.queue, &self.properties, may_move && !self.plan.convert)?;
        match verdict {
            Verdict::Fine => Ok(false),
            Verdict::Moved { warning } => {
                self.taken.moved += 1;
                self.push_warning(warning);
                Ok(true)
            }
            Verdict::Kept { warning } => {
                self.push_warning(warning);
                Ok(false)
            }
        }
    }

    fn push_warning(&mut self, warning: String) {
        if !self.taken.consumed.warnings.contains(&warning) {
            self.taken.consumed.warnings.push(warning);
        }
    }
}
