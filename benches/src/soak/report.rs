//! Findings of a soak, and whether they are good enough.

use std::fmt::Write as _;
use std::time::Duration;

use super::memory::Memory;
use super::shapes::SHAPES;
use super::tally::{Phase, Tally};
use super::{BETWEEN_SAMPLES, WARM_UP};
use crate::error::Error;
use crate::report::{circumstances, table};

/// Factor by which a well-behaved caller may wait longer while others are hostile.
const MOST: f64 = 2.0;

pub(super) struct Report<'a> {
    pub(super) tally: &'a Tally,
    pub(super) memory: &'a Memory,
    pub(super) whole: Duration,
    /// Whether times and memory decide, too.
    pub(super) is_judged: bool,
}

impl Report<'_> {
    /// Prints it.
    ///
    /// # Errors
    /// When a goal was missed.
    pub(super) fn conclude(&self) -> Result<(), Error> {
        let mut missed = Vec::new();
        let mut text = format!("Soak of {} s. {}.\n\n", self.whole.as_secs(), circumstances());
        for table in [self.times(&mut missed), self.memory(&mut missed), self.answers()] {
            let _ = writeln!(text, "{table}");
        }
        let (wrong, kept) = self.tally.wrong_answers();
        let _ = writeln!(text, "Wrong answers: {wrong}");
        for what in &kept {
            let _ = writeln!(text, "- {what}");
        }
        if wrong > 0 {
            missed.push(format!("{wrong} wrong answers"));
        }
        if !self.is_judged {
            text.push_str("\nToo short to judge times and memory.\n");
        }
        #[expect(clippy::print_stdout, reason = "the report")]
        {
            println!("\n{text}");
        }
        if missed.is_empty() { Ok(()) } else { Err(format!("Missed: {}", missed.join("; ")).into()) }
    }

    fn times(&self, missed: &mut Vec<String>) -> String {
        let headings = [
            "well-behaved callers, 95th percentile in ms",
            "requests",
            "without hostile ones",
            "requests",
            "with them",
            "ratio",
        ];
        let kinds = self.tally.kinds().into_iter().map(Some).chain([None]);
        let rows = kinds.map(|kind| {
            let (calm_requests, calm) = self.tally.times(kind, Phase::Calm);
            let (hostile_requests, hostile) = self.tally.times(kind, Phase::Hostile);
            let ratio = hostile / calm;
            // No number at all is no success either.
            if kind.is_none() && self.is_judged && (ratio.is_nan() || ratio > MOST) {
                missed.push(format!("the 95th percentile grows {ratio:.2} times, not at most {MOST}"));
            }
            vec![
                kind.unwrap_or("all").to_owned(),
                calm_requests.to_string(),
                format!("{calm:.0}"),
                hostile_requests.to_string(),
                format!("{hostile:.0}"),
                format!("{ratio:.2}"),
            ]
        });
        table(&headings, rows)
    }

    fn memory(&self, missed: &mut Vec<String>) -> String {
        let from = self.whole.as_secs_f64() / f64::from(WARM_UP);
        let about = format!(
            "resident memory of the largest process in MB, every {} s from {from:.0} s on",
            BETWEEN_SAMPLES.as_secs()
        );
        let courses = self.memory.courses(from);
        if courses.is_empty() {
            missed.push("no function's process was found".to_owned());
        }
        let rows = courses.into_iter().map(|(function, course, grows)| {
            if grows && self.is_judged {
                missed.push(format!("the memory of {function} grows by {:.1} MB", course.growth));
            }
            let mark = if grows { " (too much)" } else { "" };
            vec![
                function.to_owned(),
                format!("{:.1}", course.first),
                format!("{:.1}", course.last),
                format!("{:.1}", course.peak),
                format!("{:+.1}{mark}", course.growth),
            ]
        });
        table(&[&about, "first", "last", "peak", "growth"], rows)
    }

    fn answers(&self) -> String {
        let rows = self.tally.answers().into_iter().map(|((kind, outcome), times)| {
            let whose = if SHAPES.iter().any(|shape| shape.name == kind) { "hostile: " } else { "" };
            vec![format!("{whose}{kind}"), outcome, times.to_string()]
        });
        table(&["request", "answer", "times"], rows)
    }
}
