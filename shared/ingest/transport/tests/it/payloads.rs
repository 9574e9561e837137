use ingestion::payload::PayloadNotice;
use serde_json::{Value, json};
use transport::{AnnounceError, NotificationQueue, read_payload_notices};
use uuid::Uuid;

use crate::queue::Queue;

#[tokio::test]
async fn a_notification_is_one_message_in_the_form_of_s3() {
    let queue = Queue::answering(vec![json!({"MessageId": "1"})]).await;
    let payloads = NotificationQueue::new(queue.client.clone(), queue.url.clone());
    let tenant = Uuid::from_u128(1);
    payloads.notify("payloads", "incoming/2026/11/21/a b", Some(tenant)).await.unwrap();
    let [call] = &queue.calls().await[..] else { panic!() };
    assert_eq!(
        (call.operation.as_str(), call.body["QueueUrl"].as_str()),
        ("AmazonSQS.SendMessage", Some(queue.url.as_str()))
    );
    assert_eq!(call.body["MessageGroupId"], tenant.to_string());
    let event: Value = serde_json::from_str(call.body["MessageBody"].as_str().unwrap()).unwrap();
    assert_eq!(event["Records"][0]["eventName"], "ObjectCreated:Put");
    let (bucket, key) = ("payloads".to_owned(), "incoming/2026/11/21/a b".to_owned());
    let notice = PayloadNotice { bucket, key, version_id: None };
    assert_eq!(read_payload_notices(event).unwrap(), [notice]);
}

#[tokio::test]
async fn a_queue_that_does_not_take_the_message_is_an_error() {
    let queue = Queue::answering(Vec::new()).await;
    let payloads = NotificationQueue::new(queue.client.clone(), queue.url.clone());
    let notified = payloads.notify("payloads", "a", None).await;
    assert!(matches!(notified, Err(AnnounceError::Queue(_))), "{notified:?}");
    assert_eq!(queue.calls().await.len(), 3);
}
