//! Stand-in for SQS that returns prepared responses and records the calls.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

#[derive(Debug)]
pub struct FakeSqs(MockServer);

/// Call to SQS, as the SDK sent it.
#[derive(Clone, Debug)]
pub struct Call {
    /// Operation in the form of the header `X-Amz-Target`, such as `AmazonSQS.SendMessage`.
    pub operation: String,
    pub body: Value,
}

impl FakeSqs {
    /// Starts a fake SQS that answers every call with an empty JSON object.
    pub async fn accepting() -> Self {
        Self::responding(ResponseTemplate::new(200).set_body_json(json!({}))).await
    }

    /// Starts a fake SQS that answers every call only after a minute.
    pub async fn silent() -> Self {
        Self::responding(ResponseTemplate::new(200).set_delay(Duration::from_mins(1))).await
    }

    /// Starts a fake SQS that returns these answers, one to each call. Later calls fail with status
    /// 500.
    pub async fn answering(answers: Vec<Value>) -> Self {
        let answers = Mutex::new(VecDeque::from(answers));
        Self::responding(move |_: &Request| match answers.lock().unwrap().pop_front() {
            Some(answer) => ResponseTemplate::new(200).set_body_json(answer),
            None => ResponseTemplate::new(500),
        })
        .await
    }

    async fn responding(answer: impl Respond + 'static) -> Self {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(answer).mount(&server).await;
        Self(server)
    }

    /// Returns the endpoint URL to configure in an SQS client.
    pub fn endpoint(&self) -> String {
        self.0.uri()
    }

    /// Returns the URL of the one queue of the fake SQS.
    pub fn queue_url(&self) -> String {
        format!("{}/000000000000/queue-of-ours", self.0.uri())
    }

    /// Returns all calls so far.
    pub async fn calls(&self) -> Vec<Call> {
        let call = |request: Request| Call {
            operation: request.headers["x-amz-target"].to_str().unwrap().to_owned(),
            body: request.body_json().unwrap(),
        };
        self.0.received_requests().await.unwrap().into_iter().map(call).collect()
    }
}
