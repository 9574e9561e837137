//! Ctrl-C and its relatives.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Explain as _, Failure};

/// Registered once, so that no signal takes the program down before it has cleaned up.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// The kind of signal that asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    Interrupted,
    Terminated,
}

impl Signals {
    /// # Errors
    /// The system refuses.
    pub(crate) fn new() -> Result<Self, Failure> {
        let register = |kind| signal(kind).or_explain(|| "listen for Ctrl-C".into());
        Ok(Self {
            interrupt: register(SignalKind::interrupt())?,
            terminate: register(SignalKind::terminate())?,
            hang_up: register(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn wait(&mut self) -> Stopped {
        tokio::select! {
            _ = self.interrupt.recv() => Stopped::Interrupted,
            _ = self.terminate.recv() => Stopped::Terminated,
            _ = self.hang_up.recv() => Stopped::Terminated,
        }
    }
}

impl From<Stopped> for ExitCode {
    /// Returns the code with which a shell reports the signal.
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Interrupted => Self::from(130),
            Stopped::Terminated => Self::from(143),
        }
    }
}
