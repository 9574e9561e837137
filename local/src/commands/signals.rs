//! Signals that stop the program, such as that of Ctrl-C.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Explain as _, Failure};

/// Listener for the signals that stop the program. It is registered once, so that no signal ends
/// the program before it has cleaned up.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// Exit code by which a shell reports that SIGINT ended a program.
const INTERRUPTED: u8 = 130;
/// Exit code by which a shell reports that SIGTERM ended a program.
const TERMINATED: u8 = 143;

impl Signals {
    /// Registers the signals that end the program.
    pub(crate) fn new() -> Result<Self, Failure> {
        let register = |kind| signal(kind).or_explain(|| "listen for Ctrl-C".into());
        Ok(Self {
            interrupt: register(SignalKind::interrupt())?,
            terminate: register(SignalKind::terminate())?,
            hang_up: register(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal that stops the program, and returns the exit code for it.
    pub(crate) async fn wait(&mut self) -> ExitCode {
        tokio::select! {
            _ = self.interrupt.recv() => ExitCode::from(INTERRUPTED),
            _ = self.terminate.recv() => ExitCode::from(TERMINATED),
            _ = self.hang_up.recv() => ExitCode::from(TERMINATED),
        }
    }
}
