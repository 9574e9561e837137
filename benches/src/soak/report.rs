//! Report of a soak, and the check of its goals.

use std::time::Duration;

use super::memory::{Course, Memory};
use super::{BETWEEN_SAMPLES, JUDGED_FROM, WARM_UP};
use crate::callers::WITHOUT;
use crate::error::Error;
use crate::report::Goal::AtMost;
use crate::report::{Column, table};
use crate::tally::{NUMBER, P95, Tally};

const COLUMNS: [Column; 3] = [
    Column::mean(NUMBER),
    Column::median(P95, 3),
    // The factor by which a well-behaved caller may wait longer while others are hostile.
    Column::of("with / without", P95, WITHOUT).goals(&[("all, with hostile callers", AtMost(2.0))]),
];
/// Maximum number of wrong responses in the report.
const SHOWN: usize = 20;

/// Prints the report of a soak, and checks its goals.
///
/// # Errors
/// If a goal was missed.
pub(super) fn conclude(
    tally: &Tally,
    memory: &Memory,
    wrong: &[String],
    whole: Duration,
) -> Result<(), Error> {
    let about = format!("Soak of {} s. Requests of well-behaved callers.", whole.as_secs());
    let times = tally.report(about, &COLUMNS);
    let is_judged = whole >= JUDGED_FROM;
    let mut missed = if is_judged { times.missed() } else { Vec::new() };
    let from = whole.as_secs_f64() / f64::from(WARM_UP);
    let courses = memory.courses(from);
    if courses.is_empty() {
        missed.push("no function's process was found".to_owned());
    }
    for (function, course) in courses.iter().filter(|(_, course)| is_judged && course.grows()) {
        missed.push(format!("the memory of {function} grows by {:.1} MB", course.growth));
    }
    times.print();
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\n{}\n{}\nWrong answers: {}", table_of(&courses, from), tally.answers(), wrong.len());
        for what in wrong.iter().take(SHOWN) {
            println!("- {what}");
        }
        if !is_judged {
            println!("\nToo short to judge times and memory.");
        }
    }
    if !wrong.is_empty() {
        missed.push(format!("{} wrong answers", wrong.len()));
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("Missed: {}", missed.join("; ")).into()) }
}

fn table_of(courses: &[(&str, Course)], from: f64) -> String {
    let about = format!(
        "resident memory of the largest process in MB, every {} s from {from:.0} s on",
        BETWEEN_SAMPLES.as_secs()
    );
    let rows = courses.iter().map(|(function, course)| {
        let mark = if course.grows() { " (too much)" } else { "" };
        let figures = [course.first, course.last, course.peak].map(|figure| format!("{figure:.1}"));
        let growth = format!("{:+.1}{mark}", course.growth);
        [(*function).to_owned()].into_iter().chain(figures).chain([growth]).collect()
    });
    table(&[&about, "first", "last", "peak", "growth"], rows)
}
