//! Gets or browses the messages of a queue for a consume, on the connection's thread.
//!
//! A message is got without browsing it first, as long as it is certain to fit into the response.
//! For that, the buffer is only as long as a body whose longest form takes the rest of the
//! response, and a longer message remains on the queue. After the first longer message, each
//! message is browsed and locked, and then got if it fits. So a message that does not fit was never
//! got, and its backout count does not change. Messages that are converted are browsed first too,
//! because their length is not known before. If the user may not browse the queue, messages are got
//! without browsing, and one that does not fit is backed out.

mod calls;
mod plan;
mod response_bytes;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libmqm_sys as mqi;
use mq::ReceivedMessage;
use tokio::sync::oneshot;

use crate::doubt;
use crate::mqi::{Connection, LONGEST_WAIT, Object, Properties, Refusal};
use crate::poison::{Poison, Verdict};
use crate::session::{Told, unless_refused};
use response_bytes::ResponseBytes;

pub(crate) use self::plan::{Plan, Selection, Taken, Wait};

/// Maximum number of messages that one consume moves to the backout queue.
const MOST_MOVED: usize = 100;

/// Maximum number of messages of a response for which memory is reserved at once. A list that grows
/// later copies its content.
const EXPECTED: usize = 128;

/// Result of a consume on the connection's thread: the messages, or the refused MQI call.
type Answer = Result<Taken, Refusal>;

/// Opens the queue, and sends a receiver for the result through `told`. Then gets or browses
/// messages according to `plan`, and stops early if `abandoned` is set.
pub(crate) fn take(
    connection: &Connection,
    plan: &Plan,
    abandoned: &AtomicBool,
    told: Told<oneshot::Receiver<Answer>>,
) {
    let Some((mut taking, told)) = unless_refused(Taking::begin(connection, plan), told) else { return };
    let (answer, taken) = oneshot::channel();
    taking.begun = Some(Begun { told, taken });
    if !plan.is_quick() && !taking.tell() {
        return;
    }
    let ended = taking.run_to_the_end(abandoned);
    let taken = ended.map(|()| std::mem::take(&mut taking.taken));
    let untold = taking.begun.take();
    if plan.is_browse {
        // No other call follows on the connection, so the queue is closed before the connection is
        // free.
        drop(taking);
    }
    // Otherwise the queue is closed while the caller works, and before the commit.
    let _ = answer.send(taken);
    if let Some(begun) = untold {
        begun.tell();
    }
}

/// Report to the caller that the queue is open, with the receiver for the result of the consume.
struct Begun {
    told: Told<oneshot::Receiver<Answer>>,
    taken: oneshot::Receiver<Answer>,
}

impl Begun {
    /// Reports to the caller that the queue is open. Returns `false` if the caller has stopped
    /// waiting.
    fn tell(self) -> bool {
        self.told.send(Ok(self.taken)).is_ok()
    }
}

/// Mode in which a consume reads the messages of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadMode {
    /// Each message is browsed and stays on the queue.
    Look,
    /// Each message is received at once, if it is certain to fit into the response.
    Get,
    /// Each message is browsed first, and received if it fits into the response.
    LookAndGet,
    /// Each message is received without browsing it first, because the user may not browse.
    GetUnseen,
}

/// Opens the queue for `mode`. If the user may not browse, [`ReadMode::LookAndGet`] becomes
/// [`ReadMode::GetUnseen`].
fn open<'c>(
    connection: &'c Connection,
    plan: &Plan,
    mode: ReadMode,
) -> Result<(Object<'c>, ReadMode), Refusal> {
    let to_get = mqi::MQOO_INPUT_SHARED | mqi::MQOO_SAVE_ALL_CONTEXT;
    let options = match mode {
        ReadMode::Look => mqi::MQOO_BROWSE,
        ReadMode::LookAndGet => to_get | mqi::MQOO_BROWSE,
        ReadMode::Get | ReadMode::GetUnseen => to_get,
    };
    let expression = plan.selection.expression.as_deref();
    match Object::open_selection(connection, &plan.queue, options, expression) {
        Err(Refusal { reason: mqi::MQRC_NOT_AUTHORIZED, .. }) if mode == ReadMode::LookAndGet => {
            open(connection, plan, ReadMode::GetUnseen)
        }
        opened => opened.map(|queue| (queue, mode)),
    }
}

struct Taking<'c> {
    plan: &'c Plan,
    connection: &'c Connection,
    /// Report to the caller that the queue is open; `None` once it is sent. If the first MQGET
    /// returns fast, the report is delayed until then, to wake the caller once instead of twice.
    begun: Option<Begun>,
    has_called: bool,
    queue: Object<'c>,
    properties: Properties<'c>,
    poison: Poison<'c>,
    mode: ReadMode,
    /// Maximum number of messages that the consume takes.
    most: usize,
    is_first_look: bool,
    buffer: Vec<u8>,
    room: ResponseBytes,
    taken: Taken,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.connection.keep_buffer(std::mem::take(&mut self.buffer));
    }
}

/// Result of looking for the next message of a consume: the message, or the reason why none is
/// taken.
enum Next {
    Message(Box<mqi::MQMD>, Box<ReceivedMessage>, usize),
    Nothing,
    /// The message does not fit into the rest of the response.
    DoesNotFit,
    /// The message may not fit into the rest of the response, so it has to be browsed first.
    MayNotFit,
}

impl<'c> Taking<'c> {
    fn begin(connection: &'c Connection, plan: &'c Plan) -> Result<Self, Refusal> {
        let mode = match (plan.is_browse, plan.convert) {
            (true, _) => ReadMode::Look,
            (false, true) => ReadMode::LookAndGet,
            (false, false) => ReadMode::Get,
        };
        let (queue, mode) = open(connection, plan, mode)?;
        let mut taking = Self {
            plan,
            connection,
            begun: None,
            has_called: false,
            queue,
            properties: Properties::new(connection)?,
            poison: Poison::new(connection, &plan.queue),
            mode,
            most: plan.most,
            is_first_look: true,
            buffer: connection.take_buffer(),
            room: ResponseBytes::default(),
            taken: Taken::nothing(plan),
        };
        taking.say_if_unseen();
        Ok(taking)
    }

    fn run_to_the_end(&mut self, abandoned: &AtomicBool) -> Result<(), Refusal> {
        while !self.run(abandoned)? {
            // The messages are backed out, and got again after browsing each. If the user may not
            // browse, only those before the one that does not fit are got again.
            let in_hand = self.taken.consumed.messages.len();
            self.connection.back_out()?;
            self.room = ResponseBytes::default();
            self.taken = Taken::nothing(self.plan);
            if self.mode != ReadMode::GetUnseen {
                self.look_from_now_on()?;
                continue;
            }
            self.most = in_hand;
            self.taken.consumed.truncated = true;
            self.taken.first_is_too_large = in_hand == 0;
            self.say_if_unseen();
        }
        Ok(())
    }

    fn say_if_unseen(&mut self) {
        if self.mode == ReadMode::GetUnseen {
            self.taken.consumed.warnings.push(
                "the user may not browse the queue (+browse), so messages were taken without a look at their \
                 length: one that does not fit into an answer goes back, which its backout count says",
            );
        }
    }

    /// Takes messages until their maximum number is reached, the queue has no more, or the next one
    /// does not fit. Returns `false` if a message that was received already does not fit into the
    /// response, because of its properties and other members.
    fn run(&mut self, abandoned: &AtomicBool) -> Result<bool, Refusal> {
        while self.taken.consumed.messages.len() < self.most {
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
                // Only a message that was browsed first cannot exceed the rest here.
                return Ok(false);
            }
            if !self.is_moved(&md, &message)? {
                doubt::remember(&mut self.taken.evidence, &md);
                self.room.at_most += size;
                let messages = &mut self.taken.consumed.messages;
                if messages.is_empty() {
                    messages.reserve_exact(self.most.min(EXPECTED));
                }
                messages.push(*message);
            }
        }
        Ok(true)
    }

    fn left(&mut self) -> usize {
        self.room.left(&self.taken.consumed.messages, self.plan.max_bytes)
    }

    /// Opens the queue again, so that from now on each message is browsed before it is received.
    /// Messages received so far stay in the unit of work.
    fn look_from_now_on(&mut self) -> Result<(), Refusal> {
        (self.queue, self.mode) = open(self.connection, self.plan, ReadMode::LookAndGet)?;
        self.is_first_look = true;
        self.say_if_unseen();
        Ok(())
    }

    /// Reads the next message. Waits for the consume's first message, in calls of at most
    /// [`LONGEST_WAIT`].
    fn next(&mut self, abandoned: &AtomicBool) -> Result<Next, Refusal> {
        loop {
            if abandoned.load(Ordering::SeqCst) || Instant::now() >= self.plan.stop_at {
                return Ok(Next::Nothing);
            }
            // The caller does not wait for long before it knows that the queue is open.
            let wait = if self.begun.is_some() { Duration::ZERO } else { self.wait() };
            let next = match self.mode {
                ReadMode::Look => self.look(wait, 0)?,
                ReadMode::Get => self.get(wait)?,
                ReadMode::LookAndGet => self.look_and_get(wait)?,
                ReadMode::GetUnseen => self.get_unseen(wait)?,
            };
            if !matches!(next, Next::Nothing) || self.wait().is_zero() || !self.tell() {
                return Ok(next);
            }
        }
    }

    /// Reports to the caller that the queue is open, unless that was done. Returns `false` if the
    /// caller has stopped waiting.
    fn tell(&mut self) -> bool {
        self.begun.take().is_none_or(Begun::tell)
    }

    /// Returns the time that the next MQGET may wait: zero once the consume has a message.
    fn wait(&self) -> Duration {
        if self.has_any() {
            return Duration::ZERO;
        }
        self.plan.wait_until.saturating_duration_since(Instant::now()).min(LONGEST_WAIT)
    }

    /// Moves the message that was just received to the backout queue if it has reached the backout
    /// threshold. True if it was moved.
    fn is_moved(&mut self, md: &mqi::MQMD, message: &ReceivedMessage) -> Result<bool, Refusal> {
        let may_move = self.plan.moves_poison && !self.plan.is_browse && self.taken.moved < MOST_MOVED;
        let verdict =
            self.poison.judge(md, message, &self.queue, &self.properties, may_move && !self.plan.convert)?;
        match verdict {
            Verdict::Fine => Ok(false),
            Verdict::Moved { warning } => {
                self.taken.moved += 1;
                self.taken.consumed.warnings.push(warning);
                Ok(true)
            }
            Verdict::Kept { warning } => {
                self.taken.consumed.warnings.push(warning);
                Ok(false)
            }
        }
    }
}
