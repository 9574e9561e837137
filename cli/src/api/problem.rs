//! Conversion of unsuccessful responses of the API to failures, which have an exit code and up to
//! three lines of text.

use std::time::Duration;

use ::api::Reason;
use serde::Deserialize;

use super::Answer;
use crate::exit::{Exit, Failure};

/// Reason why a request to the API had no successful response.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// HTTP status of the response; `None` if no response arrived.
    pub(crate) status: Option<u16>,
    /// Member `reason` of the problem document; `None` if no response arrived, or if the response
    /// is not a problem document, such as a response of API Gateway itself or of a proxy.
    pub(crate) reason: Option<String>,
    /// Number of messages that a failed request put or moved before it failed, from the response's
    /// `enqueued` or `moved`; `None` if the response has neither.
    pub(crate) done: Option<u64>,
    /// Failure that the command shows to its user.
    pub(crate) failure: Failure,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        refusal.failure
    }
}

impl From<Failure> for Refusal {
    /// Converts a failure that occurred before the API answered.
    fn from(failure: Failure) -> Self {
        Self { status: None, reason: None, done: None, failure }
    }
}

impl Refusal {
    /// Returns whether the API answered with a problem document that has this `reason`.
    pub(crate) fn is(&self, reason: &str) -> bool {
        self.reason.as_deref() == Some(reason)
    }
}

/// Members of a problem document that the program uses. Responses of API Gateway itself have only
/// `message`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Problem {
    title: Option<String>,
    detail: Option<String>,
    pub(super) reason: Option<String>,
    trace_id: Option<String>,
    message: Option<String>,
    errors: Vec<Fault>,
    enqueued: Option<u64>,
    moved: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fault {
    pointer: String,
    detail: String,
}

impl Problem {
    /// Parses the body of a response. If it is not a problem document, all members are absent.
    pub(super) fn of(answer: &Answer) -> Self {
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }

    /// Converts the unsuccessful response `answer` to a refusal: an exit code, and the texts for
    /// people. `trace_id` is the one that the request had. `source_of_key` describes the option,
    /// variable or file that the API key comes from.
    pub(super) fn refusal(self, answer: &Answer, trace_id: &str, source_of_key: &str) -> Refusal {
        let status = answer.status;
        let reason = self.reason.as_deref();
        let what = match (&self.title, &self.message) {
            (Some(title), _) => title.clone(),
            (None, Some(message)) => format!("The API's front answered {status}: {message}"),
            (None, None) => format!("The API answered {status}, and not in the form of this API"),
        };
        let trace_id = self.trace_id.as_deref().or_else(|| answer.header("x-trace-id")).unwrap_or(trace_id);
        let mut why = self.detail.clone().unwrap_or_default();
        // The first fault is the detail.
        for fault in self.errors.iter().skip(1) {
            why = format!("{why}; {}: {}", fault.pointer, fault.detail);
        }
        if !why.is_empty() {
            why.push(' ');
        }
        let name = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        let why = format!("{why}({status}{name}, trace id {trace_id})");
        let failure = Failure::new(exit(status, reason, answer.retry_after().is_some()), what).why(why);
        let failure = Failure { next: next(status, reason, source_of_key), ..failure };
        let done = self.enqueued.or(self.moved);
        Refusal { status: Some(status), done, failure, reason: self.reason }
    }
}

/// Returns the exit code for an unsuccessful response, by its HTTP status and the `reason` of its
/// problem document (`None` for another body). `has_retry_after` is true if the response has the
/// header `Retry-After`.
fn exit(status: u16, reason: Option<&str>, has_retry_after: bool) -> Exit {
    match (status, reason) {
        (401 | 403, _) => Exit::Denied,
        (429, Some("BUDGET_EXCEEDED" | "KEY_REUSE_ABUSE"))
        | (502, Some("BROKER_REJECTED" | "AUTHENTICATION_FAILED")) => Exit::Refused,
        (409, _) if has_retry_after => Exit::Temporary,
        (429 | 500.., _) => Exit::Temporary,
        // A proxy or another server answered. The API gives a reason, except for what is too large.
        (400.., None) if status != 413 => Exit::Temporary,
        (400.., _) => Exit::Refused,
        _ => Exit::Error,
    }
}

/// Returns the step that the user should take next, as a sentence; `None` if no step is known.
/// `reason` is that of the problem document. `source_of_key` describes where the API key comes
/// from.
fn next(status: u16, reason: Option<&str>, source_of_key: &str) -> Option<String> {
    let known = Reason::ALL.iter().find(|known| Some(known.as_str()) == reason);
    match (known, status) {
        (Some(Reason::ApiKeyInvalid), _) => Some(format!(
            "the API key came from {source_of_key}: correct it there, or ask the operator for another"
        )),
        (Some(reason), _) => Some(reason.action().replace('`', "")),
        (None, 413) => Some("send less at a time".to_owned()),
        (None, 429 | 500 | 502..=504) => Some("run the same command again later".to_owned()),
        (None, 403 | 404) => Some("check the address: integrahub whoami shows it".to_owned()),
        (None, _) => None,
    }
}

/// Builds the refusal of a request to which no complete response arrived. `address` is the API's
/// base URL, `waited` the time that all attempts took.
pub(super) fn unanswered(
    error: &super::http::HttpError,
    address: &str,
    trace_id: &str,
    waited: Duration,
) -> Refusal {
    let why = crate::exit::chain(error);
    if matches!(error, super::http::HttpError::Request(_)) {
        return Failure::usage(format!("a request to {address} has a part that none can have"))
            .why(why)
            .next("look for a blank or a line break in what is part of its path, its query or a header")
            .into();
    }
    let clock = ["NotValidYet", "Expired", "not valid yet", "expired"].iter().any(|word| why.contains(word));
    let next = if clock {
        "compare the clock of this machine with the real time, then the server's certificate"
    } else {
        "check the address and the network, and run the same command again"
    };
    let failure = Failure::new(Exit::Temporary, format!("{address} does not answer"))
        .why(format!("{why} (tried for {} s, trace id {trace_id})", waited.as_secs()))
        .next(next);
    Refusal { status: None, reason: None, done: None, failure }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::{Value, json};

    use super::super::http::HttpError;
    use super::*;

    fn refused(status: u16, body: &Value) -> Refusal {
        let answer = Answer { status, headers: HeaderMap::new(), body: body.to_string().into(), attempts: 1 };
        Problem::of(&answer).refusal(&answer, "sent-id", "a test")
    }

    #[test]
    fn a_problem_says_what_why_and_what_next() {
        let refusal = refused(
            404,
            &json!({
                "title": "The queue does not exist",
                "detail": "the queue `Q` does not exist",
                "reason": "QUEUE_NOT_FOUND",
                "traceId": "t-1",
                "unknown": [1],
            }),
        );
        assert!(refusal.is("QUEUE_NOT_FOUND"));
        let text = Failure::from(refusal).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "The queue does not exist");
        assert_eq!(lines[1], "the queue `Q` does not exist (404 QUEUE_NOT_FOUND, trace id t-1)");
        assert!(lines[2].starts_with("Correct the name of the queue"), "{text}");
    }

    #[test]
    fn every_fault_of_a_body_is_shown() {
        let refusal = refused(
            400,
            &json!({"title": "t", "detail": "/a: x", "reason": "SCHEMA_VIOLATION",
                "errors": [{"pointer": "/a", "detail": "x"}, {"pointer": "/b", "detail": "y"}]}),
        );
        assert!(refusal.failure.why.unwrap().starts_with("/a: x; /b: y (400"));
    }

    #[test]
    fn the_front_and_strangers_are_understood_too() {
        let front = refused(503, &json!({"message": "Service Unavailable"})).failure;
        assert_eq!((front.exit, front.why.as_deref()), (Exit::Temporary, Some("(503, trace id sent-id)")));
        let strange = refused(404, &json!("<html>")).failure;
        assert_eq!(strange.exit, Exit::Temporary);
        assert!(strange.next.unwrap().contains("check the address"));
    }

    #[test]
    fn each_answer_has_the_exit_code_that_says_whether_to_try_again() {
        for (status, reason, code) in [
            (401, "API_KEY_INVALID", 4),
            (403, "SCOPE_REQUIRED", 4),
            (400, "SCHEMA_VIOLATION", 6),
            (404, "BATCH_NOT_FOUND", 6),
            (409, "CONFLICTING_IDEMPOTENT_REQUEST", 6),
            (413, "MAX_PAYLOAD_EXCEEDED", 6),
            (422, "EXCEEDS_VOLUME", 6),
            (429, "TENANT_RATE_LIMIT", 5),
            (429, "KEY_REUSE_ABUSE", 6),
            (429, "BUDGET_EXCEEDED", 6),
            (502, "AUTHENTICATION_FAILED", 6),
            (502, "QUEUE_FULL", 5),
            (503, "BROKER_UNREACHABLE", 5),
            (504, "BROKER_TIMEOUT", 5),
        ] {
            let refusal = refused(status, &json!({"reason": reason}));
            assert_eq!(refusal.failure.exit.code(), code, "{reason}");
        }
    }

    #[test]
    fn the_network_is_not_to_blame_for_a_request_that_cannot_be_sent() {
        let of = |error: HttpError| unanswered(&error, "https://a.test", "t-1", Duration::ZERO).failure;
        let mine = of(HttpError::Request("invalid uri character".into()));
        assert_eq!(mine.exit, Exit::Usage);
        assert_eq!(mine.why.as_deref(), Some("the request cannot be sent: invalid uri character"));
        assert!(!mine.to_string().contains("network"), "{mine}");
        let theirs = of(HttpError::Connection("refused".into()));
        assert!(theirs.exit == Exit::Temporary && theirs.next.unwrap().contains("network"));
    }

    #[test]
    fn an_unknown_key_says_where_it_came_from() {
        let failure = refused(401, &json!({"reason": "API_KEY_INVALID"})).failure;
        assert!(failure.next.unwrap().contains("came from a test"));
    }
}
