use serde_json::{Value, json};
use transport::{AnnounceError, PayloadNotice, PayloadsReceived, read_payload_notices};

use crate::queue::{Answer, Queue};

#[tokio::test]
async fn a_payload_is_told_of_in_one_message_as_s3_does_it() {
    let queue = Queue::answering(vec![Answer::Taken(json!({"MessageId": "1"}))]).await;
    let url = queue.url.clone();
    let payloads = PayloadsReceived::new(queue.client, queue.url);
    payloads.tell("payloads", "incoming/2026/11/21/a b").await.unwrap();
    let [call] = &queue.serving.await.unwrap()[..] else { panic!() };
    assert_eq!(
        (call.operation.as_str(), call.body["QueueUrl"].as_str()),
        ("sendmessage", Some(url.as_str()))
    );
    let event: Value = serde_json::from_str(call.body["MessageBody"].as_str().unwrap()).unwrap();
    assert_eq!(event["Records"][0]["eventName"], "ObjectCreated:Put");
    let notice = PayloadNotice { bucket: "payloads".to_owned(), key: "incoming/2026/11/21/a b".to_owned() };
    assert_eq!(read_payload_notices(event).unwrap(), [notice]);
}

#[tokio::test]
async fn a_queue_that_does_not_take_it_is_an_error() {
    let queue = Queue::answering(vec![Answer::Failed, Answer::Failed, Answer::Failed]).await;
    let told = PayloadsReceived::new(queue.client, queue.url).tell("payloads", "incoming/1").await;
    assert!(matches!(told, Err(AnnounceError::Queue(_))), "{told:?}");
    assert_eq!(queue.serving.await.unwrap().len(), 3);
}
