//! Load tests of queues: their definition, plan, counts, report and store.
//!
//! [`LoadTestRequest`] reads a caller's request, and converts it to a [`LoadTest`] within
//! [`Limits`]. The [`Plan`] says which workers a test has, and in which minutes (windows) each of
//! their two series of invocations (lanes) works. The [`Schedule`] says when each message is due
//! and who sends it. Each invocation counts in a [`Tally`]. The [`Sum`] of all tallies becomes the
//! [`Accounting`] of every message and the [`Report`]. [`Search`] chooses the rates of a test that
//! looks for the highest one. [`TestStatus`] has the states of a test. Only [`store`] does I/O.

mod accounting;
mod bounds;
mod definition;
mod expect;
mod limits;
mod metric;
mod micros;
mod plan;
mod queues;
mod report;
mod request;
#[cfg(test)]
mod samples;
mod schedule;
mod search;
mod status;
pub mod store;
mod tally;

pub use accounting::{Accounting, EndFacts, Hole};
pub use bounds::{
    AckEvery, ConfirmsInFlight, DelayMs, MessageCount, Prefetch, StageRate, TestSeconds, WarmUpSeconds,
    WorkerCount,
};
pub use definition::{Consumers, Foreign, Length, LoadTest, Mode, Producers, Stage, StopWhen};
pub use expect::{Criterion, Expect};
pub use limits::Limits;
pub use metric::{Metric, Percentile};
pub use micros::Micros;
pub use plan::{Lane, MinuteParity, NameError, Plan, Role, Step, Window, Worker};
pub use queues::{QueuePattern, Queues};
pub use report::{
    Change, Comparison, Cost, CriterionVerdict, Delta, Facts, Generator, LatencyReport, Outcome, Rates,
    Report, SearchReport, Series, Setup, Usage, Verdicts,
};
pub use request::{LoadTestRequest, RequestError, RequestErrorKind};
pub use schedule::{MinuteMessages, Paced, Schedule, Unthrottled};
pub use search::{Finding, Next, Probe, Search, SearchEnd};
pub use status::{IllegalTransition, TestEnding, TestEvent, TestStatus};
pub use tally::{LateReason, Sum, Tally, TallyError};
