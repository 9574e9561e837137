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

/// How long a connection rests after all its consumers had no message.
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
    /// The handle whose turn was last, and how many had no message in a row.
    last: i32,
    in_vain: usize,
    registrations: u64,
    /// Open objects and the options of their MQOPEN.
    objects: BTreeMap<i32, i32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
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

/// What a consumer has been told so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// When it was called last, or registered.
    pub(crate) since: Instant,
    /// The reason that it was told last without a message. It is told once.
    pub(crate) told: Option<i32>,
    pub(crate) has_browsed: bool,
}

/// What came of a consumer's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Delivered,
    Nothing,
    /// It cannot go on until MQCB resumes it.
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

/// Why the calls have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Stopped,
    Suspended,
    NoCallbacks,
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

    /// Whether this thread calls the callbacks.
    pub(crate) fn is_caller(&self) -> bool {
        self.state().is_caller()
    }

    /// A started connection belongs to the thread that calls the callbacks.
    pub(crate) fn admit(&self) -> Result<(), Reason> {
        let state = self.state();
        let is_taken = state.mode == Mode::Started && !state.is_caller();
        if is_taken { Err(Reason(mq::MQRC_HCONN_ASYNC_ACTIVE)) } else { Ok(()) }
    }

    pub(crate) fn opened(&self, handle: i32, options: i32) {
        self.state().objects.insert(handle, options);
    }

    /// Forgets an object. Its callback, if it has one, is deregistered.
    pub(crate) fn closed(&self, handle: i32) -> Option<C> {
        let mut state = self.state();
        state.objects.remove(&handle);
        state.callbacks.remove(&handle).map(|registered| registered.callback)
    }

    /// Registers a message consumer, or replaces it.
    pub(crate) fn register(&self, handle: i32, callback: C, is_suspended: bool) -> Result<(), Reason> {
        let options = self.state().objects.get(&handle).copied().ok_or(Reason(mq::MQRC_HOBJ_ERROR))?;
        let readable =
            mq::MQOO_INPUT_AS_Q_DEF | mq::MQOO_INPUT_SHARED | mq::MQOO_INPUT_EXCLUSIVE | mq::MQOO_BROWSE;
        if options & readable == 0 {
            return Err(Reason(mq::MQRC_NOT_OPEN_FOR_INPUT));
        }
        self.insert(handle, callback, is_suspended);
        Ok(())
    }

    /// Registers the event handler, or replaces it.
    pub(crate) fn handle_events(&self, callback: C) {
        self.insert(mq::MQHO_NONE, callback, false);
    }

    fn insert(&self, handle: i32, callback: C, is_suspended: bool) {
        let mut state = self.state();
        state.registrations += 1;
        let registration = state.registrations;
        let progress = Progress { since: Instant::now(), told: None, has_browsed: false };
        state.callbacks.insert(handle, Registered { callback, progress, is_suspended, registration });
        self.changed.notify_all();
    }

    pub(crate) fn deregister(&self, handle: i32) -> Result<C, Reason> {
        let removed = self.state().callbacks.remove(&handle);
        removed.map(|registered| registered.callback).ok_or(Reason(mq::MQRC_CALLBACK_NOT_REGISTERED))
    }

    /// Suspends or resumes one consumer.
    pub(crate) fn pause(&self, handle: i32, is_suspended: bool) -> Result<(), Reason> {
        let mut state = self.state();
        let registered = state.callbacks.get_mut(&handle);
        let registered = registered.ok_or(Reason(mq::MQRC_CALLBACK_NOT_REGISTERED))?;
        registered.is_suspended = is_suspended;
        registered.progress = Progress { since: Instant::now(), told: None, ..registered.progress };
        self.changed.notify_all();
        Ok(())
    }

    pub(crate) fn event_handler(&self) -> Option<C> {
        self.state().callbacks.get(&mq::MQHO_NONE).map(|registered| registered.callback.clone())
    }

    /// All callbacks with their handles.
    pub(crate) fn callbacks(&self) -> Vec<(i32, C)> {
        let state = self.state();
        state.callbacks.iter().map(|(handle, registered)| (*handle, registered.callback.clone())).collect()
    }

    /// Starts. If this returns `true`, a thread has to [`Self::enter`].
    pub(crate) fn start(&self) -> Result<bool, Reason> {
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

    /// Whether it was started already.
    pub(crate) fn is_started(&self) -> bool {
        self.state().mode == Mode::Started
    }

    pub(crate) fn suspend(&self) -> Result<(), Reason> {
        self.set(Mode::Suspended)
    }

    pub(crate) fn resume(&self) -> Result<(), Reason> {
        self.set(Mode::Started)
    }

    fn set(&self, mode: Mode) -> Result<(), Reason> {
        let mut state = self.state();
        if state.mode == Mode::Stopped {
            return Err(Reason(mq::MQRC_OPERATION_NOT_ALLOWED));
        }
        state.mode = mode;
        self.changed.notify_all();
        drop(self.quiet(state, |state| state.mode == Mode::Started || !state.is_calling));
        Ok(())
    }

    /// Stops. Unless a callback asks for it, the last call has ended when this returns.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.mode = Mode::Stopped;
        self.changed.notify_all();
        drop(self.quiet(state, |state| !state.is_running || state.mode != Mode::Stopped));
    }

    /// Waits, unless this is the thread that calls.
    fn quiet<'a>(
        &self,
        state: MutexGuard<'a, State<C>>,
        is_quiet: impl Fn(&State<C>) -> bool,
    ) -> MutexGuard<'a, State<C>> {
        if state.is_caller() {
            return state;
        }
        let waited = self.changed.wait_while(state, |state| !is_quiet(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread calls the callbacks from now on.
    pub(crate) fn enter(&self) {
        self.state().caller = Some(std::thread::current().id());
    }

    /// Waits for the next consumer's turn, until consumption is stopped. `stays` says whether it
    /// also waits while all of it is suspended, or nothing is registered.
    pub(crate) fn next(&self, stays: bool) -> Result<Turn<C>, Ended> {
        let mut state = self.state();
        loop {
            let ended = match state.mode {
                Mode::Stopped => Some(Ended::Stopped),
                Mode::Suspended if !stays => Some(Ended::Suspended),
                Mode::Started if !stays && state.callbacks.is_empty() => Some(Ended::NoCallbacks),
                Mode::Suspended | Mode::Started => None,
            };
            if let Some(ended) = ended {
                return Err(ended);
            }
            if state.mode == Mode::Started && state.in_vain < state.consumers().count() {
                let next = state.consumers().find(|handle| *handle > state.last);
                if let Some(handle) = next.or_else(|| state.consumers().next())
                    && let Some(registered) = state.callbacks.get(&handle)
                {
                    let turn = Turn {
                        handle,
                        callback: registered.callback.clone(),
                        progress: registered.progress,
                        registration: registered.registration,
                    };
                    state.last = handle;
                    state.is_calling = true;
                    return Ok(turn);
                }
            }
            let rested = self.changed.wait_timeout(state, REST);
            state = rested.unwrap_or_else(PoisonError::into_inner).0;
            state.in_vain = 0;
        }
    }

    /// This thread calls no more callbacks, unless consumption was started again meanwhile.
    pub(crate) fn leave(&self, ended: Ended) -> bool {
        let mut state = self.state();
        if ended == Ended::Stopped && state.mode != Mode::Stopped {
            return false;
        }
        state.mode = Mode::Stopped;
        state.caller = None;
        state.is_running = false;
        self.changed.notify_all();
        true
    }

    /// Ends a turn. What the callback itself changed meanwhile stays.
    pub(crate) fn end(&self, turn: &Turn<C>, progress: Progress, outcome: Outcome) {
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
        let active = self
            .callbacks
            .iter()
            .filter(|(handle, registered)| **handle != mq::MQHO_NONE && !registered.is_suspended);
        active.map(|(handle, _)| *handle)
    }
}
