//! Queue of a stand-in for SQS, which records the visibility timeouts that are set.

use aws_sdk_sqs::Client;
use runtime::Sdk;
use test_support::sqs::FakeSqs;

pub(crate) struct Queue {
    sqs: FakeSqs,
    client: Client,
}

impl Queue {
    /// Creates a queue that accepts each call.
    pub(crate) async fn start() -> Self {
        Self::of(FakeSqs::accepting().await).await
    }

    /// Creates a queue that responds after a minute.
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

    /// Returns the visibility timeouts, in seconds, that were set for a receipt handle.
    pub(crate) async fn timeouts(&self, handle: &str) -> Vec<i64> {
        let calls = self.sqs.calls().await;
        assert!(calls.iter().all(|call| call.operation == "AmazonSQS.ChangeMessageVisibility"), "{calls:?}");
        let ours = calls.iter().filter(|call| call.body["ReceiptHandle"] == handle);
        ours.map(|call| call.body["VisibilityTimeout"].as_i64().unwrap()).collect()
    }

    /// Returns the number of calls to the queue.
    pub(crate) async fn calls(&self) -> usize {
        self.sqs.calls().await.len()
    }
}
