//! The tables.

use std::fmt::Write as _;
use std::time::Duration;

use super::contender::Contender;
use super::start::Starts;
use super::{Job, Taken, UNITS};
use crate::report::{machine, median};

/// The most that our layer should add to the CPU time of the calls alone, with 100 messages a unit.
const MOST_ADDED: f64 = 0.1;
/// The least that our rate should be, as a multiple of IBM's client in Python.
const LEAST_RATE: f64 = 3.0;
/// The most milliseconds that the library should add to a start.
const MOST_START: f64 = 2.0;

#[derive(Debug, Default)]
pub(super) struct Results(Vec<(Contender, Job, u32, Taken)>);

impl Results {
    pub(super) fn add(&mut self, contender: Contender, job: Job, unit: u32, taken: Taken) {
        self.0.push((contender, job, unit, taken));
    }

    fn median(&self, contender: Contender, job: Job, unit: u32, value: fn(Taken) -> f64) -> f64 {
        let wanted = (contender, job, unit);
        let of_one = self.0.iter().filter(|(contender, job, unit, _)| (*contender, *job, *unit) == wanted);
        median(&mut of_one.map(|(.., taken)| value(*taken)).collect::<Vec<_>>())
    }
}

fn cpu(taken: Taken) -> f64 {
    taken.run.cpu_seconds * 1e6 / f64::from(taken.run.messages)
}

fn manager_cpu(taken: Taken) -> f64 {
    taken.manager_cpu_seconds * 1e6 / f64::from(taken.run.messages)
}

fn rate(taken: Taken) -> f64 {
    taken.run.rate()
}

pub(super) fn table(results: &Results, starts: &Starts, messages: u32, rounds: u32) -> String {
    let mut text = format!(
        "{messages} messages of 1 KiB, nonpersistent, over the stand-in; medians of {rounds} rounds. CPU in µs a \
         message.\n{}, {}. Goals: rate {LEAST_RATE} times ibmmq's; at 100 a unit at most {:.0} % more CPU than \
         the calls alone.\n\n\
         | | a unit | messages/s | IntegraHub / it | CPU | IntegraHub's more | queue manager's CPU |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
        MOST_ADDED * 100.0,
    );
    for job in Job::ALL {
        for unit in UNITS {
            for contender in Contender::ALL {
                row(&mut text, results, (contender, job, unit));
            }
        }
    }
    let (with, without) = (milliseconds(&starts.with), milliseconds(&starts.without));
    let _ = write!(
        text,
        "\nmq-access, spawn to first poll, medians of {} starts: {with:.1} ms with the library, {without:.1} ms \
         without; the goal is at most {MOST_START} ms more.\n",
        starts.with.len()
    );
    text
}

fn row(text: &mut String, results: &Results, (contender, job, unit): (Contender, Job, u32)) {
    let of = |contender, value| results.median(contender, job, unit, value);
    let (ours, theirs) = (Contender::Crate, contender);
    let (ratio, more) = if ours == theirs {
        (String::new(), String::new())
    } else {
        let more = (of(ours, cpu) / of(theirs, cpu) - 1.0) * 100.0;
        (format!("{:.2}", of(ours, rate) / of(theirs, rate)), format!("{more:+.0} %"))
    };
    let _ = writeln!(
        text,
        "| {}, {} | {unit} | {:.0} | {ratio} | {:.1} | {more} | {:.1} |",
        job.name(),
        contender.name(),
        of(theirs, rate),
        of(theirs, cpu),
        of(theirs, manager_cpu),
    );
}

fn milliseconds(times: &[Duration]) -> f64 {
    median(&mut times.iter().map(|time| time.as_secs_f64() * 1000.0).collect::<Vec<_>>())
}
