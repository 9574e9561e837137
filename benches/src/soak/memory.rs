//! The memory of every function's processes over time.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::time::Instant;

/// Resident memory of a function's largest process: pairs of seconds since the start and MB.
type Samples = Vec<(f64, f64)>;

#[derive(Debug)]
pub(super) struct Memory {
    /// Environment variable, as `NAME=value`, that all processes of this stack have.
    mark: String,
    begin: Instant,
    functions: BTreeMap<String, Samples>,
}

/// Change of a function's memory after the warm-up, in MB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Course {
    pub(super) first: f64,
    pub(super) last: f64,
    pub(super) peak: f64,
    /// Growth of memory between the first and the last sample, along the line fitted to all
    /// samples.
    pub(super) growth: f64,
}

/// Maximum growth of a function's memory in MB. Allocators keep a little more memory with every new
/// largest request. [`MOST_SHARE`] permits more if it is larger.
const MOST_MB: f64 = 10.0;
/// Maximum growth of a function's memory as a share of its first value, if that is more than
/// [`MOST_MB`].
const MOST_SHARE: f64 = 0.1;

impl Memory {
    pub(super) fn of_functions_at(endpoint: &str) -> Self {
        let mark = format!("AWS_ENDPOINT_URL={endpoint}");
        Self { mark, begin: Instant::now(), functions: BTreeMap::new() }
    }

    pub(super) fn sample(&mut self) {
        let mut now: BTreeMap<String, f64> = BTreeMap::new();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            if let Some((function, memory)) = self.function(&process.path()) {
                let largest = now.entry(function).or_default();
                *largest = largest.max(memory);
            }
        }
        let at = self.begin.elapsed().as_secs_f64();
        for (function, memory) in now {
            self.functions.entry(function).or_default().push((at, memory));
        }
    }

    /// Returns the function that a process runs, and its resident memory in MB. Returns `None` if
    /// the process is none of this stack's functions, or has just ended.
    fn function(&self, process: &Path) -> Option<(String, f64)> {
        let environment = std::fs::read(process.join("environ")).ok()?;
        let environment = String::from_utf8_lossy(&environment);
        let mut variables = environment.split('\0');
        variables.clone().find(|variable| *variable == self.mark)?;
        let name = variables.find_map(|variable| variable.strip_prefix("AWS_LAMBDA_FUNCTION_NAME="))?;
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: f64 = resident.trim().trim_end_matches(" kB").trim().parse().ok()?;
        Some((short(name), kilobytes / 1024.0))
    }

    /// Returns how the memory of each function changed, from `from` seconds after the start.
    pub(super) fn courses(&self, from: f64) -> Vec<(&str, Course)> {
        let courses = self.functions.iter().filter_map(|(function, samples)| {
            let after: Samples = samples.iter().copied().filter(|(at, _)| *at >= from).collect();
            Some((function.as_str(), Course::of(&after)?))
        });
        courses.collect()
    }
}

impl Course {
    fn of(samples: &[(f64, f64)]) -> Option<Self> {
        let (&(begin, first), &(end, last)) = (samples.first()?, samples.last()?);
        let count = f64::from(u32::try_from(samples.len()).ok()?);
        let mean = |value: fn(&(f64, f64)) -> f64| samples.iter().map(value).sum::<f64>() / count;
        let (time, memory) = (mean(|sample| sample.0), mean(|sample| sample.1));
        let (mut together, mut alone) = (0.0, 0.0);
        for (at, value) in samples {
            together += (at - time) * (value - memory);
            alone += (at - time) * (at - time);
        }
        let slope = if alone > 0.0 { together / alone } else { 0.0 };
        let peak = samples.iter().map(|sample| sample.1).fold(0.0, f64::max);
        Some(Self { first, last, peak, growth: slope * (end - begin) })
    }

    pub(super) fn grows(self) -> bool {
        self.growth > MOST_MB.max(MOST_SHARE * self.first)
    }
}

/// Returns the logical id of a function from its physical name, without the stack's name and
/// CloudFormation's suffix.
fn short(name: &str) -> String {
    let name = name.strip_prefix("integrahub-").unwrap_or(name);
    name.split('-').next().unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(memory: impl Fn(f64) -> f64) -> Course {
        let samples: Samples = (0..100_u32).map(|at| (f64::from(at), memory(f64::from(at)))).collect();
        Course::of(&samples).unwrap()
    }

    #[test]
    fn a_leak_grows_and_a_plateau_with_peaks_does_not() {
        assert!(course(|at| 40.0 + 0.2 * at).grows());
        assert!(!course(|_| 40.0).grows());
        assert!(!course(|at| if at % 10.0 < 1.0 { 90.0 } else { 40.0 }).grows());
        let leak = course(|at| 40.0 + 0.2 * at);
        assert!((leak.growth - 0.2 * 99.0).abs() < 0.001, "{leak:?}");
    }
}
