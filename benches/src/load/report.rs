//! The table.

use std::fmt::Write as _;

use super::contender::Who;
use super::{Measured, Phase};
use crate::report::{machine, median};

/// The least multiple of its speed that ours should have.
const fn goal(phase: Phase, who: Who) -> Option<u32> {
    match (phase, who) {
        (Phase::Fresh, Who::Node) => Some(3),
        (Phase::Fresh, Who::Python) => Some(2),
        (Phase::Unchanged, Who::Node) => Some(8),
        (Phase::Unchanged, Who::Python) => Some(5),
        _ => None,
    }
}

pub(super) fn table(measured: &[Measured], items: u32, rounds: u32) -> String {
    let mut text = format!(
        "{items} items in one object; medians of {rounds} rounds.\n{}, {}.\n\n\
         | | rows/s | CPU µs a row | of PostgreSQL | peak MB | IntegraHub / it | in CPU | goal |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
    );
    for (phase, name) in [(Phase::Fresh, "fresh"), (Phase::Unchanged, "unchanged"), (Phase::Newer, "newer")] {
        let of = |who: Who, value: fn(&Measured) -> f64| {
            let ones = measured.iter().filter(|one| one.who == who && one.phase == phase);
            median(&mut ones.map(value).collect::<Vec<_>>())
        };
        let micros = |seconds: f64| seconds * 1e6 / f64::from(items);
        let (own_clock, own_cpu) = (of(Who::Ours, clock), of(Who::Ours, all_cpu));
        for who in Who::ALL {
            let seconds = of(who, clock);
            if seconds.is_nan() {
                continue;
            }
            let ratios = if who == Who::Ours {
                " | ".to_owned()
            } else {
                format!("{:.2} | {:.2}", seconds / own_clock, of(who, all_cpu) / own_cpu)
            };
            let goal = goal(phase, who).map(|goal| goal.to_string()).unwrap_or_default();
            let _ = writeln!(
                text,
                "| {name}, {} | {:.0} | {:.1} | {:.1} | {:.0} | {ratios} | {goal} |",
                who.name(),
                f64::from(items) / seconds,
                micros(of(who, |one| one.loaded.cpu_seconds)),
                micros(of(who, |one| one.postgres.as_secs_f64())),
                of(who, |one| f64::from(one.loaded.peak_kilobytes)) / 1000.0,
            );
        }
    }
    text
}

fn clock(one: &Measured) -> f64 {
    one.loaded.seconds
}

/// Adds the CPU seconds of the contender and of PostgreSQL for it.
fn all_cpu(one: &Measured) -> f64 {
    one.loaded.cpu_seconds + one.postgres.as_secs_f64()
}

#[expect(clippy::print_stderr, reason = "it takes a while")]
pub(super) fn progress(round: u32, one: &Measured) {
    let phase = format!("{:?}", one.phase);
    let (seconds, cpu, postgres) = (one.loaded.seconds, one.loaded.cpu_seconds, one.postgres.as_secs_f64());
    let who = one.who.name();
    eprintln!(
        "round {round:>2}  {who:<40}  {phase:<9}  {seconds:>6.2} s  {cpu:>6.2} s of CPU, {postgres:>5.2} s of PostgreSQL's"
    );
}
