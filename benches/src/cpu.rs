//! Processor time of this process and of others on this machine.

use std::time::{Duration, Instant};

use nix::time::ClockId;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// CPU clock of a process: user and system time of all its threads, also of ended ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu(ClockId);

impl Cpu {
    /// CPU clock of this process.
    pub(crate) const OWN: Self = Self(ClockId::CLOCK_PROCESS_CPUTIME_ID);

    pub(crate) fn of(pid: i32) -> Result<Self, Error> {
        Ok(Self(ClockId::pid_cpu_clock_id(Pid::from_raw(pid))?))
    }

    pub(crate) fn so_far(self) -> Result<Duration, Error> {
        Ok(self.0.now()?.into())
    }
}

/// Cost of a piece of work: elapsed time, and CPU time of the process that did it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Took {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
}

/// Stopwatch that measures elapsed time and CPU time of this process from its start.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    cpu: Duration,
    started: Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Result<Self, Error> {
        Ok(Self { cpu: Cpu::OWN.so_far()?, started: Instant::now() })
    }

    pub(crate) fn stop(&self) -> Result<Took, Error> {
        let seconds = self.started.elapsed().as_secs_f64();
        Ok(Took { seconds, cpu_seconds: Cpu::OWN.so_far()?.saturating_sub(self.cpu).as_secs_f64() })
    }
}
