//! Components: the programs that the local stack consists of, one file each.

pub(crate) mod kafka;
pub(crate) mod ministack;
pub(crate) mod postgres;
pub(crate) mod queue_manager;
pub(crate) mod rabbitmq;

use std::path::PathBuf;

use nix::sys::signal::Signal;
use tokio::process::Command;

/// Condition under which a component counts as started.
#[derive(Clone, Debug)]
pub(crate) enum Ready {
    /// The component is ready when a server listens on this port of 127.0.0.1.
    Listens(u16),
    /// The component is ready when a request to this URL succeeds.
    Answers(String),
    /// The component is ready when a server listens at this Unix socket.
    Accepts(PathBuf),
    /// The component is ready when the PostgreSQL server at this URL answers a query.
    Connects(String),
}

/// Program that the supervisor runs. It must stay in the foreground, keep its files in its own
/// directory under [`Layout::data`] and listen on 127.0.0.1 only.
///
/// [`Layout::data`]: crate::layout::Layout::data
#[derive(Debug)]
pub(crate) struct Component {
    /// Name of the component, and of its log file.
    pub(crate) name: &'static str,
    /// Command that starts the component, with an environment of its own.
    pub(crate) command: Command,
    pub(crate) ready: Ready,
    /// Usual duration of the component's start, for people.
    pub(crate) usual: &'static str,
    /// Signal that makes the component end cleanly and quickly.
    pub(crate) stop_signal: Signal,
}

impl Component {
    /// Creates a component that SIGTERM stops.
    fn new(name: &'static str, command: Command, ready: Ready, usual: &'static str) -> Self {
        Self { name, command, ready, usual, stop_signal: Signal::SIGTERM }
    }
}
