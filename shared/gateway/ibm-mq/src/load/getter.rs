//! Gets the messages of a load test, in units of work with a fixed number of messages. This is a
//! job: a function that runs on the connection's thread until its consumer ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;

use broker::load::{Arrival, Foreign};
use libmqm_sys::{self as mqi, MQLONG};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use super::stamp;
use crate::mqi::{Connection, Got, LONGEST_WAIT, Object, Properties, Refusal, Take};
use crate::session::{Told, unless_refused};

/// Maximum number of bytes of a message's properties. A message with more does not count as a
/// message of the load test.
const MOST_PROPERTIES: usize = 64 * 1024;

/// Settings of the job that gets messages for a load consumer on the connection's thread.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) queue: String,
    /// Id of the load test whose messages are taken.
    pub(super) test: String,
    pub(super) foreign: Foreign,
    /// Maximum number of received messages that wait for the consumer to take them.
    pub(super) prefetch: usize,
    /// Number of messages in a unit of work.
    pub(super) unit: usize,
}

/// Channels and flags by which a load consumer controls the job that gets its messages on the
/// connection's thread.
pub(super) struct Gets {
    /// Sender that starts the job; `None` once the job is started. If the sender is dropped unused,
    /// the job ends.
    pub(super) begin: Option<mpsc::Sender<()>>,
    /// Receiver of the messages that the job got. The channel is closed when the job has ended.
    pub(super) arrivals: Receiver<Arrival>,
    /// Receiver of the reason why the job has ended, which is sent before `arrivals` is closed.
    pub(super) end: oneshot::Receiver<End>,
    /// Flag that makes the job commit its open unit of work and end.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) unit: Unit,
}

/// Sequence numbers of the load test's messages in the consumer's open unit of work.
#[derive(Clone, Debug, Default)]
pub(super) struct Unit(Arc<Mutex<Vec<u64>>>);

impl Unit {
    pub(super) fn numbers(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reason why the job that gets a load test's messages has ended. After [`Self::Stopped`] the unit
/// of work is committed, unless the consumer was dropped. After the other reasons the unit of work
/// is open, unless the queue manager has ended it.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Stopped,
    /// A message does not belong to the load test, and has to stay on the queue.
    Foreign,
    /// The next message has this length in bytes, which is more than the gateway holds in memory.
    TooLong(usize),
    Refused(Refusal),
}

/// Opens the queue, and sends through `told` the channels that control this job. Then waits for the
/// signal to begin, and gets messages until it is told to stop or `abandoned` is set.
pub(super) fn take(connection: &Connection, plan: &Plan, abandoned: &AtomicBool, told: Told<Gets>) {
    let opened = Object::open_queue(connection, &plan.queue, mqi::MQOO_INPUT_SHARED);
    let opened = opened.and_then(|queue| Ok((queue, Properties::new(connection)?)));
    let Some(((queue, properties), told)) = unless_refused(opened, told) else { return };
    let (begin, begun) = mpsc::channel();
    let (handed, arrivals) = channel(plan.prefetch);
    let (ended, end) = oneshot::channel();
    let (stop, unit) = (Arc::<AtomicBool>::default(), Unit::default());
    let gets = Gets { begin: Some(begin), arrivals, end, stop: Arc::clone(&stop), unit: unit.clone() };
    if told.send(Ok(gets)).is_err() || begun.recv().is_err() {
        return;
    }
    let mut getter = Getter {
        plan,
        connection,
        queue,
        properties,
        buffer: connection.take_buffer(),
        in_unit: 0,
        unit,
        handed,
    };
    let _ = ended.send(getter.run(&stop, abandoned));
}

struct Getter<'c> {
    plan: &'c Plan,
    connection: &'c Connection,
    queue: Object<'c>,
    properties: Properties<'c>,
    buffer: Vec<u8>,
    /// Number of messages in the open unit of work, including messages that do not belong to the
    /// load test.
    in_unit: usize,
    unit: Unit,
    // Last, so that the queue is closed when the channel is.
    handed: Sender<Arrival>,
}

impl Drop for Getter<'_> {
    fn drop(&mut self) {
        self.connection.keep_buffer(std::mem::take(&mut self.buffer));
    }
}

impl Getter<'_> {
    fn run(&mut self, stop: &AtomicBool, abandoned: &AtomicBool) -> End {
        while !stop.load(Ordering::SeqCst) {
            // The connection ends, which backs out. A commit would remove what nobody counts.
            if abandoned.load(Ordering::SeqCst) {
                return End::Stopped;
            }
            match self.step() {
                Ok(None) => {}
                Ok(Some(end)) => return end,
                Err(refusal) => return End::Refused(refusal),
            }
        }
        self.commit().map_or_else(End::Refused, |()| End::Stopped)
    }

    /// Gets a message, sends it to the consumer, and commits the unit of work if it is full.
    /// Returns a reason if the job has to end; `None` if it goes on, even if no message came.
    fn step(&mut self) -> Result<Option<End>, Refusal> {
        let take = Take {
            options: mqi::MQGMO_SYNCPOINT,
            wait: MQLONG::try_from(LONGEST_WAIT.as_millis()).unwrap_or(MQLONG::MAX),
            ..Take::default()
        };
        let got = self.queue.get(&take, &self.properties, &mut self.buffer)?;
        let at = Instant::now();
        let (descriptor, bytes) = match got {
            Got::Nothing => return Ok(None),
            Got::TooLong { length } if length > crate::MOST_HELD => return Ok(Some(End::TooLong(length))),
            Got::TooLong { length } => {
                self.buffer.resize(length.max(self.buffer.len() * 2), 0);
                return Ok(None);
            }
            Got::Message { descriptor, length, .. } => (descriptor, length),
        };
        self.in_unit += 1;
        let properties = self.properties.read(MOST_PROPERTIES)?;
        let stamp = properties.and_then(|properties| stamp(&properties, &self.plan.test));
        if stamp.is_none() && self.plan.foreign == Foreign::Leave {
            return Ok(Some(End::Foreign));
        }
        self.unit.numbers().extend(stamp.map(|stamp| stamp.sequence));
        let arrival = Arrival { at, stamp, redelivered: descriptor.BackoutCount > 0, bytes };
        // If the consumer was dropped, its connection ends, which backs out.
        if self.handed.blocking_send(arrival).is_err() {
            return Ok(Some(End::Stopped));
        }
        if self.in_unit >= self.plan.unit {
            self.commit()?;
        }
        Ok(None)
    }

    /// Commits the open unit of work, if it contains messages.
    fn commit(&mut self) -> Result<(), Refusal> {
        if self.in_unit > 0 {
            self.connection.commit()?;
            self.in_unit = 0;
            self.unit.numbers().clear();
        }
        Ok(())
    }
}
