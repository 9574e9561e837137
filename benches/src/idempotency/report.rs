//! The table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::contender::Who;
use super::task::Job;
use crate::report::{machine, median};

/// Our CPU time should be at most this part of Powertools'.
const GOAL: f64 = 0.2;

/// A block of requests.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) who: Who,
    pub(crate) job: Job,
    pub(crate) requests: usize,
    /// CPU time of all requests together.
    pub(crate) cpu: Duration,
    pub(crate) calls: BTreeMap<String, usize>,
    /// Bytes of the calls' bodies.
    pub(crate) bytes: usize,
}

pub(crate) fn micros(cpu: Duration, requests: usize) -> f64 {
    cpu.as_secs_f64() * 1e6 / count(requests)
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

pub(super) fn report(measured: &[Measured], rounds: u32, requests: usize) -> String {
    let mut text = format!(
        "A request of 1 KiB, a response of 300 B; medians of {rounds} blocks of {requests} requests.\n{}, {}.\n\n\
         | | IntegraHub: calls | sent, B | CPU µs | Powertools: calls | sent, B | CPU µs | CPU of IntegraHub / Powertools | goal |\n\
         |---|---|---:|---:|---|---:|---:|---:|---:|\n",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
    );
    for job in Job::ALL {
        let blocks = |who: Who| measured.iter().filter(move |one| (one.who, one.job) == (who, job));
        let cpu = |who| median(&mut blocks(who).map(|one| micros(one.cpu, one.requests)).collect::<Vec<_>>());
        let bytes = |who| {
            median(&mut blocks(who).map(|one| count(one.bytes) / count(one.requests)).collect::<Vec<_>>())
        };
        let [ours, theirs] = Who::ALL.map(cpu);
        let [sent, they_sent] = Who::ALL.map(bytes);
        let _ = writeln!(
            text,
            "| {} | {} | {sent:.0} | {ours:.0} | {} | {they_sent:.0} | {theirs:.0} | {:.3} | {} |",
            job.name(),
            calls(blocks(Who::Ours)),
            calls(blocks(Who::Powertools)),
            ours / theirs,
            if job == Job::Conflict { String::new() } else { GOAL.to_string() },
        );
    }
    text
}

/// A request's, over all blocks, so that one call too many anywhere shows.
fn calls<'a>(blocks: impl Iterator<Item = &'a Measured>) -> String {
    let (mut calls, mut requests) = (BTreeMap::<&str, usize>::new(), 0);
    for block in blocks {
        requests += block.requests;
        for (operation, times) in &block.calls {
            *calls.entry(operation).or_default() += times;
        }
    }
    let a_request = |times: usize| {
        let share = format!("{:.6}", count(times) / count(requests));
        share.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let each: Vec<_> =
        calls.iter().map(|(operation, times)| format!("{operation} {}", a_request(*times))).collect();
    format!("{} ({})", a_request(calls.values().sum()), each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(who: Who, job: Job, micros: u64, calls: &[(&str, usize)]) -> Measured {
        let calls = calls.iter().map(|(operation, times)| ((*operation).to_owned(), *times)).collect();
        Measured { who, job, requests: 100, cpu: Duration::from_micros(micros * 100), calls, bytes: 150_000 }
    }

    #[test]
    fn one_call_too_many_shows() {
        let two = [("PutItem", 100), ("UpdateItem", 100)];
        let blocks = [
            block(Who::Ours, Job::New, 300, &two),
            block(Who::Ours, Job::New, 100, &[("PutItem", 101), ("UpdateItem", 100)]),
            block(Who::Powertools, Job::New, 1000, &two),
        ];
        let report = report(&blocks, 2, 100);
        assert!(
            report.contains(
                "| new | 2.005 (PutItem 1.005, UpdateItem 1) | 1500 | 200 | 2 (PutItem 1, UpdateItem 1) | 1500 | 1000 | 0.200 | 0.2 |"
            ),
            "{report}"
        );
    }
}
