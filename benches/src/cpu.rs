//! CPU time of this process.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::error::Error;
use crate::run::Run;

/// Measures from its making on.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    started: Instant,
    cpu: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Result<Self, Error> {
        Ok(Self { cpu: cpu_seconds()?, started: Instant::now() })
    }

    pub(crate) fn stop(&self, messages: u32) -> Result<Run, Error> {
        let seconds = self.started.elapsed().as_secs_f64();
        Ok(Run { messages, seconds, cpu_seconds: cpu_seconds()? - self.cpu })
    }
}

/// User and system time of this process, all threads together.
fn cpu_seconds() -> Result<f64, Error> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(std::io::Error::from)?;
    let seconds = |time: TimeVal| {
        let part = |number: i64| u32::try_from(number).map_or(f64::INFINITY, f64::from);
        part(time.tv_sec()) + part(time.tv_usec()) / 1e6
    };
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
