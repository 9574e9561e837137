//! The engine: what runs the steps of a test, apart from what is stored of them.

mod step_functions;

use std::fmt;

use async_trait::async_trait;
use attempt::{Retry, Retryable};
use serde_json::{Value, json};
use uuid::Uuid;

pub use step_functions::StepFunctions;

use crate::store::error::Cause;

/// Runner of the executions of tests. The execution of a test has the test's id as its name.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync {
    /// Starts an execution, by its name. An execution of that name that is there already, or was
    /// there, counts as started.
    ///
    /// # Errors
    /// If the engine does not respond or refuses the execution.
    async fn start(&self, start: &Start) -> Result<(), EngineError>;

    /// Stops the execution of a test, and everything that it runs. One that is over, or unknown,
    /// stays so.
    ///
    /// # Errors
    /// If the engine does not respond or refuses.
    async fn stop(&self, test_id: Uuid) -> Result<(), EngineError>;

    /// Returns true if nothing runs the test any more: its execution is over or unknown.
    ///
    /// # Errors
    /// If the engine does not respond or refuses.
    async fn is_gone(&self, test_id: Uuid) -> Result<bool, EngineError>;
}

/// Execution to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Name of the execution, of at most 80 characters.
    pub name: String,
    /// Input of the execution.
    pub input: Value,
}

/// Reason why the engine did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine did not respond, or is busy; it is unknown whether an execution was started or
    /// stopped.
    #[error("the engine of load tests is unavailable")]
    Unavailable(#[source] Cause),
    /// The state machine does not exist, may not be used, or does not take the input.
    #[error("the engine of load tests refuses the request")]
    Refused(#[source] Cause),
}

impl Start {
    /// Makes the execution of a test.
    #[must_use]
    pub fn of(tenant: &str, test_id: Uuid) -> Self {
        Self { name: test_id.to_string(), input: json!({"tenant": tenant, "testId": test_id, "run": 0}) }
    }

    /// Makes an execution that only closes a test whose own execution is gone: it ends the
    /// run, and no other one follows, not even in a search. `number` tells it from earlier ones of
    /// the same test.
    #[must_use]
    pub fn closing(tenant: &str, test_id: Uuid, run: u32, number: u32) -> Self {
        Self::to_close(format!("{test_id}-close-{number}"), tenant, test_id, run)
    }

    /// Makes an execution that only closes a test which was stopped while none of its workers
    /// works. The test's own execution finds the test final when it goes on.
    #[must_use]
    pub fn stopping(tenant: &str, test_id: Uuid, run: u32) -> Self {
        Self::to_close(format!("{test_id}-stop"), tenant, test_id, run)
    }

    fn to_close(name: String, tenant: &str, test_id: Uuid, run: u32) -> Self {
        Self { name, input: json!({"tenant": tenant, "testId": test_id, "run": run, "close": true}) }
    }
}

impl Retryable for EngineError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unavailable(_) => Retry::Later,
            Self::Refused(_) => Retry::AfterRepair,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_named_after_its_test_and_reads_it_from_its_input() {
        let test_id = Uuid::from_u128(7);
        let id = "00000000-0000-0000-0000-000000000007";
        let start = Start::of("tenant-1", test_id);
        assert_eq!(start.name, id);
        assert_eq!(start.input, json!({"tenant": "tenant-1", "testId": id, "run": 0}));
        let closing = Start::closing("tenant-1", test_id, 3, 12);
        assert_eq!(closing.name, format!("{id}-close-12"));
        let input = json!({"tenant": "tenant-1", "testId": id, "run": 3, "close": true});
        assert_eq!(closing.input, input);
        let stopping = Start::stopping("tenant-1", test_id, 3);
        assert_eq!(stopping, Start { name: format!("{id}-stop"), input });
    }
}
