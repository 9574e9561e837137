use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::MessageAttributeValue;
use transport::text;
use worker::{KAFKA_RECORD, Record};

/// Client of the SQS queue for messages that no function can handle. People read this queue.
#[derive(Clone, Debug)]
pub struct UnhandledQueue {
    client: Client,
    queue_url: String,
}

impl UnhandledQueue {
    #[must_use]
    pub const fn new(client: Client, queue_url: String) -> Self {
        Self { client, queue_url }
    }

    /// Sends a message's body unchanged. The attributes of the new message state the reason, the
    /// queue and the id of the original message, and for a Kafka record its position in the topic.
    /// A repeated call sends a second copy.
    pub(crate) async fn forward(&self, message: &Record, reason: &str) -> Result<(), aws_sdk_sqs::Error> {
        let body = String::from_utf8_lossy(message.body.as_deref().unwrap_or_default());
        let mut request = self.client.send_message().queue_url(&self.queue_url).message_body(body);
        let id = message.id.as_ref().map(ToString::to_string);
        let attributes = [
            ("reason", Some(reason)),
            ("source", message.source.as_deref()),
            ("message_id", id.as_deref()),
            (KAFKA_RECORD, message.parked_from.as_deref()),
        ];
        for (name, value) in attributes {
            let value = value.map(text::attribute).filter(|value| !value.is_empty());
            let Some(value) = value else { continue };
            let value = MessageAttributeValue::builder().data_type("String").string_value(value).build()?;
            request = request.message_attributes(name, value);
        }
        request.send().await?;
        Ok(())
    }
}
