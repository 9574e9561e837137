//! Errors of requests to start a load test that are well-formed, but contradict themselves or
//! exceed a limit of the deployment.

/// Fault of a request to start a load test, with a JSON Pointer to the member at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}{}{detail}", if .pointer.is_empty() { "" } else { ": " })]
pub struct RequestError {
    /// Kind of the fault: a contradiction in the request, or an exceeded limit of the deployment.
    pub kind: RequestErrorKind,
    /// JSON Pointer (RFC 6901) to the member at fault; empty for the whole body.
    pub pointer: String,
    /// Description of the fault for the caller, to be read after the name of the member, such as
    /// "must be shorter than the test".
    pub detail: String,
}

/// Kind of the fault in a request to start a load test, which decides the HTTP status of the
/// response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestErrorKind {
    /// Members contradict each other: the same request is wrong in every deployment (400).
    Contradiction,
    /// The test exceeds a limit of this deployment, which `detail` names (422).
    BeyondLimit,
}

impl RequestError {
    pub(crate) fn contradiction(pointer: &str, detail: &str) -> Self {
        Self { kind: RequestErrorKind::Contradiction, pointer: pointer.to_owned(), detail: detail.to_owned() }
    }

    pub(crate) fn beyond_limit(pointer: &str, detail: String) -> Self {
        Self { kind: RequestErrorKind::BeyondLimit, pointer: pointer.to_owned(), detail }
    }
}
