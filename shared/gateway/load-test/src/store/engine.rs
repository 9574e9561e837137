//! Engine of load tests: an AWS Step Functions state machine of the type Standard, which invokes
//! the function `load-step` for the work of each test.

use aws_sdk_sfn::Client;
use aws_sdk_sfn::error::ProvideErrorMetadata as _;
use aws_sdk_sfn::types::ExecutionStatus;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::store::error::Cause;

/// Client of the Step Functions state machine that runs load tests. The execution that runs a test
/// has the test's id as its name.
#[derive(Clone, Debug)]
pub struct Engine {
    client: Client,
    state_machine_arn: String,
}

/// Execution of the load tests' state machine that is to be started with [`Engine::start`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionStart {
    /// Name of the execution, of at most 80 characters. It begins with the test's id.
    pub name: String,
    /// JSON input of the execution: the tenant, the test, the number of a run, and whether the
    /// execution only closes this run.
    pub input: Value,
}

/// Failure of a request to Step Functions. It is unknown whether an execution was started or
/// stopped.
#[derive(Debug, thiserror::Error)]
#[error("the engine of load tests did not do its part")]
pub struct EngineError(#[source] Cause);

impl Engine {
    /// Creates a client of the state machine with this ARN, which must name no version and no
    /// alias.
    #[must_use]
    pub const fn new(client: Client, state_machine_arn: String) -> Self {
        Self { client, state_machine_arn }
    }

    /// Starts an execution. If an execution with the same name exists or existed, the call succeeds
    /// without starting another.
    ///
    /// # Errors
    /// If Step Functions does not respond or refuses the execution.
    pub async fn start(&self, start: &ExecutionStart) -> Result<(), EngineError> {
        let request = self
            .client
            .start_execution()
            .state_machine_arn(&self.state_machine_arn)
            .name(&start.name)
            .input(start.input.to_string());
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("ExecutionAlreadyExists") => Ok(()),
            Err(error) => Err(EngineError(error.into())),
        }
    }

    /// Stops the execution that runs a test, with everything that the execution started. An
    /// execution that has ended or does not exist is left as it is.
    ///
    /// # Errors
    /// If Step Functions does not respond or refuses the request.
    pub async fn stop(&self, test_id: Uuid) -> Result<(), EngineError> {
        let request = self.client.stop_execution().execution_arn(self.execution_arn(test_id));
        match request.cause("the load test was stopped").send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("ExecutionDoesNotExist") => Ok(()),
            Err(error) => {
                // An execution that is over may be refused.
                if self.is_gone(test_id).await? { Ok(()) } else { Err(EngineError(error.into())) }
            }
        }
    }

    /// Returns true if the execution that runs the test has ended or does not exist.
    ///
    /// # Errors
    /// If Step Functions does not respond or refuses the request.
    pub async fn is_gone(&self, test_id: Uuid) -> Result<bool, EngineError> {
        let request = self.client.describe_execution().execution_arn(self.execution_arn(test_id));
        match request.send().await {
            Ok(execution) => Ok(execution.status != ExecutionStatus::Running),
            Err(error) if error.code() == Some("ExecutionDoesNotExist") => Ok(true),
            Err(error) => Err(EngineError(error.into())),
        }
    }

    fn execution_arn(&self, test_id: Uuid) -> String {
        execution_arn(&self.state_machine_arn, &test_id.to_string())
    }
}

impl ExecutionStart {
    /// Builds the execution that runs a load test from its first run to its end.
    #[must_use]
    pub fn of(tenant: &str, test_id: Uuid) -> Self {
        Self { name: test_id.to_string(), input: json!({"tenant": tenant, "testId": test_id, "run": 0}) }
    }

    /// Builds an execution that only closes a test whose own execution is gone: it ends the run
    /// `run` and the test, even if a search is not done. `number` makes its name differ from those
    /// of earlier closing executions of the same test.
    #[must_use]
    pub fn closing(tenant: &str, test_id: Uuid, run: u32, number: u32) -> Self {
        Self::to_close(format!("{test_id}-close-{number}"), tenant, test_id, run)
    }

    /// Builds an execution that only closes a test that was stopped while none of its workers was
    /// at work: it ends the run `run` and the test. If the test's own execution continues, it finds
    /// that the test has ended.
    #[must_use]
    pub fn stopping(tenant: &str, test_id: Uuid, run: u32) -> Self {
        Self::to_close(format!("{test_id}-stop"), tenant, test_id, run)
    }

    fn to_close(name: String, tenant: &str, test_id: Uuid, run: u32) -> Self {
        Self { name, input: json!({"tenant": tenant, "testId": test_id, "run": run, "close": true}) }
    }
}

/// Returns the ARN of the execution with this name of a state machine.
fn execution_arn(state_machine_arn: &str, name: &str) -> String {
    format!("{}:{name}", state_machine_arn.replacen(":stateMachine:", ":execution:", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_named_after_its_test_and_reads_it_from_its_input() {
        let test_id = Uuid::from_u128(7);
        let id = "00000000-0000-0000-0000-000000000007";
        let start = ExecutionStart::of("tenant-1", test_id);
        assert_eq!(start.name, id);
        assert_eq!(start.input, json!({"tenant": "tenant-1", "testId": id, "run": 0}));
        let closing = ExecutionStart::closing("tenant-1", test_id, 3, 12);
        assert_eq!(closing.name, format!("{id}-close-12"));
        let input = json!({"tenant": "tenant-1", "testId": id, "run": 3, "close": true});
        assert_eq!(closing.input, input);
        let stopping = ExecutionStart::stopping("tenant-1", test_id, 3);
        assert_eq!(stopping, ExecutionStart { name: format!("{id}-stop"), input });
    }

    #[test]
    fn an_execution_has_the_name_of_its_machine_in_its_arn() {
        let machine = "arn:aws:states:sa-east-1:123456789012:stateMachine:gateway-load-tests";
        assert_eq!(
            execution_arn(machine, "0f0e"),
            "arn:aws:states:sa-east-1:123456789012:execution:gateway-load-tests:0f0e"
        );
    }
}
