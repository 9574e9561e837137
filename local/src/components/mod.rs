//! The programs that the stack consists of, one file each.

pub(crate) mod epmd;
pub(crate) mod kafka;
pub(crate) mod ministack;
pub(crate) mod postgres;
pub(crate) mod queue_manager;
pub(crate) mod rabbitmq;

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::Command;

use crate::failure::Failure;
use crate::layout::Layout;

/// Sign that a component can be used.
#[derive(Clone, Debug)]
pub(crate) enum Ready {
    /// Something listens on this port of 127.0.0.1.
    Listens(u16),
    /// This URL answers with success.
    Answers(String),
    /// Something listens at this socket.
    Accepts(PathBuf),
    /// The PostgreSQL server of this URL takes connections and answers.
    Connects(String),
}

/// A program that the supervisor runs. It must stay in the foreground, keep its files in its own
/// directory under
/// [`Layout::data`] and listen on 127.0.0.1 only.
pub(crate) trait Component: Debug + Send + Sync {
    /// Also the name of its log and pid file.
    fn name(&self) -> &'static str;

    /// Prepares its directory and says how to start it, with an environment of its own.
    ///
    /// # Errors
    /// The directory cannot be prepared.
    fn command(&self, layout: &Layout) -> Result<Command, Failure>;

    fn ready(&self) -> Ready;

    /// Returns the usual time of a start, for people.
    fn usual(&self) -> &'static str;

    /// Returns the signal that makes the component end in an orderly way, and soon.
    fn stop_signal(&self) -> Signal {
        Signal::SIGTERM
    }

    /// Returns the time after which waiting is given up.
    fn patience(&self) -> Duration {
        Duration::from_secs(240)
    }
}
