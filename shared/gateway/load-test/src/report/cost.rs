//! Estimated cost of a load test.

use serde::{Deserialize, Serialize};

use super::number::{float, rounded};
use crate::micros::Micros;
use crate::plan::{Plan, Role, Window};
use crate::tally::Sum;

// List prices of us-east-1 in November 2026, in USD and without a free tier: Lambda on x86-64, on
// which workers run, Step Functions (Standard), and DynamoDB on demand. They change, and differ by
// region.
//
// Those of invocations and writes are confirmed in `capacity/prices.toml`. Those of transitions and
// reads are as public pages had them before that day, and were not looked up again.

/// Price of one GB of Lambda memory for one second, in US dollars.
const GB_SECOND_USD: f64 = 0.000_016_666_7;

/// Price of an invocation of Lambda, in US dollars.
const INVOCATION_USD: f64 = 0.000_000_2;

/// Price of one state transition in Step Functions, in US dollars.
const TRANSITION_USD: f64 = 0.000_025;

/// Price of a DynamoDB write of at most 1 KB, in US dollars.
const WRITE_USD: f64 = 0.000_000_625;

/// Price of a strongly consistent DynamoDB read of at most 4 KB, in US dollars.
const READ_USD: f64 = 0.000_000_125;

/// AWS resources that a load test uses, from which its cost is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Billed duration of all Lambda invocations of the load test together, in seconds.
    pub seconds: f64,
    /// Memory of the Lambda function that does the workers' work, in MB.
    pub memory_mb: u32,
    /// Number of Lambda invocations of the load test.
    pub invocations: u64,
}

/// Estimated cost of a load test in US dollars, at list prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cost {
    /// Estimated cost of the load test in US dollars: the sum of the other members.
    pub estimate_usd: f64,
    /// Cost of the load test's Lambda invocations and of their memory, in US dollars.
    pub compute_usd: f64,
    /// Cost of the state transitions in Step Functions for the load test, in US dollars.
    pub transitions_usd: f64,
    /// Cost in US dollars of the DynamoDB requests that each worker makes once a second: it stores
    /// its counts, and reads whether to stop.
    pub progress_usd: f64,
}

/// Average number of DynamoDB write units (1 KB each) for storing a worker's counts once. The
/// stored counts of a minute grow to 2 to 6 KB (measured with 500 messages a second).
const PROGRESS_UNITS: f64 = 4.0;

/// Number of state transitions in Step Functions for each minute of a worker: the work, the choice
/// of the next minute, and the wait for it.
const TRANSITIONS: u64 = 3;

impl Usage {
    /// Estimates the resources that a run will use, from its plan. The time that the plan reserves
    /// for draining the queues is left out. `memory_mb` is the memory of the function that does the
    /// workers' work.
    #[must_use]
    pub fn planned(plan: &Plan, memory_mb: u32) -> Self {
        let until = match plan.until(Role::Producer) {
            Micros::ZERO => plan.until(Role::Consumer),
            until => until,
        };
        let workers = u64::try_from(plan.workers().count()).unwrap_or(u64::MAX);
        let invocations = workers.saturating_mul(until.get().div_ceil(Window::LENGTH.get()));
        let lead = float(invocations) * Plan::LEAD.as_secs_f64();
        Self { seconds: float(workers) * until.seconds() + lead, memory_mb, invocations }
    }

    /// Returns the resources that a run used, from the sum of its workers' counts. `memory_mb` is
    /// the memory of the function that did the workers' work.
    #[must_use]
    pub fn of(sum: &Sum, memory_mb: u32) -> Self {
        let invocations = u64::try_from(sum.steps()).unwrap_or(u64::MAX);
        Self { seconds: sum.figures.billed.seconds(), memory_mb, invocations }
    }

    /// Returns the sum of two usages, such as those of two probes (runs) of a search. Both must be
    /// of functions with the same memory.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            seconds: self.seconds + other.seconds,
            memory_mb: self.memory_mb,
            invocations: self.invocations.saturating_add(other.invocations),
        }
    }
}

impl Cost {
    /// Estimates the cost of a usage, rounded to a millionth of a dollar.
    #[must_use]
    pub fn of(usage: &Usage) -> Self {
        let invocations = float(usage.invocations);
        let gigabytes = f64::from(usage.memory_mb) / 1024.0;
        let compute = usage.seconds * gigabytes * GB_SECOND_USD + invocations * INVOCATION_USD;
        let transitions = invocations * float(TRANSITIONS) * TRANSITION_USD;
        // A worker writes its progress and reads whether to stop once a second.
        let progress = usage.seconds * (PROGRESS_UNITS * WRITE_USD + READ_USD);
        Self {
            estimate_usd: rounded(compute + transitions + progress, 6),
            compute_usd: rounded(compute, 6),
            transitions_usd: rounded(transitions, 6),
            progress_usd: rounded(progress, 6),
        }
    }
}
