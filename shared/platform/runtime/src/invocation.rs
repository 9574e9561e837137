//! Wrapper of every function: it logs why the function cannot start, why an invocation failed as a
//! whole, and where it panicked.
//!
//! Without it, a failed start would be a debug print outside the log's envelope, and the runtime
//! would log the name of an error's variant.

use std::any::type_name;
use std::error::Error;
use std::panic::PanicHookInfo;
use std::process::ExitCode;
use std::time::SystemTime;

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde::Serialize;
use serde_json::Value;

/// Maximum number of characters of a panic's message that are logged.
const LONGEST_PANIC: usize = 300;

/// Runs the function `name`: initializes the log by `LOG_LEVEL`, and then runs `serve`, which reads
/// the settings and handles invocations until the process ends. If `serve` fails, the error is
/// logged and the exit code is a failure.
pub async fn run<E>(name: &str, serve: impl Future<Output = Result<(), E>>) -> ExitCode
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    crate::log::init(&std::env::var("LOG_LEVEL").unwrap_or_default());
    std::panic::set_hook(Box::new(log_panic));
    // Boxed: the futures of a start are large.
    match Box::pin(serve).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error: Box<dyn Error + Send + Sync> = error.into();
            log_unusable(name, error.as_ref());
            ExitCode::FAILURE
        }
    }
}

fn log_unusable(name: &str, error: &(dyn Error + 'static)) {
    tracing::error!(
        event_type = "function.unusable",
        function = name,
        error,
        "the function {name} cannot start or go on: {error}"
    );
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let message: String = panic.payload_as_str().unwrap_or_default().chars().take(LONGEST_PANIC).collect();
    let place = panic.location().map(ToString::to_string);
    tracing::error!(event_type = "function.panicked", place, panic = message, "the function panicked");
}

/// Handles all invocations of a Lambda function by `handle`, whose arguments are the event and the
/// time at which Lambda ends the invocation.
///
/// # Errors
/// If Lambda's runtime client fails.
pub async fn serve<T: Serialize, E: Error + 'static>(
    handle: impl AsyncFn(Value, SystemTime) -> Result<T, E>,
) -> Result<(), lambda_runtime::Error> {
    let handle = &handle;
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Value>| {
        let ends_at = event.context.deadline();
        // Boxed: the futures of functions are large, and nest deeply.
        answered(Box::pin(handle(event.payload, ends_at)).await)
    }))
    .await
}

/// Logs the error of a failed invocation with all of its sources. The invoker receives only the
/// error's type, its text and the text of its first source: the sources of a database error contain
/// values.
///
/// # Errors
/// If the invocation failed: its error as a diagnostic for Lambda.
pub fn answered<T, E: Error + 'static>(answer: Result<T, E>) -> Result<T, Diagnostic> {
    answer.map_err(|error| {
        let cause: &dyn Error = &error;
        let error_type = short_name(type_name::<E>());
        tracing::error!(
            event_type = "invocation.failed",
            error_type,
            error = cause,
            "the invocation failed as a whole: {cause}"
        );
        Diagnostic { error_type: error_type.to_owned(), error_message: with_cause(&error) }
    })
}

/// Returns the last segment of a type's path, without generic parameters.
fn short_name(name: &'static str) -> &'static str {
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}

fn with_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::tests::logged;

    #[derive(Debug, thiserror::Error)]
    enum Whole<T> {
        #[error("the event is malformed")]
        Form(#[source] std::num::ParseIntError),
        #[error("never")]
        _Other(T),
    }

    #[test]
    fn an_invocation_that_fails_as_a_whole_is_named_with_its_cause() {
        let mut answer = Ok(());
        let line = logged(|| {
            let error: Whole<u8> = Whole::Form("x".parse::<u8>().unwrap_err());
            answer = answered(Err(error));
        });
        let failed = answer.unwrap_err();
        assert_eq!(failed.error_type, "Whole");
        assert_eq!(failed.error_message, "the event is malformed: invalid digit found in string");
        assert_eq!((&line["event_type"], &line["level"]), (&"invocation.failed".into(), &"error".into()));
        assert_eq!(line["context"]["error"], failed.error_message);
        assert_eq!(line["context"]["error_type"], "Whole");
        assert!(answered(Ok::<_, Whole<u8>>(7)).is_ok_and(|answer| answer == 7));
    }

    #[test]
    fn a_function_that_cannot_start_says_so_in_the_envelope() {
        let error = Whole::<u8>::Form("x".parse::<u8>().unwrap_err());
        let line = logged(|| log_unusable("chunker", &error));
        assert_eq!(line["event_type"], "function.unusable");
        assert_eq!(line["context"]["function"], "chunker");
        assert_eq!(line["context"]["error"], "the event is malformed: invalid digit found in string");
    }

    #[tokio::test]
    async fn a_start_that_fails_ends_the_process_with_an_error() {
        let start = |outcome: Result<(), &'static str>| run("chunker", async move { outcome });
        assert_eq!(start(Err("no settings")).await, ExitCode::FAILURE);
        assert_eq!(start(Ok(())).await, ExitCode::SUCCESS);
    }
}
