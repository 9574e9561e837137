//! Asynchronous consumption: the callbacks of a connection, and whether they are called. MQCTL
//! starts a thread that asks each consumer's queue in turn.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use libmqm_sys as mq;
use mqm_standin::protocol::Reason;

/// The rest of a connection after all its consumers had no message.
const REST: Duration = Duration::from_millis(20);

/// Callbacks of the kind `C`, by the object handle that they belong to. The event handler has
/// MQHO_NONE.
#[derive(Debug)]
pub(crate) struct Consumption<C> {
    state: Mutex<State<C>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<C> {
    mode: Mode,
    /// A thread calls the callbacks, or is about to.
    is_running: bool,
    caller: Option<ThreadId>,
    is_calling: bool,
    callbacks: BTreeMap<i32, Registered<C>>,
    /// The handle whose turn was last, and the number of turns in a row without a message.
    last: i32,
    in_vain: usize,
    registrations: u64,
    /// Open objects and the options of their MQOPEN.
    objects: BTreeMap<i32, i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Stopped,
    Started,
    Suspended,
}

#[derive(Debug)]
struct Registered<C> {
    callback: C,
    progress: Progress,
    is_suspended: bool,
    registration: u64,
}

/// The progress of a consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The time of its last call, or of its registration.
    pub(crate) since: Instant,
    /// The reason that it was told last without a message. It is told once.
    pub(crate) told: Option<i32>,
    pub(crate) has_browsed: bool,
}

/// The outcome of a consumer's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Delivered,
    Nothing,
    /// The consumer cannot go on until it is registered anew.
    Suspend,
    /// The connection is of no use any more.
    Stop,
}

/// A consumer whose turn it is.
#[derive(Debug)]
pub(crate) struct Turn<C> {
    pub(crate) handle: i32,
    pub(crate) callback: C,
    pub(crate) progress: Progress,
    registration: u64,
}

impl<C> Default for Consumption<C> {
    fn default() -> Self {
        let state = State {
            mode: Mode::Stopped,
            is_running: false,
            caller: None,
            is_calling: false,
            callbacks: BTreeMap::new(),
            last: mq::MQHO_NONE,
            in_vain: 0,
            registrations: 0,
            objects: BTreeMap::new(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<C: Clone> Consumption<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the current thread calls the callbacks.
    pub(crate) fn is_caller(&self) -> bool {
        self.state().is_caller()
    }

    /// Refuses other threads than the one that calls the callbacks while the connection is started.
    pub(crate) fn admit(&self) -> Result<(), Reason> {
        let state = self.state();
        let is_taken = state.mode == Mode::Started && !state.is_caller();
        if is_taken { Err(Reason(mq::MQRC_HCONN_ASYNC_ACTIVE)) } else { Ok(()) }
    }

    pub(crate) fn opened(&self, handle: i32, options: i32) {
        self.state().objects.insert(handle, options);
    }

    /// Forgets an object, and returns its callback if it has one.
    pub(super) fn forget(&self, handle: i32) -> Option<C> {
        let mut state = self.state();
        state.objects.remove(&handle);
        state.callbacks.remove(&handle).map(|registered| registered.callback)
    }

    /// Registers a message consumer, or the event handler with MQHO_NONE, or replaces it.
    pub(super) fn register(&self, handle: i32, callback: C) -> Result<(), Reason> {
        let mut state = self.state();
        if handle != mq::MQHO_NONE {
            let readable =
                mq::MQOO_INPUT_AS_Q_DEF | mq::MQOO_INPUT_SHARED | mq::MQOO_INPUT_EXCLUSIVE | mq::MQOO_BROWSE;
            let options = state.objects.get(&handle).ok_or(Reason(mq::MQRC_HOBJ_ERROR))?;
            if options & readable == 0 {
                return Err(Reason(mq::MQRC_NOT_OPEN_FOR_INPUT));
            }
        }
        state.registrations += 1;
        let registration = state.registrations;
        let progress = Progress { since: Instant::now(), told: None, has_browsed: false };
        let registered = Registered { callback, progress, is_suspended: false, registration };
        state.callbacks.insert(handle, registered);
        self.changed.notify_all();
        Ok(())
    }

    pub(super) fn deregister(&self, handle: i32) -> Result<C, Reason> {
        let removed = self.state().callbacks.remove(&handle);
        removed.map(|registered| registered.callback).ok_or(Reason(mq::MQRC_CALLBACK_NOT_REGISTERED))
    }

    /// All callbacks with their handles, the event handler first.
    pub(super) fn callbacks(&self) -> Vec<(i32, C)> {
        let state = self.state();
        state.callbacks.iter().map(|(handle, registered)| (*handle, registered.callback.clone())).collect()
    }

    /// Starts. If this returns `true`, a thread has to [`Self::enter`].
    pub(super) fn start(&self) -> Result<bool, Reason> {
        let mut state = self.state();
        if state.mode == Mode::Suspended {
            return Err(Reason(mq::MQRC_OPERATION_NOT_ALLOWED));
        }
        state.mode = Mode::Started;
        for registered in state.callbacks.values_mut() {
            registered.progress.since = Instant::now();
        }
        self.changed.notify_all();
        Ok(!std::mem::replace(&mut state.is_running, true))
    }

    pub(super) fn suspend(&self) -> Result<(), Reason> {
        self.set(Mode::Suspended)
    }

    pub(super) fn resume(&self) -> Result<(), Reason> {
        self.set(Mode::Started)
    }

    fn set(&self, mode: Mode) -> Result<(), Reason> {
        let mut state = self.state();
        if state.mode == Mode::Stopped {
            return Err(Reason(mq::MQRC_OPERATION_NOT_ALLOWED));
        }
        state.mode = mode;
        self.wait(state, |state| state.mode != Mode::Started && state.is_calling);
        Ok(())
    }

    /// Stops. Unless a callback asks for it, the last call has ended when this returns.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.mode = Mode::Stopped;
        self.wait(state, |state| state.is_running && state.mode == Mode::Stopped);
    }

    /// Tells the thread that calls of a change, and waits for it, unless this is that thread.
    fn wait(&self, state: MutexGuard<'_, State<C>>, is_busy: impl Fn(&State<C>) -> bool) {
        self.changed.notify_all();
        if !state.is_caller() {
            drop(self.changed.wait_while(state, |state| is_busy(state)));
        }
    }

    /// Makes this thread the one that calls the callbacks.
    pub(super) fn enter(&self) {
        self.state().caller = Some(std::thread::current().id());
    }

    /// Waits for the next consumer's turn; `None` once consumption is stopped.
    pub(super) fn next(&self) -> Option<Turn<C>> {
        let mut state = self.state();
        while state.mode != Mode::Stopped {
            if state.mode == Mode::Started && state.in_vain < state.consumers().count() {
                let behind = state.consumers().find(|handle| *handle > state.last);
                let handle = behind.or_else(|| state.consumers().next());
                if let Some((handle, registered)) = handle.and_then(|at| state.callbacks.get_key_value(&at)) {
                    let turn = Turn {
                        handle: *handle,
                        callback: registered.callback.clone(),
                        progress: registered.progress,
                        registration: registered.registration,
                    };
                    (state.last, state.is_calling) = (turn.handle, true);
                    return Some(turn);
                }
            }
            let rested = self.changed.wait_timeout(state, REST);
            state = rested.unwrap_or_else(PoisonError::into_inner).0;
            state.in_vain = 0;
        }
        None
    }

    /// Ends the calls of this thread, unless consumption was started again meanwhile.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.state();
        if state.mode != Mode::Stopped {
            return false;
        }
        (state.caller, state.is_running) = (None, false);
        self.changed.notify_all();
        true
    }

    /// Ends a turn. Changes that the callback itself made meanwhile stay.
    pub(super) fn end(&self, turn: &Turn<C>, progress: Progress, outcome: Outcome) {
        let mut state = self.state();
        state.is_calling = false;
        state.in_vain = if outcome == Outcome::Nothing { state.in_vain + 1 } else { 0 };
        if let Some(registered) = state.callbacks.get_mut(&turn.handle)
            && registered.registration == turn.registration
        {
            registered.progress = progress;
            registered.is_suspended |= outcome == Outcome::Suspend;
        }
        if outcome == Outcome::Stop {
            state.mode = Mode::Stopped;
        }
        self.changed.notify_all();
    }
}

impl<C> State<C> {
    fn is_caller(&self) -> bool {
        self.caller == Some(std::thread::current().id())
    }

    fn consumers(&self) -> impl Iterator<Item = i32> {
        let active = self.callbacks.iter().filter(|(_, registered)| !registered.is_suspended);
        active.map(|(handle, _)| *handle).filter(|handle| *handle != mq::MQHO_NONE)
    }
}
