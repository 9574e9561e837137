//! A stand-in for SQS that gives prepared answers and records the calls.

use std::collections::VecDeque;
use std::sync::Mutex;

use aws::Sdk;
use aws_sdk_sqs::Client;
use serde_json::Value;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

pub(crate) struct Queue {
    server: MockServer,
    pub(crate) client: Client,
    pub(crate) url: String,
}

#[derive(Debug)]
pub(crate) struct Call {
    /// As `AmazonSQS.SendMessage`.
    pub(crate) operation: String,
    pub(crate) body: Value,
}

/// One answer to each call. After the last one, calls fail.
struct Answers(Mutex<VecDeque<Value>>);

impl Respond for Answers {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        let answer = self.0.lock().unwrap().pop_front();
        answer.map_or(ResponseTemplate::new(500), |answer| ResponseTemplate::new(200).set_body_json(answer))
    }
}

impl Queue {
    pub(crate) async fn answering(answers: Vec<Value>) -> Self {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(Answers(Mutex::new(answers.into()))).mount(&server).await;
        let sdk = Sdk::at(&server.uri(), "us-east-1", "key", "secret").await;
        let url = format!("{}/000000000000/queue-of-ours", server.uri());
        Self { client: Client::new(sdk.standard()), url, server }
    }

    pub(crate) async fn calls(&self) -> Vec<Call> {
        let call = |request: Request| Call {
            operation: request.headers["x-amz-target"].to_str().unwrap().to_owned(),
            body: request.body_json().unwrap(),
        };
        self.server.received_requests().await.unwrap().into_iter().map(call).collect()
    }
}
