use aws_sdk_sns::Client;
use aws_sdk_sns::types::{MessageAttributeValue, PublishBatchRequestEntry};

use crate::call::{PublishError, Refusal};
use crate::encoded::Encoded;

/// Suffix of the name of a FIFO topic.
const FIFO: &str = ".fifo";

/// Client of an SNS topic to which events are published.
#[derive(Clone, Debug)]
pub struct Topic {
    client: Client,
    arn: String,
}

impl Topic {
    /// Creates a client of the SNS topic with this ARN.
    #[must_use]
    pub const fn new(client: Client, arn: String) -> Self {
        Self { client, arn }
    }

    /// Returns the ARN of the SNS topic.
    pub(crate) fn arn(&self) -> &str {
        &self.arn
    }

    /// Publishes events to the SNS topic, and returns the events that SNS refused, by their
    /// sequence numbers. The message is the event's JSON; subscriptions can filter by the message
    /// attributes `type` and `tenant`. On a FIFO topic, all events of a batch have the same message
    /// group.
    pub(crate) async fn publish(&self, events: &[Encoded]) -> Result<Vec<(i64, Refusal)>, PublishError> {
        let entries = events.iter().map(|event| self.entry(event)).collect::<Result<_, _>>()?;
        let request = self.client.publish_batch().topic_arn(&self.arn);
        let answer = request.set_publish_batch_request_entries(Some(entries)).send().await;
        let answer = answer.map_err(|error| PublishError::Topic(Box::new(error.into())))?;
        let refused = answer.failed().iter().filter_map(|failed| {
            let event = events.iter().find(|event| event.sequence.to_string() == failed.id())?;
            let code = failed.code().to_owned();
            Some((event.sequence, Refusal { destination: "SNS", code }))
        });
        Ok(refused.collect())
    }

    fn entry(&self, event: &Encoded) -> Result<PublishBatchRequestEntry, PublishError> {
        let failed = |error: aws_sdk_sns::error::BuildError| PublishError::Topic(Box::new(error.into()));
        let attribute = |value: &str| {
            MessageAttributeValue::builder().data_type("String").string_value(value).build().map_err(failed)
        };
        let is_fifo = self.arn.ends_with(FIFO);
        PublishBatchRequestEntry::builder()
            .id(event.sequence.to_string())
            .message(&event.json)
            .message_attributes("type", attribute(&event.event_type)?)
            .message_attributes("tenant", attribute(&event.tenant)?)
            .set_message_group_id(is_fifo.then(|| event.group.clone()))
            .set_message_deduplication_id(is_fifo.then(|| event.id.clone()))
            .build()
            .map_err(failed)
    }
}
