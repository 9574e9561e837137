//! A stand-in for SQS that records the calls.

use std::time::Duration;

use aws::Sdk;
use aws_sdk_sqs::Client;
use serde_json::{Value, json};
use wiremock::matchers::header;
use wiremock::{Mock, MockServer, ResponseTemplate};

pub(crate) struct Queue {
    server: MockServer,
    client: Client,
}

impl Queue {
    /// Takes every call.
    pub(crate) async fn start() -> Self {
        Self::answering(ResponseTemplate::new(200).set_body_json(json!({}))).await
    }

    /// Answers a minute late.
    pub(crate) async fn silent() -> Self {
        Self::answering(ResponseTemplate::new(200).set_delay(Duration::from_mins(1))).await
    }

    async fn answering(answer: ResponseTemplate) -> Self {
        let server = MockServer::start().await;
        let calls = Mock::given(header("x-amz-target", "AmazonSQS.ChangeMessageVisibility"));
        calls.respond_with(answer).mount(&server).await;
        let sdk = Sdk::at(&server.uri(), "us-east-1", "key", "secret").await;
        Self { client: Client::new(sdk.standard()), server }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/000000000000/queue-of-ours", self.server.uri())
    }

    /// The visibility timeouts that were set by a receipt's handle, in seconds.
    pub(crate) async fn timeouts(&self, handle: &str) -> Vec<i64> {
        let calls = self.server.received_requests().await.unwrap();
        let bodies = calls.iter().map(|call| call.body_json::<Value>().unwrap());
        let ours = bodies.filter(|body| body["ReceiptHandle"] == handle);
        ours.map(|body| body["VisibilityTimeout"].as_i64().unwrap()).collect()
    }

    /// How many calls there were.
    pub(crate) async fn calls(&self) -> usize {
        self.server.received_requests().await.unwrap().len()
    }
}
