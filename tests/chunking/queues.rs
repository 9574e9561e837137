//! Access to the ingest's SQS queues, as an operator has it.

use std::time::{Duration, Instant};

use aws_sdk_sqs::types::Message;
use end_to_end::variable;

const PATIENCE: Duration = Duration::from_secs(60);

/// Queue of the messages that no function can handle. Messages of other tests are on it too.
pub(crate) struct Unhandled {
    client: aws_sdk_sqs::Client,
    queue_url: String,
}

/// Message that was on the queue of unhandled messages, with the reason and the queue it came from.
#[derive(Debug)]
pub(crate) struct UnhandledMessage {
    pub(crate) reason: String,
    pub(crate) source: String,
    pub(crate) message_id: String,
}

impl Unhandled {
    pub(crate) async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await;
        let client = aws_sdk_sqs::Client::new(&sdk.single_attempt(Duration::from_secs(30)));
        Self { client, queue_url: variable("UNHANDLED_QUEUE_URL") }
    }

    /// Sends a message to the queue whose URL the environment variable `queue` has.
    pub(crate) async fn send(&self, queue: &str, body: &str) {
        self.client.send_message().queue_url(variable(queue)).message_body(body).send().await.unwrap();
    }

    /// Waits for a message whose body contains `needle`, and removes it from the queue.
    pub(crate) async fn take(&self, needle: &str) -> UnhandledMessage {
        let began = Instant::now();
        loop {
            // Hidden only for a moment, since others look for theirs.
            let receive = self.client.receive_message().queue_url(&self.queue_url).visibility_timeout(1);
            let receive = receive.max_number_of_messages(10).message_attribute_names("All");
            let received = receive.wait_time_seconds(5).send().await;
            for message in received.unwrap().messages.unwrap_or_default() {
                if message.body.as_ref().is_some_and(|body| body.contains(needle)) {
                    let delete = self.client.delete_message().queue_url(&self.queue_url);
                    delete.receipt_handle(message.receipt_handle.as_ref().unwrap()).send().await.unwrap();
                    return UnhandledMessage::of(&message);
                }
            }
            assert!(began.elapsed() < PATIENCE, "no message has {needle} in it");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl UnhandledMessage {
    fn of(message: &Message) -> Self {
        let attributes = message.message_attributes.as_ref().unwrap();
        let text = |name: &str| attributes[name].string_value.clone().unwrap();
        Self { reason: text("reason"), source: text("source"), message_id: text("message_id") }
    }
}

#[tokio::test]
async fn a_group_with_much_in_flight_waits_for_the_others_as_in_a_fair_queue() {
    let client = aws_sdk_sqs::Client::new(runtime::Sdk::from_environment().await.standard());
    let name = format!("fair-{}", uuid::Uuid::new_v4().simple());
    let queue_url = client.create_queue().queue_name(name).send().await.unwrap().queue_url.unwrap();
    for (body, group) in [
        ("a1", Some("a")),
        ("a2", Some("a")),
        ("a3", Some("a")),
        ("a4", Some("a")),
        ("b1", Some("b")),
        ("alone", None),
        ("b2", Some("b")),
    ] {
        let send = client.send_message().queue_url(&queue_url).message_body(body);
        send.set_message_group_id(group.map(str::to_owned)).send().await.unwrap();
    }
    let mut received = Vec::new();
    // Two together, then one by one.
    for most in [2, 1, 1, 1, 1, 1] {
        let receive = client.receive_message().queue_url(&queue_url).max_number_of_messages(most);
        let messages = receive.send().await.unwrap().messages.unwrap_or_default();
        received.extend(messages.into_iter().map(|message| message.body.unwrap()));
    }
    assert_eq!(received, ["a1", "b1", "alone", "a2", "b2", "a3", "a4"]);
    client.delete_queue().queue_url(&queue_url).send().await.unwrap();
}
