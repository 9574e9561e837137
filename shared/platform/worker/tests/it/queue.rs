//! A queue of a stand-in for SQS, whose visibility timeouts are set.

use aws_sdk_sqs::Client;
use runtime::Sdk;
use test_support::sqs::FakeSqs;

pub(crate) struct Queue {
    sqs: FakeSqs,
    client: Client,
}

impl Queue {
    /// Takes every call.
    pub(crate) async fn start() -> Self {
        Self::of(FakeSqs::accepting().await).await
    }

    /// Answers a minute late.
    pub(crate) async fn silent() -> Self {
        Self::of(FakeSqs::silent().await).await
    }

    async fn of(sqs: FakeSqs) -> Self {
        let sdk = Sdk::at(&sqs.endpoint(), "us-east-1", "key", "secret").await;
        Self { client: Client::new(sdk.standard()), sqs }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn url(&self) -> String {
        self.sqs.queue_url()
    }

    /// The visibility timeouts that were set by a receipt's handle, in seconds.
    pub(crate) async fn timeouts(&self, handle: &str) -> Vec<i64> {
        let calls = self.sqs.calls().await;
        assert!(calls.iter().all(|call| call.operation == "AmazonSQS.ChangeMessageVisibility"), "{calls:?}");
        let ours = calls.iter().filter(|call| call.body["ReceiptHandle"] == handle);
        ours.map(|call| call.body["VisibilityTimeout"].as_i64().unwrap()).collect()
    }

    /// Counts the calls.
    pub(crate) async fn calls(&self) -> usize {
        self.sqs.calls().await.len()
    }
}
