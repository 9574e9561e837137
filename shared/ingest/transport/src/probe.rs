use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;

/// Error for an SQS queue that does not respond.
#[derive(Debug, thiserror::Error)]
#[error("the queue does not answer")]
pub struct QueueAway(#[source] Box<aws_sdk_sqs::Error>);

/// Checks that an SQS queue responds, by requesting its ARN.
pub async fn probe(client: &Client, queue_url: &str) -> Result<(), QueueAway> {
    let asked =
        client.get_queue_attributes().queue_url(queue_url).attribute_names(QueueAttributeName::QueueArn);
    asked.send().await.map(drop).map_err(|error| QueueAway(Box::new(error.into())))
}
