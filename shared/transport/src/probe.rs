use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::QueueAttributeName;

/// A queue that cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error("the queue gives no answer: {0}")]
pub struct QueueAway(String);

/// Asks a queue for its name, to see whether it answers.
///
/// # Errors
/// When it does not.
pub async fn probe(client: &Client, queue_url: &str) -> Result<(), QueueAway> {
    let asked =
        client.get_queue_attributes().queue_url(queue_url).attribute_names(QueueAttributeName::QueueArn);
    let answer = asked.send().await;
    answer.map(drop).map_err(|error| QueueAway(DisplayErrorContext(error).to_string()))
}
