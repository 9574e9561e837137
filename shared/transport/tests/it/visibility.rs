use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use serde_json::json;
use transport::{Receipt, Visibility};

use crate::queue::{Answer, Call, Queue};

fn receipt(receives: u32) -> Receipt {
    let mut message = SqsMessage::default();
    message.receipt_handle = Some("handle".to_owned());
    message.attributes.insert("ApproximateReceiveCount".to_owned(), receives.to_string());
    Receipt::of(&message).unwrap()
}

fn seconds(call: &Call) -> i64 {
    assert_eq!(call.operation, "changemessagevisibility");
    assert_eq!(call.body["ReceiptHandle"], "handle");
    call.body["VisibilityTimeout"].as_i64().unwrap()
}

#[tokio::test]
async fn a_message_is_put_off_longer_each_time_and_by_chance() {
    let queue = Queue::answering((0..5).map(|_| Answer::Taken(json!({}))).collect()).await;
    let visibility = Visibility::new(queue.client, queue.url, Duration::from_secs(10));
    for receives in 1..5 {
        visibility.later(&receipt(receives)).await;
    }
    visibility.at_once(&receipt(1)).await;
    let calls = queue.serving.await.unwrap();
    let pauses: Vec<_> = calls.iter().map(seconds).collect();
    for (pause, whole) in pauses.iter().zip([10, 50, 250, 900]) {
        assert!((whole / 2..=whole).contains(pause), "{pause} of {whole}");
    }
    assert_eq!(pauses[4], 0);
}

#[tokio::test]
async fn what_cannot_be_put_off_costs_little_time_and_is_left_to_the_queue() {
    let queue = Queue::answering(vec![Answer::Nothing, Answer::Nothing]).await;
    let visibility = Visibility::new(queue.client, queue.url, Duration::from_secs(10));
    let began = std::time::Instant::now();
    visibility.later(&receipt(1)).await;
    assert!(began.elapsed() >= Duration::from_millis(400), "it was given a chance");
    assert!(!queue.serving.is_finished(), "it is not tried a second time");
    queue.serving.abort();
}

#[tokio::test]
async fn a_queue_knows_its_own_messages() {
    let queue = Queue::answering(Vec::new()).await;
    let visibility = Visibility::new(queue.client, queue.url, Duration::from_secs(10));
    assert!(visibility.is_of("arn:aws:sqs:us-east-1:000000000000:queue-of-ours"));
    assert!(!visibility.is_of("arn:aws:sqs:us-east-1:000000000000:another-queue-of-ours"));
    assert!(!visibility.is_of("queue-of"));
}
