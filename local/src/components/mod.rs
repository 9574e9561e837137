//! The programs that the stack consists of, one file each.

pub(crate) mod kafka;
pub(crate) mod ministack;
pub(crate) mod postgres;
pub(crate) mod queue_manager;
pub(crate) mod rabbitmq;

use std::path::PathBuf;

use nix::sys::signal::Signal;
use tokio::process::Command;

/// Sign that a component can be used.
#[derive(Clone, Debug)]
pub(crate) enum Ready {
    /// The component is ready when a server listens on this port of 127.0.0.1.
    Listens(u16),
    /// The component is ready when a request to this URL succeeds.
    Answers(String),
    /// The component is ready when a server listens at this Unix socket.
    Accepts(PathBuf),
    /// The PostgreSQL server of this URL takes connections and answers.
    Connects(String),
}

/// A program that the supervisor runs. It must stay in the foreground, keep its files in its own
/// directory under [`Layout::data`] and listen on 127.0.0.1 only.
///
/// [`Layout::data`]: crate::layout::Layout::data
#[derive(Debug)]
pub(crate) struct Component {
    /// The name, also of the log.
    pub(crate) name: &'static str,
    /// Command that starts the component, with an environment of its own.
    pub(crate) command: Command,
    pub(crate) ready: Ready,
    /// Usual duration of the component's start, for people.
    pub(crate) usual: &'static str,
    /// The signal that makes the component end in an orderly way, and soon.
    pub(crate) stop_signal: Signal,
}

impl Component {
    /// A component that ends at SIGTERM.
    fn new(name: &'static str, command: Command, ready: Ready, usual: &'static str) -> Self {
        Self { name, command, ready, usual, stop_signal: Signal::SIGTERM }
    }
}
