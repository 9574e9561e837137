//! The address that a request names for its answer.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::Value;
use tokio::net::TcpListener;

#[derive(Clone, Default)]
struct Seen {
    answers: Arc<Mutex<Vec<Value>>>,
    refusals: Arc<Mutex<Vec<u16>>>,
}

pub(crate) struct Listener {
    /// With an encoded path and query, as presigned URLs have them.
    pub(crate) url: String,
    seen: Seen,
}

impl Listener {
    /// Refuses with these one after the other, and then takes everything.
    pub(crate) async fn start(refusals: &[u16]) -> Self {
        let seen = Seen::default();
        seen.refusals.lock().unwrap().extend(refusals.iter().rev());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "http://{}/arn%3Aaws%3Acloudformation%7Cx?Signature=a%2Bb",
            listener.local_addr().unwrap()
        );
        let app = Router::new().fallback(take).with_state(seen.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, seen }
    }

    pub(crate) fn answers(&self) -> Vec<Value> {
        self.seen.answers.lock().unwrap().clone()
    }
}

async fn take(
    State(seen): State<Seen>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
    assert_eq!(method, Method::PUT);
    assert_eq!(uri.to_string(), "/arn%3Aaws%3Acloudformation%7Cx?Signature=a%2Bb");
    // The URL is signed for a request without one.
    assert!(!headers.contains_key("content-type"));
    seen.answers.lock().unwrap().push(serde_json::from_str(&body).unwrap());
    let refusal = seen.refusals.lock().unwrap().pop();
    refusal.map_or(StatusCode::OK, |status| StatusCode::from_u16(status).unwrap())
}
