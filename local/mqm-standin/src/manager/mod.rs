//! The queue manager: what each verb does.

mod connect;
mod convert;
mod dynamic;
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

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::configuration::{Configuration, ConfigurationError};
use crate::protocol::{Answer, Connect, Reason, Reply, Request};
pub(crate) use dynamic::is_name;
pub(crate) use journal::Record;
pub(crate) use put::expires;
pub(crate) use queue::{Place, Queue, Search, Stored};
pub(crate) use session::Session;
pub(crate) use state::{Phase, SinceLimit, State};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the configuration cannot be used")]
    Configuration(#[from] ConfigurationError),
    #[error("the journal cannot be used")]
    Journal(#[from] std::io::Error),
}

#[derive(Debug)]
pub struct Manager {
    state: Mutex<State>,
}

/// Asks whether the caller of a waiting get has gone.
pub(crate) type HasGone<'a> = &'a dyn Fn() -> bool;

impl Manager {
    /// Starts with the queues of the configuration and what the journal kept.
    pub fn start(configuration: Configuration, journal: &Path) -> Result<Self, StartError> {
        Ok(Self { state: Mutex::new(restart::state(configuration, journal)?) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the new session and what its caller learns.
    pub(crate) fn connect(&self, request: &Connect) -> Result<(u64, Answer), Reason> {
        self.state().connect(request)
    }

    /// Ends a session; its unit of work is committed by MQDISC and backed out by a lost connection.
    pub(crate) fn disconnect(&self, session: u64, commit: bool) {
        let mut state = self.state();
        if commit {
            let _ = state.commit(session);
        }
        state.end(session);
    }

    /// Carries out a request of a session that is there.
    pub(crate) fn call(&self, session: u64, request: Request, has_gone: HasGone<'_>) -> Reply {
        match request {
            Request::Get(get) => self.get(session, &get, has_gone),
            Request::Put(put) => self.state().put(session, *put),
            Request::Open(open) => self.state().open(session, &open).map(Answer::Opened).into(),
            Request::Close { handle, options } => self.state().close(session, handle, options),
            Request::Inquire { handle, selectors } => self.state().inquire(session, handle, &selectors),
            Request::Set { handle, attributes } => self.state().set(session, handle, &attributes).into(),
            Request::Commit => self.state().commit(session).into(),
            Request::Back => self.state().back(session).into(),
            Request::Connect(_) => Reply::failed(libmqm_sys::MQRC_ALREADY_CONNECTED),
            Request::Disconnect => Reply::ok(Answer::None),
        }
    }
}
