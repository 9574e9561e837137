//! CPU time of this process.

use std::time::Instant;

use crate::error::Error;
use crate::run::Run;

/// Linux counts in these, whatever the kernel's own clock is.
const TICKS_PER_SECOND: f64 = 100.0;

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

/// The 14th and 15th fields of proc(5)'s `stat`; the second, a name in parentheses, may hold
/// spaces.
fn cpu_seconds() -> Result<f64, Error> {
    let unreadable = || Error::Unexpected("/proc/self/stat cannot be read".to_owned());
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(|_| unreadable())?;
    let (_, fields) = stat.rsplit_once(')').ok_or_else(unreadable)?;
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    if ticks.len() == 2 { Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND) } else { Err(unreadable()) }
}
