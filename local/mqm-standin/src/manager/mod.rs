//! Queue manager of the stand-in: its state, its journal, and the calls of the MQI.

mod connect;
mod convert;
mod get;
mod inquire;
mod journal;
mod open;
mod put;
mod queue;
mod restart;
mod session;
mod state;
mod unit;

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libmqm_sys as mq;

use crate::configuration::Configuration;
use crate::protocol::{Reason, Reply, Request, done};
pub(crate) use queue::Queue;
pub(crate) use session::Session;
pub(crate) use state::{Phase, SinceLimit, State};

#[derive(Debug)]
pub struct Manager {
    state: Mutex<State>,
}

/// Function that returns true if the caller of a waiting get has disconnected.
pub(crate) type HasGone<'a> = &'a dyn Fn() -> bool;

impl Manager {
    /// Starts the queue manager with the configuration's queues and the journal's content.
    ///
    /// # Errors
    /// If the journal cannot be used.
    pub fn start(configuration: Configuration, journal: &Path) -> io::Result<Self> {
        Ok(Self { state: Mutex::new(restart::state(configuration, journal)?) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a request from a connection. A connect stores the number of the new session in
    /// `session`, and a disconnect removes it.
    pub(crate) fn call(&self, session: &mut Option<u64>, request: Request, has_gone: HasGone<'_>) -> Reply {
        let Some(number) = *session else {
            let Request::Connect(connect) = request else { return Err(Reason(mq::MQRC_HCONN_ERROR)) };
            let (number, answer) = self.state().connect(&connect)?;
            *session = Some(number);
            return done(answer);
        };
        match request {
            Request::Get(get) => self.get(number, &get, has_gone),
            Request::Put(put) => self.state().put(number, *put),
            Request::Open(open) => self.state().open(number, &open),
            Request::Close { handle, options } => self.state().close(number, handle, options),
            Request::Inquire { handle, selectors } => self.state().inquire(number, handle, &selectors),
            Request::Commit => self.state().commit(number),
            Request::Back => self.state().back(number),
            Request::Connect(_) => Err(Reason(mq::MQRC_ALREADY_CONNECTED)),
            Request::Disconnect => {
                *session = None;
                let mut state = self.state();
                let committed = state.commit(number);
                state.end(number);
                committed
            }
        }
    }
}
