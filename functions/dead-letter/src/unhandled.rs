use aws_lambda_events::sqs::SqsMessage;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::MessageAttributeValue;

/// Characters of a reason: it counts to the message's size.
const LONGEST_REASON: usize = 300;

/// Where messages are kept that nobody could work on, for people.
#[derive(Debug, Clone)]
pub struct UnhandledQueue {
    client: Client,
    queue_url: String,
}

impl UnhandledQueue {
    #[must_use]
    pub const fn new(client: Client, queue_url: String) -> Self {
        Self { client, queue_url }
    }

    /// Keeps a message as it came, with the reason, the queue that it lay in and its id there as attributes. It may be there twice.
    pub(crate) async fn keep(&self, message: &SqsMessage, reason: &str) -> Result<(), aws_sdk_sqs::Error> {
        let mut request = self.client.send_message().queue_url(&self.queue_url);
        request = request.message_body(message.body.clone().unwrap_or_default());
        let attributes = [
            ("reason", Some(reason)),
            ("source", message.event_source_arn.as_deref()),
            ("message_id", message.message_id.as_deref()),
        ];
        for (name, value) in attributes {
            let value = value.map(presentable).filter(|value| !value.is_empty());
            let Some(value) = value else { continue };
            let value = MessageAttributeValue::builder().data_type("String").string_value(value).build()?;
            request = request.message_attributes(name, value);
        }
        request.send().await?;
        Ok(())
    }
}

/// As much as is kept, in the characters that SQS takes.
fn presentable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(LONGEST_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_have_no_characters_that_sqs_refuses() {
        assert_eq!(presentable("line\nbreak\u{0}é"), "linebreaké");
        assert_eq!(presentable(&"é".repeat(1000)).chars().count(), LONGEST_REASON);
    }
}
