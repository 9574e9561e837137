//! Resources that simulated jobs share: a processor, and resources with a rate per second.

use crate::answer::count;
use crate::timeline::Timeline;

/// Simulated processor whose cores all running jobs share equally. A job uses at most one core.
#[derive(Debug)]
pub(crate) struct Processor<T> {
    pub(crate) cores: f64,
    /// CPU seconds that one job would have received by the simulated time `at` if it had run since
    /// the simulation began.
    served: f64,
    at: f64,
    /// Running jobs, ordered by the value of `served` at which each will be done.
    running: Timeline<T>,
    /// CPU seconds that all jobs together have received so far.
    pub(crate) used: f64,
}

impl<T> Processor<T> {
    pub(crate) fn new(cores: f64) -> Self {
        Self { cores, served: 0.0, at: 0.0, running: Timeline::default(), used: 0.0 }
    }

    /// Starts a job that needs `cpu` seconds of one core. `now` is the simulated time in seconds.
    pub(crate) fn submit(&mut self, now: f64, cpu: f64, job: T) {
        self.advance(now);
        self.running.push(self.served + cpu, job);
    }

    /// Returns the time in simulated seconds at which the next job is done, if no other job starts
    /// before; `None` if no job runs.
    pub(crate) fn next(&self) -> Option<f64> {
        let left = self.running.first()? - self.served;
        Some(self.at + left.max(0.0) / self.pace())
    }

    /// Removes the job that is done at the time `now`, and returns it; `None` if no job runs.
    pub(crate) fn finish(&mut self, now: f64) -> Option<T> {
        self.advance(now);
        let (served, job) = self.running.pop()?;
        self.served = self.served.max(served);
        Some(job)
    }

    /// Returns the share of a core that each running job receives.
    fn pace(&self) -> f64 {
        (self.cores / count(self.running.len())).min(1.0)
    }

    fn advance(&mut self, now: f64) {
        let passed = now - self.at;
        self.at = now;
        if self.running.len() > 0 {
            self.served += passed * self.pace();
            self.used += passed * self.cores.min(count(self.running.len()));
        }
    }
}

/// Simulated resource of which a fixed amount per second is available, after an initial burst. Jobs
/// are served in the order in which they come.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    burst: f64,
    free_at: f64,
    pub(crate) used: f64,
}

impl Rate {
    pub(crate) const fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, free_at: f64::NEG_INFINITY, used: 0.0 }
    }

    /// Reserves an amount of the resource, and returns the seconds from `now` until all of it is
    /// available.
    pub(crate) fn take(&mut self, now: f64, amount: f64) -> f64 {
        self.used += amount;
        self.free_at = self.free_at.max(now - self.burst / self.per_second) + amount / self.per_second;
        (self.free_at - now).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks processor sharing against its closed form (M/G/1-PS): a job takes `work / (1 - load)`
    /// on average, for any distribution of the work. With many cores for the same load, it takes
    /// `work`.
    #[test]
    fn a_shared_processor_takes_as_long_as_the_closed_form_says() {
        for (cores, load, expected) in [(1.0, 0.5, 2.0), (1.0, 0.8, 5.0), (8.0, 0.5, 1.0)] {
            let (mut random, mut arrival) = (fastrand::Rng::with_seed(7), 0.0);
            let mut processor = Processor::new(cores);
            let (mut sum, mut done) = (0.0, 0_u32);
            while done < 200_000 {
                match processor.next() {
                    Some(end) if end <= arrival => {
                        sum += end - processor.finish(end).unwrap();
                        done += 1;
                    }
                    _ => {
                        processor.submit(arrival, 1.0, arrival);
                        arrival -= (1.0 - random.f64()).ln() / load;
                    }
                }
            }
            let mean = sum / f64::from(done);
            assert!((mean / expected - 1.0).abs() < 0.05, "{cores} cores, load {load}: {mean}");
        }
    }

    #[test]
    fn a_rate_lets_its_burst_through_at_once() {
        let mut rate = Rate::new(10.0, 5.0);
        let waits: Vec<_> = (0..25).map(|_| rate.take(1.0, 1.0)).collect();
        assert!(waits[..5].iter().all(|wait| *wait < 1e-9), "{waits:?}");
        assert!((waits[24] - 2.0).abs() < 1e-9, "{waits:?}");
    }
}
