//! Failures of a call, with what was called and why it failed.

use std::error::Error;
use std::fmt;

use http::StatusCode;
use serde_json::Value;

use super::xml::Node;
use crate::aws;
use crate::exit::{Exit, Failure, chain};

/// Longest text of an answer that is shown as it is.
const SHOWN: usize = 200;

/// Kind of a failure, by what helps against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwsErrorKind {
    /// There are no credentials that can be used.
    NoCredentials,
    /// The credentials have not the right, or are not valid.
    Denied,
    /// The service is throttled or ill for a while.
    Temporary,
    /// There was no answer: the network, the region or a proxy.
    Unreachable,
    /// The service refused the call for another reason, such as something that does not exist.
    Other,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AwsError {
    /// Service, as in its host name.
    pub(crate) service: String,
    /// Action of the service.
    pub(crate) action: String,
    /// Kind of the failure.
    pub(crate) kind: AwsErrorKind,
    /// Code that the service gave, or words in its place.
    pub(crate) code: String,
    /// Message of the service.
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

    pub(super) fn unusable(service: &str, action: &str, why: &str) -> Self {
        Self::new(service, action, AwsErrorKind::Other, "unusable request", why)
    }

    pub(super) fn unreachable(service: &str, action: &str, error: &(dyn Error + 'static)) -> Self {
        Self::new(service, action, AwsErrorKind::Unreachable, "no answer", &chain(error))
    }

    pub(super) fn no_credentials(service: &str, action: &str, error: &(dyn Error + 'static)) -> Self {
        Self::new(service, action, AwsErrorKind::NoCredentials, "no credentials", &chain(error))
    }

    /// Reads the answer of a service that failed: XML or JSON.
    pub(super) fn answered(service: &str, action: &str, status: StatusCode, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let (code, message) = from_json(body)
            .or_else(|| from_xml(&text))
            .unwrap_or_else(|| (format!("status {}", status.as_u16()), text.chars().take(SHOWN).collect()));
        let kind = match code.as_str() {
            code if aws::is_denied(code) => AwsErrorKind::Denied,
            code if aws::is_temporary(code) || status.is_server_error() => AwsErrorKind::Temporary,
            _ => AwsErrorKind::Other,
        };
        Self::new(service, action, kind, &code, &message)
    }

    /// Returns the right that the call needs, as policies name it.
    pub(crate) fn permission(&self) -> String {
        let service = match self.service.as_str() {
            "monitoring" => "cloudwatch",
            other => other,
        };
        format!("{service}:{}", self.action)
    }

    /// Makes a failure of a command; `attempt` completes the sentence "could not …".
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
        match next {
            Some(next) => failure.next(next),
            None => failure,
        }
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

/// Reads `{"__type": "namespace#Code", "message": "…"}`.
fn from_json(body: &[u8]) -> Option<(String, String)> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let code = text("__type").or_else(|| text("code"))?;
    let code = code.rsplit_once('#').map_or(code, |(_, code)| code);
    let message = text("message").or_else(|| text("Message")).unwrap_or_default();
    Some((code.to_owned(), message.to_owned()))
}

/// Reads an element `Error` with `Code` and `Message`, at any depth.
fn from_xml(text: &str) -> Option<(String, String)> {
    let root = Node::parse(text)?;
    let code = root.find("Code")?.text.clone();
    Some((code, root.text_of("Message").to_owned()))
}
