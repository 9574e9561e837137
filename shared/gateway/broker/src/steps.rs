//! Steps on the way to a queue, and the report of a connection test.

use std::time::Duration;

use mq::{BrokerError, BrokerKind, TestReport, TestStep};

use crate::latencies::milliseconds;

/// Step of connecting to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "`steps` of `ConnectionTestResult` in openapi.yaml describes each one")]
pub enum Step {
    Resolve,
    Connect,
    Tls,
    Authenticate,
    OpenQueue,
}

impl Step {
    const ALL: [Self; 5] = [Self::Resolve, Self::Connect, Self::Tls, Self::Authenticate, Self::OpenQueue];

    /// Returns the name of the step in the report of a connection test.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Authenticate => "authenticate",
            Self::OpenQueue => "openQueue",
        }
    }
}

/// Completed steps of connecting, with their durations. A step that the client library performs
/// together with another has a duration of zero.
#[derive(Debug, Default)]
pub struct StepLog(pub Vec<(Step, Duration)>);

impl StepLog {
    /// Builds the report of a connection test from the completed steps and the step that failed, if
    /// one did, and logs the failure. The caller fills the version, latency and blocked reason.
    #[must_use]
    pub fn report(&self, broker: BrokerKind, failure: Option<(Step, &BrokerError)>) -> TestReport {
        if let Some((step, error)) = failure {
            let (step, error): (_, &dyn std::error::Error) = (step.name(), error);
            tracing::warn!(
                event_type = "connection.test_failed",
                step,
                error,
                "The connection test failed at step {step}: {error}"
            );
        }
        TestReport {
            ok: failure.is_none(),
            product: broker.product().to_owned(),
            version: None,
            latency_ms: None,
            blocked: None,
            steps: Step::ALL.into_iter().map(|step| self.shown(broker, step, failure)).collect(),
        }
    }

    fn shown(&self, broker: BrokerKind, step: Step, failure: Option<(Step, &BrokerError)>) -> TestStep {
        let took = self.0.iter().find(|(done, _)| *done == step).map(|(_, took)| *took);
        let duration_ms = took.filter(|took| !took.is_zero()).map(milliseconds);
        let shown = TestStep { name: step.name(), duration_ms, ..TestStep::default() };
        match failure {
            Some((at, error)) if at == step => TestStep {
                ok: Some(false),
                code: Some(code(broker, step, error)),
                detail: Some(error.to_string()),
                ..shown
            },
            _ if took.is_some() => TestStep { ok: Some(true), ..shown },
            _ => TestStep { skipped: true, ..shown },
        }
    }
}

/// Returns the error code that a connection test reports for its failed step.
fn code(broker: BrokerKind, step: Step, error: &BrokerError) -> &'static str {
    match (error, step) {
        (BrokerError::Timeout { .. }, _) => "BROKER_TIMEOUT",
        (_, Step::Tls) => "TLS_FAILED",
        (BrokerError::Rejected { .. }, Step::Authenticate) => match broker {
            BrokerKind::IbmMq => "QUEUE_MANAGER_REFUSED",
            BrokerKind::RabbitMq => "VIRTUAL_HOST_REFUSED",
        },
        (BrokerError::QueueNotFound { .. }, _) => "QUEUE_NOT_FOUND",
        (BrokerError::AuthenticationFailed { .. }, _) => "AUTHENTICATION_FAILED",
        (BrokerError::Unreachable { .. }, _) => "BROKER_UNREACHABLE",
        (BrokerError::AddressRefused { .. }, _) => "TARGET_NOT_ALLOWED",
        (BrokerError::PoolTimeout { .. }, _) => "POOL_TIMEOUT",
        (BrokerError::Unsupported { .. }, _) => "UNSUPPORTED_BY_BROKER",
        (
            BrokerError::Rejected { .. }
            | BrokerError::ExchangeNotFound { .. }
            | BrokerError::Unroutable { .. }
            | BrokerError::QueueFull { .. }
            | BrokerError::InDoubt { .. }
            | BrokerError::MessageTooLarge { .. },
            _,
        ) => "BROKER_REJECTED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_after_the_one_that_failed_are_skipped() {
        let log = StepLog(vec![(Step::Resolve, Duration::from_millis(2)), (Step::Connect, Duration::ZERO)]);
        let error = BrokerError::unreachable("no TLS connection");
        let report = log.report(BrokerKind::IbmMq, Some((Step::Tls, &error)));
        assert!(!report.ok);
        let shown: Vec<_> =
            report.steps.iter().map(|step| (step.ok, step.skipped, step.duration_ms, step.code)).collect();
        assert_eq!(
            shown,
            [
                (Some(true), false, Some(2.0), None),
                (Some(true), false, None, None),
                (Some(false), false, None, Some("TLS_FAILED")),
                (None, true, None, None),
                (None, true, None, None),
            ]
        );
    }

    #[test]
    fn a_refused_login_names_what_the_broker_calls_it() {
        let error = BrokerError::rejected("no");
        for (broker, expected) in
            [(BrokerKind::IbmMq, "QUEUE_MANAGER_REFUSED"), (BrokerKind::RabbitMq, "VIRTUAL_HOST_REFUSED")]
        {
            assert_eq!(code(broker, Step::Authenticate, &error), expected);
        }
    }
}
