//! Error of an AWS call: the service and the action that were called, and the reason.

use std::error::Error;
use std::fmt;

use runtime::ActionError;
use secrecy::ExposeSecret as _;

use crate::aws;
use crate::exit::{Exit, Failure, chain};

/// Kind of a failed AWS call. It determines the exit code and the advice for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwsErrorKind {
    /// The program found no usable credentials.
    NoCredentials,
    /// The credentials lack the permission, or are invalid.
    Denied,
    /// The AWS service throttled the call, or is temporarily unavailable.
    Temporary,
    /// No response arrived, because of the network, the region or a proxy.
    Unreachable,
    /// The service refused the call for another reason, such as a resource that does not exist.
    Other,
}

/// Error of a failed AWS call: what was called, and why it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AwsError {
    /// Name of the AWS service, as in its host name.
    pub(crate) service: String,
    /// Action of the AWS service that failed, such as `DescribeStacks`.
    pub(crate) action: String,
    /// Kind of the failure, which determines the exit code and the advice for the user.
    pub(crate) kind: AwsErrorKind,
    /// Error code of the AWS service, or a description if there is no code.
    pub(crate) code: String,
    /// Message of the AWS service, or the cause of a failure without one.
    pub(crate) message: String,
}

impl AwsError {
    fn new(service: &str, action: &str, kind: AwsErrorKind, code: &str, message: &str) -> Self {
        let [service, action, code, message] = [service, action, code, message].map(str::to_owned);
        Self { service, action, kind, code, message }
    }

    pub(super) fn unreadable(service: &str, action: &str) -> Self {
        Self::new(service, action, AwsErrorKind::Other, "unreadable answer", "it is not an answer of AWS")
    }

    /// Converts the error of a signed AWS call, and determines its kind.
    pub(super) fn of(service: &str, action: &str, error: &ActionError) -> Self {
        let (kind, code) = match error {
            ActionError::Refused { code, message, .. } => {
                let kind = match code.as_str() {
                    code if aws::is_denied(code) => AwsErrorKind::Denied,
                    code if aws::is_temporary(code) || error.may_pass() => AwsErrorKind::Temporary,
                    _ => AwsErrorKind::Other,
                };
                return Self::new(service, action, kind, code, message.expose_secret());
            }
            ActionError::Credentials(_) => (AwsErrorKind::NoCredentials, "no credentials"),
            ActionError::Request(_) => (AwsErrorKind::Other, "unusable request"),
            ActionError::Unanswered(_) | ActionError::TimedOut => (AwsErrorKind::Unreachable, "no answer"),
        };
        let why = error.source().map_or_else(|| error.to_string(), chain);
        Self::new(service, action, kind, code, &why)
    }

    /// Returns the IAM permission that the call needs, as policies write it.
    pub(crate) fn permission(&self) -> String {
        let service = match self.service.as_str() {
            "monitoring" => "cloudwatch",
            other => other,
        };
        format!("{service}:{}", self.action)
    }

    /// Converts the error to the failure of a command; `attempt` completes the sentence "could not
    /// …".
    pub(crate) fn into_failure(self, attempt: &str) -> Failure {
        let (exit, next) = match self.kind {
            AwsErrorKind::NoCredentials => (
                Exit::Denied,
                Some(
                    "log in (aws sso login, aws configure), or name a profile: --aws-profile NAME".to_owned(),
                ),
            ),
            AwsErrorKind::Denied => {
                (Exit::Denied, Some(format!("the credentials need the right {}", self.permission())))
            }
            AwsErrorKind::Temporary => (Exit::Temporary, None),
            AwsErrorKind::Unreachable => (
                Exit::Temporary,
                Some("check the network, the region and the proxy (HTTPS_PROXY)".to_owned()),
            ),
            AwsErrorKind::Other => (Exit::Error, None),
        };
        let failure = Failure::new(exit, format!("could not {attempt}")).why(self.to_string());
        Failure { next, ..failure }
    }
}

impl fmt::Display for AwsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} failed: {}", self.permission(), self.code)?;
        if !self.message.is_empty() {
            write!(formatter, ": {}", self.message)?;
        }
        Ok(())
    }
}

impl Error for AwsError {}
