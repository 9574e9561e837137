//! The tables.

use std::fmt::Write as _;

use super::Contender;
use super::cut::{Part, Pass};
use super::upsert::{Measured, Phase};
use crate::report::{machine, median};

/// All that went over the payload.
#[derive(Debug, Default)]
pub(super) struct Cuts(Vec<(Contender, Pass)>);

/// Comparison of the pipeline with contenders whose times add up, and the least multiple of their
/// speed that it should have.
struct Row {
    name: &'static str,
    of: &'static [Contender],
    goal: Option<f64>,
}

const PIPELINE: Contender = Contender::Rust(Part::Pipeline);
const INFLATE: Contender = Contender::Rust(Part::Inflate);
const PARSE: Contender = Contender::Rust(Part::Parse);
const COMPRESS: Contender = Contender::Rust(Part::Compress);
const HASH: Contender = Contender::Rust(Part::Hash);

const ROWS: [Row; 8] = [
    Row { name: "chunker's pipeline", of: &[PIPELINE], goal: None },
    Row { name: "inflate, parse, compress", of: &[INFLATE, PARSE, COMPRESS], goal: Some(0.8) },
    Row { name: "the same and the hashes", of: &[INFLATE, PARSE, COMPRESS, HASH], goal: None },
    Row { name: "inflate alone", of: &[INFLATE], goal: None },
    Row { name: "parse alone", of: &[PARSE], goal: None },
    Row { name: "compress alone", of: &[COMPRESS], goal: None },
    Row { name: "hashes alone", of: &[HASH], goal: None },
    Row { name: "Node.js", of: &[Contender::Node], goal: Some(4.0) },
];

impl Cuts {
    pub(super) fn add(&mut self, contender: Contender, pass: Pass) {
        self.0.push((contender, pass));
    }

    /// The sum of the medians; no number where one of them did not take part.
    fn sum(&self, of: &[Contender], value: fn(&Pass) -> f64) -> f64 {
        let median_of = |contender: &Contender| {
            let passes = self.0.iter().filter(|(who, _)| who == contender);
            median(&mut passes.map(|(_, pass)| value(pass)).collect::<Vec<_>>())
        };
        of.iter().map(median_of).sum()
    }

    fn megabytes(&self) -> f64 {
        self.0.first().map_or(f64::NAN, |(_, pass)| f64::from(pass.bytes) / 1e6)
    }
}

pub(super) fn cutting(cuts: &Cuts, items: u32, gzip: u64, rounds: u32) -> String {
    let megabytes = cuts.megabytes();
    let gzip = u32::try_from(gzip).map_or(f64::NAN, f64::from) / 1e6;
    let mut text = format!(
        "{items} items, {megabytes:.1} MB of JSON in {gzip:.1} MB of gzip; medians of {rounds} rounds.\n{}, {}.\n\n\
         | | MB/s of JSON | CPU s | chunker / it | in CPU | goal |\n|---|---:|---:|---:|---:|---:|\n",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
    );
    let (clock, cpu) = (|pass: &Pass| pass.seconds, |pass: &Pass| pass.cpu_seconds);
    let own = (cuts.sum(&[PIPELINE], clock), cuts.sum(&[PIPELINE], cpu));
    for Row { name, of, goal } in ROWS {
        let (seconds, cpu_seconds) = (cuts.sum(of, clock), cuts.sum(of, cpu));
        if seconds.is_nan() {
            continue;
        }
        let ratios = if of.len() == 1 && goal.is_none() {
            (String::new(), String::new())
        } else {
            (format!("{:.2}", seconds / own.0), format!("{:.2}", cpu_seconds / own.1))
        };
        let goal = goal.map(|goal| goal.to_string()).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {name} | {:.0} | {cpu_seconds:.3} | {} | {} | {goal} |",
            megabytes / seconds,
            ratios.0,
            ratios.1
        );
    }
    text
}

pub(super) fn writing(measured: &[Measured], items: u32, rounds: u32) -> String {
    let mut text = format!(
        "{items} rows in chunks of 1000; medians of {rounds} rounds.\n{}, {}.\n\n\
         | | µs of PostgreSQL's CPU a row | / COPY | goal | WAL, B a row | goal |\n|---|---:|---:|---:|---:|---:|\n",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
    );
    let of = |phase, value: fn(&Measured) -> f64| {
        let mut values: Vec<_> = measured.iter().filter(|one| one.phase == phase).map(value).collect();
        median(&mut values) / f64::from(items)
    };
    let micros = |phase| of(phase, |one| one.cpu.as_secs_f64() * 1e6);
    let copy = micros(Phase::Copy);
    for phase in Phase::ALL {
        let (name, goal, wal_goal) = match phase {
            Phase::Copy => ("raw binary COPY", "", ""),
            Phase::Fresh => ("fresh", "1.8", ""),
            Phase::Unchanged => ("unchanged", "0.6", "16"),
            Phase::Scattered => ("unchanged, items in another order than keys", "", ""),
            Phase::Newer => ("newer", "2.8", ""),
        };
        let (cpu, wal) = (micros(phase), of(phase, |one| f64::from(one.wal)));
        let ratio = if phase == Phase::Copy { String::new() } else { format!("{:.2}", cpu / copy) };
        let _ = writeln!(text, "| {name} | {cpu:.1} | {ratio} | {goal} | {wal:.0} | {wal_goal} |");
    }
    text
}
