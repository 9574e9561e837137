//! SQS queue for events that could not be published in time. Operators read it.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::MessageAttributeValue;
use events::Published;

/// SQS queue for events that could not be published; it keeps messages for 14 days.
#[derive(Clone, Debug)]
pub struct UnhandledQueue {
    client: Client,
    queue_url: String,
}

/// Reason why an event could not be moved to the [`UnhandledQueue`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum ParkError {
    #[error("the event cannot be serialized")]
    Json(#[source] serde_json::Error),
    #[error("SQS did not take the event")]
    Queue(#[from] aws_sdk_sqs::Error),
}

impl UnhandledQueue {
    #[must_use]
    pub const fn new(client: Client, queue_url: String) -> Self {
        Self { client, queue_url }
    }

    /// Sends an event to the queue in the form in which it would have been published, with `reason`
    /// as a message attribute. A repeated call sends a second copy.
    pub(crate) async fn park(&self, event: &Published, reason: &str) -> Result<(), ParkError> {
        let reason = MessageAttributeValue::builder().data_type("String").string_value(reason).build();
        let reason = reason.map_err(aws_sdk_sqs::Error::from)?;
        let send = self.client.send_message().queue_url(&self.queue_url);
        let send = send
            .message_body(serde_json::to_string(event).map_err(ParkError::Json)?)
            .message_attributes("reason", reason);
        send.send().await.map_err(aws_sdk_sqs::Error::from)?;
        Ok(())
    }
}
