//! What a soak found, and whether that is good enough.

use std::fmt::Write as _;
use std::time::Duration;

use super::memory::Memory;
use super::shapes::SHAPES;
use super::tally::{Phase, Tally};
use super::{BETWEEN_SAMPLES, WARM_UP};
use crate::error::Error;
use crate::report::machine;

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
        let mut text = format!(
            "Soak of {} s. {}, {}.\n\n",
            self.whole.as_secs(),
            jiff::Timestamp::now().strftime("%Y-%m-%d"),
            machine()
        );
        self.times(&mut text, &mut missed);
        self.memory(&mut text, &mut missed);
        self.answers(&mut text);
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
        if missed.is_empty() {
            Ok(())
        } else {
            Err(Error::Unexpected(format!("Missed: {}", missed.join("; "))))
        }
    }

    fn times(&self, text: &mut String, missed: &mut Vec<String>) {
        text.push_str(
            "| well-behaved callers, 95th percentile in ms | requests | without hostile ones | requests | with them | ratio |\n\
             |---|---:|---:|---:|---:|---:|\n",
        );
        let kinds = self.tally.kinds().into_iter().map(Some);
        for kind in kinds.chain([None]) {
            let (calm_requests, calm) = self.tally.times(kind, Phase::Calm);
            let (hostile_requests, hostile) = self.tally.times(kind, Phase::Hostile);
            let ratio = hostile / calm;
            let name = kind.unwrap_or("all");
            let _ = writeln!(
                text,
                "| {name} | {calm_requests} | {calm:.0} | {hostile_requests} | {hostile:.0} | {ratio:.2} |"
            );
            // No number at all is no success either.
            if kind.is_none() && self.is_judged && (ratio.is_nan() || ratio > MOST) {
                missed.push(format!("the 95th percentile grows {ratio:.2} times, not at most {MOST}"));
            }
        }
        text.push('\n');
    }

    fn memory(&self, text: &mut String, missed: &mut Vec<String>) {
        let from = self.whole.as_secs_f64() / f64::from(WARM_UP);
        let seconds = BETWEEN_SAMPLES.as_secs();
        let _ = write!(
            text,
            "| resident memory of the largest process in MB, every {seconds} s from {from:.0} s on | first | last | peak | growth |\n\
             |---|---:|---:|---:|---:|\n",
        );
        let courses = self.memory.courses(from);
        for (function, course, grows) in &courses {
            let mark = if *grows { " (too much)" } else { "" };
            let _ = writeln!(
                text,
                "| {function} | {:.1} | {:.1} | {:.1} | {:+.1}{mark} |",
                course.first, course.last, course.peak, course.growth
            );
            if *grows && self.is_judged {
                missed.push(format!("the memory of {function} grows by {:.1} MB", course.growth));
            }
        }
        if courses.is_empty() {
            missed.push("no function's process was found".to_owned());
        }
        text.push('\n');
    }

    fn answers(&self, text: &mut String) {
        text.push_str("| request | answer | times |\n|---|---|---:|\n");
        for ((kind, outcome), times) in self.tally.answers() {
            let whose = if SHAPES.iter().any(|shape| shape.name == kind) { "hostile: " } else { "" };
            let _ = writeln!(text, "| {whose}{kind} | {outcome} | {times} |");
        }
        text.push('\n');
    }
}
