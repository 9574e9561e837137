//! Tests of the time for which a failed message is hidden.

use std::time::{Duration, Instant};

use aws_lambda_events::sqs::SqsMessage;
use worker::{Receipt, Visibility};

use crate::queue::Queue;

const BASE: Duration = Duration::from_secs(10);

fn receipt(receives: u32) -> Receipt {
    let mut message = SqsMessage::default();
    message.receipt_handle = Some("handle".to_owned());
    message.attributes.insert("ApproximateReceiveCount".to_owned(), receives.to_string());
    Receipt::of(&message).unwrap()
}

/// True if each pause is between half of its maximum and the maximum.
fn are_shortened(pauses: &[i64], longest: &[i64]) -> bool {
    let is_within = |(pause, longest): (&i64, &i64)| (longest / 2..=*longest).contains(pause);
    pauses.len() == longest.len() && pauses.iter().zip(longest).all(is_within)
}

#[tokio::test]
async fn a_pause_grows_with_each_receive() {
    let queue = Queue::start().await;
    let visibility = Visibility::new(queue.client(), queue.url(), BASE);
    for receives in 1..5 {
        visibility.extend(&receipt(receives)).await;
    }
    let pauses = queue.timeouts("handle").await;
    assert!(are_shortened(&pauses, &[10, 50, 250, 900]), "{pauses:?}");
}

#[tokio::test]
async fn a_message_that_no_retry_helps_comes_at_once_and_then_with_pauses() {
    let queue = Queue::start().await;
    let visibility = Visibility::new(queue.client(), queue.url(), BASE);
    for receives in [1, 2, 3, 100] {
        visibility.expire(&receipt(receives)).await;
    }
    let pauses = queue.timeouts("handle").await;
    assert_eq!(pauses[0], 0);
    assert!(are_shortened(&pauses[1..], &[10, 10, 10]), "{pauses:?}");
}

#[tokio::test]
async fn a_message_that_waits_for_a_repair_is_hidden_for_long_each_time() {
    let queue = Queue::start().await;
    let visibility = Visibility::new(queue.client(), queue.url(), BASE);
    for receives in [1, 2, 100] {
        visibility.hide(&receipt(receives)).await;
    }
    let pauses = queue.timeouts("handle").await;
    assert!(are_shortened(&pauses, &[900, 900, 900]), "{pauses:?}");
}

#[tokio::test]
async fn receives_of_the_source_queue_do_not_lengthen_a_pause() {
    let queue = Queue::start().await;
    let visibility = Visibility::new(queue.client(), queue.url(), BASE).after_receives(5);
    for receives in [1, 5, 6, 7] {
        visibility.extend(&receipt(receives)).await;
    }
    let pauses = queue.timeouts("handle").await;
    assert!(are_shortened(&pauses, &[10, 10, 10, 50]), "{pauses:?}");
}

#[tokio::test]
async fn a_queue_that_does_not_answer_costs_little_time() {
    let queue = Queue::silent().await;
    let visibility = Visibility::new(queue.client(), queue.url(), BASE);
    let began = Instant::now();
    visibility.extend(&receipt(1)).await;
    let took = began.elapsed();
    assert!((Duration::from_millis(400)..Duration::from_secs(2)).contains(&took), "{took:?}");
    assert_eq!(queue.timeouts("handle").await.len(), 1, "there is no second try");
}

#[tokio::test]
async fn a_queue_knows_its_own_arn() {
    let queue = Queue::start().await;
    let visibility = Visibility::new(queue.client(), queue.url(), BASE);
    assert!(visibility.is_of("arn:aws:sqs:us-east-1:000000000000:queue-of-ours"));
    assert!(!visibility.is_of("arn:aws:sqs:us-east-1:000000000000:another-queue-of-ours"));
    assert!(!visibility.is_of("queue-of"));
}
