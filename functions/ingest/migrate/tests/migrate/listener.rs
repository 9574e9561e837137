//! Fake server at the response URL of CloudFormation's request.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use test_support::http_server::{Answer, Server, response};

#[derive(Clone, Default)]
struct ListenerState {
    answers: Arc<Mutex<Vec<Value>>>,
    refusals: Arc<Mutex<Vec<u16>>>,
}

pub(crate) struct Listener {
    /// URL of the listener, with an encoded path and query like those of presigned URLs.
    pub(crate) url: String,
    state: ListenerState,
    _server: Server,
}

impl Listener {
    /// Starts a listener that answers the first requests with the statuses `refusals`, in order,
    /// and all later ones with 200.
    pub(crate) async fn start(refusals: &[u16]) -> Self {
        let state = ListenerState::default();
        state.refusals.lock().unwrap().extend(refusals.iter().rev());
        let taken = state.clone();
        let server = Server::start(move |request| {
            let state = taken.clone();
            async move { take(&state, &request) }
        })
        .await;
        let url = format!("{}/arn%3Aaws%3Acloudformation%7Cx?Signature=a%2Bb", server.url());
        Self { url, state, _server: server }
    }

    pub(crate) fn answers(&self) -> Vec<Value> {
        self.state.answers.lock().unwrap().clone()
    }
}

fn take(state: &ListenerState, request: &Request<Bytes>) -> Answer {
    assert_eq!(request.method(), Method::PUT);
    assert_eq!(request.uri().to_string(), "/arn%3Aaws%3Acloudformation%7Cx?Signature=a%2Bb");
    // The URL is signed for a request without one.
    assert!(!request.headers().contains_key("content-type"));
    state.answers.lock().unwrap().push(serde_json::from_slice(request.body()).unwrap());
    let refusal = state.refusals.lock().unwrap().pop();
    Some(response(refusal.unwrap_or(200), ""))
}
