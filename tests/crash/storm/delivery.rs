//! Delivery of SQS messages to functions, as Lambda does it. In a storm, messages are also
//! delivered twice, out of order, or not at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::crash::stand::function::{Function, Invoked};

/// Fraction of S3's notifications that are lost in a storm.
const LOST: f64 = 0.2;
/// Fraction of messages that are delivered twice at the same time in a storm.
pub(super) const TWICE: f64 = 0.2;
/// Fraction of messages that are delivered again later although the function succeeded.
pub(super) const FORGOTTEN: f64 = 0.1;

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) url: String,
    pub(crate) arn: String,
}

impl Queue {
    /// Returns the number of messages on the queue, including those in flight and delayed.
    pub(crate) async fn length(&self, client: &Client) -> usize {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let get = client.get_queue_attributes().queue_url(&self.url);
        let attributes = get.set_attribute_names(Some(names.to_vec())).send().await.unwrap().attributes;
        let attributes = attributes.unwrap_or_default();
        names.iter().filter_map(|name| attributes.get(name)).map(|text| text.parse::<usize>().unwrap()).sum()
    }
}

/// SQS queue, and the function that Lambda would invoke with its messages.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) queue: Queue,
    pub(crate) function: Function,
    /// Maximum number of concurrent invocations of the function.
    pub(crate) at_once: usize,
}

#[derive(Debug)]
pub(crate) struct Delivery {
    client: Client,
    queues: Vec<Queue>,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// Random faults of all deliveries of a storm test, and counters of the deliveries.
#[derive(Debug, Default)]
pub(super) struct Shared {
    stormy: AtomicBool,
    random: Mutex<fastrand::Rng>,
    pub(super) delivered: AtomicUsize,
    pub(super) failed: AtomicUsize,
    lost: AtomicUsize,
    pub(super) twice: AtomicUsize,
}

impl Shared {
    pub(super) fn chance(&self, probability: f64) -> bool {
        self.stormy.load(Ordering::Relaxed) && self.random.lock().unwrap().f64() < probability
    }

    /// Returns a random number below `end`, which is not 0.
    pub(super) fn below(&self, end: usize) -> usize {
        self.random.lock().unwrap().usize(..end)
    }
}

impl Delivery {
    pub(crate) fn start(client: &Client, sources: Vec<Source>) -> Self {
        let shared = Arc::new(Shared::default());
        let queues = sources.iter().map(|source| source.queue.clone()).collect();
        let mut workers = Vec::new();
        for source in sources {
            let source = Arc::new(source);
            for _ in 0..source.at_once {
                let worker = Worker {
                    client: client.clone(),
                    source: Arc::clone(&source),
                    shared: Arc::clone(&shared),
                };
                workers.push(tokio::spawn(worker.work()));
            }
        }
        Self { client: client.clone(), queues, shared, workers }
    }

    pub(super) fn weather(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn begin_storm(&self, random: fastrand::Rng) {
        *self.shared.random.lock().unwrap() = random;
        self.shared.stormy.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end_storm(&self) {
        self.shared.stormy.store(false, Ordering::Relaxed);
    }

    /// Returns true if no queue has a message, either waiting or in flight.
    pub(crate) async fn is_idle(&self) -> bool {
        for queue in &self.queues {
            if queue.length(&self.client).await > 0 {
                return false;
            }
        }
        true
    }

    pub(crate) fn summary(&self) -> String {
        let number = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        format!(
            "{} deliveries of which {} failed, {} messages delivered twice, {} lost",
            number(&shared.delivered),
            number(&shared.failed),
            number(&shared.twice),
            number(&shared.lost)
        )
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
    }
}

struct Worker {
    client: Client,
    source: Arc<Source>,
    shared: Arc<Shared>,
}

impl Worker {
    async fn work(self) {
        loop {
            let receive = self.client.receive_message().queue_url(&self.source.queue.url);
            let received = receive
                .max_number_of_messages(if self.shared.chance(0.5) { 4 } else { 1 })
                .wait_time_seconds(1)
                .message_system_attribute_names(MessageSystemAttributeName::All)
                .send()
                .await;
            let Ok(received) = received else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let mut messages = received.messages.unwrap_or_default();
            self.shared.random.lock().unwrap().shuffle(&mut messages);
            for message in messages {
                self.deliver(&message).await;
            }
        }
    }

    async fn deliver(&self, message: &Message) {
        let body = message.body().unwrap_or_default();
        // Only S3's notifications may be lost, repeated ones too. Chunks are not announced by
        // storage, and a queue loses nothing.
        let is_from_storage = body.contains("\"aws:s3\"");
        if is_from_storage && self.shared.chance(LOST) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return self.delete(message).await;
        }
        let event = event(&self.source.queue, message).to_string();
        let taken = if self.shared.chance(TWICE) {
            self.shared.twice.fetch_add(1, Ordering::Relaxed);
            let (one, other) = tokio::join!(self.invoke(&event), self.invoke(&event));
            one || other
        } else {
            self.invoke(&event).await
        };
        if taken && !self.shared.chance(FORGOTTEN) {
            self.delete(message).await;
        }
    }

    /// Invokes the function with an event of one message. Returns true if the function is done with
    /// the message.
    async fn invoke(&self, event: &str) -> bool {
        self.shared.delivered.fetch_add(1, Ordering::Relaxed);
        let invoked = self.source.function.invoke(event.to_owned().into()).await;
        let taken = match &invoked {
            Invoked::Answered(answer) => {
                let answer: Value = serde_json::from_slice(answer).unwrap();
                answer["batchItemFailures"].as_array().is_none_or(Vec::is_empty)
            }
            Invoked::Failed(_) | Invoked::TimedOut(_) => false,
        };
        if !taken {
            self.shared.failed.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    async fn delete(&self, message: &Message) {
        let handle = message.receipt_handle().unwrap_or_default();
        let delete = self.client.delete_message().queue_url(&self.source.queue.url).receipt_handle(handle);
        delete.send().await.unwrap();
    }
}

/// Returns the event with which Lambda passes an SQS message to a function.
fn event(queue: &Queue, message: &Message) -> Value {
    let attributes: serde_json::Map<String, Value> = message
        .attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
        .collect();
    json!({"Records": [{
        "messageId": message.message_id(),
        "receiptHandle": message.receipt_handle(),
        "body": message.body(),
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": message.md5_of_body(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue.arn,
        "awsRegion": "us-east-1",
    }]})
}
