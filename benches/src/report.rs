//! The table.

use std::fmt::Write as _;

use crate::comparison::Client;
use crate::run::{Job, Run};

#[derive(Debug, Default)]
pub(crate) struct Results(Vec<(Job, Client, Run)>);

impl Results {
    pub(crate) fn add(&mut self, job: Job, client: Client, run: Run) {
        self.0.push((job, client, run));
    }

    fn median(&self, job: Job, client: Client, value: fn(Run) -> f64) -> f64 {
        let mut values: Vec<_> = self
            .0
            .iter()
            .filter(|(of_job, of_client, _)| (*of_job, *of_client) == (job, client))
            .map(|(_, _, run)| value(*run))
            .collect();
        median(&mut values)
    }
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.wrapping_sub(1)), at(middle)) }
}

/// The value below which this share of all values lies; the nearest one, without interpolation.
pub(crate) fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let below = (0..last).filter(|rank| part(*rank + 1, values.len()) < share).count();
    values.get(below).copied().unwrap_or(f64::NAN)
}

fn part(some: usize, all: usize) -> f64 {
    let count = |number: usize| u32::try_from(number).map_or(f64::INFINITY, f64::from);
    count(some) / count(all)
}

/// The least that our rate should be, as a multiple of another's.
const fn goal(job: Job, client: Client) -> Option<f64> {
    match (job, client) {
        (_, Client::Crate) => None,
        (_, Client::Lapin) => Some(0.9),
        (Job::Produce, Client::Pika) => Some(1.0),
        (Job::Produce, Client::AioPika) => Some(2.0),
        (Job::Consume, Client::Pika) => Some(1.5),
        (Job::Consume, Client::AioPika) => Some(4.0),
    }
}

pub(crate) fn table(results: &Results, messages: u32, rounds: u32) -> String {
    let mut text = format!(
        "{} messages of 1 KiB, persistent, a durable classic queue; medians of {rounds} rounds.\n{}, {}.\n\n\
         | | messages/s | CPU s | IntegraHub / it | goal |\n|---|---:|---:|---:|---:|\n",
        messages,
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
    );
    for job in Job::ALL {
        let ours = results.median(job, Client::Crate, Run::rate);
        for client in Client::ALL {
            let rate = results.median(job, client, Run::rate);
            let cpu = results.median(job, client, |run| run.cpu_seconds);
            let (ratio, goal) = match goal(job, client) {
                Some(goal) => (format!("{:.2}", ours / rate), format!("{goal}")),
                None => (String::new(), String::new()),
            };
            let name = client.name();
            let _ = writeln!(text, "| {}, {name} | {rate:.0} | {cpu:.2} | {ratio} | {goal} |", job.name());
        }
    }
    text
}

/// Describes the processor as the kernel does.
pub(crate) fn machine() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()))
        .unwrap_or("unknown processor");
    format!("{cpus} cores, {}, {model}", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::{median, percentile};

    #[test]
    fn medians_are_in_the_middle() {
        for (mut values, expected) in
            [(vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 3.0], 2.5)]
        {
            assert!((median(&mut values) - expected).abs() < f64::EPSILON);
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values = || (1..=20).rev().map(f64::from).collect::<Vec<_>>();
        for (share, expected) in [(0.5, 10.0), (0.95, 19.0), (1.0, 20.0)] {
            assert!((percentile(values(), share) - expected).abs() < f64::EPSILON, "{share}");
        }
        assert!(percentile(Vec::new(), 0.5).is_nan());
    }
}
