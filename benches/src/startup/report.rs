//! The table.

use std::fmt::Write as _;
use std::time::Duration;

use super::contender::{NODE, NODE_BUNDLED};
use super::size::Size;
use super::{Answered, Start};
use crate::report::{machine, percentile};

/// Our functions should take this part of the time of the one in Node.js.
const GOAL: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Measured {
    name: String,
    pub(super) starts: Vec<Start>,
    pub(super) size: Size,
}

impl Measured {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), starts: Vec::new(), size: Size::default() }
    }

    fn poll(&self, share: f64) -> f64 {
        percentile(self.starts.iter().map(|start| millis(start.to_poll)).collect(), share)
    }

    fn cpu(&self) -> f64 {
        percentile(self.starts.iter().map(|start| millis(start.cpu_to_poll)).collect(), 0.5)
    }

    fn answered(&self, value: fn(Answered) -> Duration) -> Option<f64> {
        let values: Vec<_> =
            self.starts.iter().filter_map(|start| start.answered).map(|start| millis(value(start))).collect();
        (!values.is_empty()).then(|| percentile(values, 0.5))
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

pub(super) fn table(measured: &[Measured], starts: usize) -> String {
    let mut text = format!(
        "From spawn to the first poll, and where a request is refused by parsing, to its answer; medians of {starts} starts.\n\
         {}, {}. The goal is {GOAL} of Node.js.\n\n\
         | | first poll ms | p95 | CPU ms | / Node.js | / bundled | answer ms | CPU ms | MB | zipped MB |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
    );
    let of = |name: &str| measured.iter().find(|other| other.name == name);
    for one in measured {
        let ratio = |name: &str| {
            let other = of(name).filter(|other| other.name != one.name && !one.name.contains("Node"));
            other.map_or_else(String::new, |other| {
                format!("{:.3}, CPU {:.3}", one.poll(0.5) / other.poll(0.5), one.cpu() / other.cpu())
            })
        };
        let shown = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.1}"));
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.1} | {:.1} | {} | {} | {} | {} | {} | {} |",
            one.name,
            one.poll(0.5),
            one.poll(0.95),
            one.cpu(),
            ratio(NODE),
            ratio(NODE_BUNDLED),
            shown(one.answered(|answered| answered.after)),
            shown(one.answered(|answered| answered.cpu)),
            megabytes(one.size.unpacked),
            megabytes(one.size.zipped),
        );
    }
    text
}

/// Writes megabytes with one decimal place.
fn megabytes(bytes: u64) -> String {
    let tenths = (bytes + 50_000) / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_a_tenth_of_a_megabyte() {
        for (bytes, text) in [(0, "0.0"), (438_211, "0.4"), (14_010_688, "14.0"), (999_999, "1.0")] {
            assert_eq!(megabytes(bytes), text);
        }
    }
}
