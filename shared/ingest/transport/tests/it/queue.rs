//! Queue of a stand-in for SQS, with a client.

use aws_sdk_sqs::Client;
use runtime::Sdk;
use serde_json::Value;
use test_support::sqs::{Call, FakeSqs};

pub(crate) struct Queue {
    sqs: FakeSqs,
    pub(crate) client: Client,
    pub(crate) url: String,
}

impl Queue {
    /// Starts a queue that gives each of these answers to one request. Later requests fail.
    pub(crate) async fn answering(answers: Vec<Value>) -> Self {
        let sqs = FakeSqs::answering(answers).await;
        let sdk = Sdk::at(&sqs.endpoint(), "us-east-1", "key", "secret").await;
        Self { client: Client::new(sdk.standard()), url: sqs.queue_url(), sqs }
    }

    pub(crate) async fn calls(&self) -> Vec<Call> {
        self.sqs.calls().await
    }
}
