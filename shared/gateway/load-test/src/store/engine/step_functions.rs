//! AWS Step Functions as the engine: a state machine of the type Standard.

use std::error::Error;

use async_trait::async_trait;
use aws_sdk_sfn::Client;
use aws_sdk_sfn::config::http::HttpResponse;
use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sfn::types::ExecutionStatus;
use uuid::Uuid;

use super::{Engine, EngineError, Start};

/// Codes of errors that a person has to mend.
const REFUSALS: [&str; 8] = [
    "AccessDeniedException",
    "InvalidArn",
    "InvalidExecutionInput",
    "InvalidName",
    "StateMachineDeleting",
    "StateMachineDoesNotExist",
    "UnrecognizedClientException",
    "ValidationException",
];

/// A state machine that runs tests.
#[derive(Clone, Debug)]
pub struct StepFunctions {
    client: Client,
    state_machine_arn: String,
}

impl StepFunctions {
    /// Makes the engine of a state machine, without a version or an alias in its ARN.
    #[must_use]
    pub const fn new(client: Client, state_machine_arn: String) -> Self {
        Self { client, state_machine_arn }
    }

    fn execution_arn(&self, test_id: Uuid) -> String {
        execution_arn(&self.state_machine_arn, &test_id.to_string())
    }
}

#[async_trait]
impl Engine for StepFunctions {
    async fn start(&self, start: &Start) -> Result<(), EngineError> {
        let request = self
            .client
            .start_execution()
            .state_machine_arn(&self.state_machine_arn)
            .name(&start.name)
            .input(start.input.to_string());
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("ExecutionAlreadyExists") => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    async fn stop(&self, test_id: Uuid) -> Result<(), EngineError> {
        let request = self.client.stop_execution().execution_arn(self.execution_arn(test_id));
        match request.cause("the load test was stopped").send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("ExecutionDoesNotExist") => Ok(()),
            Err(error) => {
                // An execution that is over may be refused.
                if self.is_gone(test_id).await? { Ok(()) } else { Err(failed(error)) }
            }
        }
    }

    async fn is_gone(&self, test_id: Uuid) -> Result<bool, EngineError> {
        let request = self.client.describe_execution().execution_arn(self.execution_arn(test_id));
        match request.send().await {
            Ok(execution) => Ok(execution.status != ExecutionStatus::Running),
            Err(error) if error.code() == Some("ExecutionDoesNotExist") => Ok(true),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Returns the ARN of an execution of a state machine.
fn execution_arn(state_machine_arn: &str, name: &str) -> String {
    format!("{}:{name}", state_machine_arn.replacen(":stateMachine:", ":execution:", 1))
}

fn failed<E>(error: SdkError<E, HttpResponse>) -> EngineError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let is_refusal = error.code().is_some_and(|code| REFUSALS.contains(&code));
    if is_refusal { EngineError::Refused(error.into()) } else { EngineError::Unavailable(error.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_has_the_name_of_its_machine_in_its_arn() {
        let machine = "arn:aws:states:sa-east-1:123456789012:stateMachine:gateway-load-tests";
        assert_eq!(
            execution_arn(machine, "0f0e"),
            "arn:aws:states:sa-east-1:123456789012:execution:gateway-load-tests:0f0e"
        );
    }
}
