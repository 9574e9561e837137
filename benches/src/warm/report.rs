//! The table.

use std::fmt::Write as _;
use std::time::Duration;

use crate::report::{machine, median};

/// CPU time beyond the calls, of both functions together.
const GOAL_MICROS: f64 = 1000.0;

/// Times of a request; `wall` is the clock's time, all else CPU time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) wall: Duration,
    pub(crate) produce: Duration,
    pub(crate) mq_access: Duration,
    pub(crate) calls_of_produce: Duration,
    pub(crate) calls_of_mq_access: Duration,
    pub(crate) runtime_of_produce: Duration,
    pub(crate) runtime_of_mq_access: Duration,
}

pub(super) fn table(requests: &[Request]) -> String {
    let micros = |value: &dyn Fn(&Request) -> Duration| {
        median(&mut requests.iter().map(|request| value(request).as_secs_f64() * 1e6).collect::<Vec<_>>())
    };
    let rows: [(&str, [f64; 3]); 2] = [
        (
            "produce",
            [
                micros(&|request| request.produce),
                micros(&|request| request.calls_of_produce),
                micros(&|request| request.runtime_of_produce),
            ],
        ),
        (
            "mq-access",
            [
                micros(&|request| request.mq_access),
                micros(&|request| request.calls_of_mq_access),
                micros(&|request| request.runtime_of_mq_access),
            ],
        ),
    ];
    let mut text = format!(
        "CPU time of a warm POST /messages/produce of one message of 1 KiB, µs; medians of {} requests.\n\
         {}, {}. A request took {:.1} ms by the clock.\n\n\
         | | in all | the calls alone | beyond them | of that, Lambda's runtime | ours | goal |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
        requests.len(),
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        machine(),
        micros(&|request| request.wall) / 1000.0,
    );
    let mut row = |name: &str, [all, calls, runtime]: [f64; 3], goal: &str| {
        let beyond = all - calls;
        let ours = beyond - runtime;
        let _ = writeln!(
            text,
            "| {name} | {all:.0} | {calls:.0} | {beyond:.0} | {runtime:.0} | {ours:.0} | {goal} |"
        );
    };
    let mut sum = [0.0; 3];
    for (name, values) in rows {
        row(name, values, "");
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum += value;
        }
    }
    row("together", sum, &format!("{GOAL_MICROS:.0}"));
    text
}
