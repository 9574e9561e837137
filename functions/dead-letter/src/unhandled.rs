use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::MessageAttributeValue;
use worker::Record;

/// Characters of an attribute: it counts to the message's size.
const LONGEST_ATTRIBUTE: usize = 300;

/// The queue of messages that no function can handle, for people.
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

    /// Sends a message as it came, with the reason, its queue and its id there as attributes.
    /// Repeated, it is there twice.
    pub(crate) async fn forward(&self, message: &Record, reason: &str) -> Result<(), aws_sdk_sqs::Error> {
        let body = String::from_utf8_lossy(message.body.as_deref().unwrap_or_default());
        let mut request = self.client.send_message().queue_url(&self.queue_url).message_body(body);
        let id = message.id.as_ref().map(ToString::to_string);
        let attributes =
            [("reason", Some(reason)), ("source", message.source.as_deref()), ("message_id", id.as_deref())];
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

/// The text's beginning, without characters that SQS refuses.
fn presentable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(LONGEST_ATTRIBUTE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_have_no_characters_that_sqs_refuses() {
        assert_eq!(presentable("line\nbreak\u{0}é"), "linebreaké");
        assert_eq!(presentable(&"é".repeat(1000)).chars().count(), LONGEST_ATTRIBUTE);
    }
}
