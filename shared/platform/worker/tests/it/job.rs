//! Test jobs: one for which the text of a record determines the outcome of its work, and one whose
//! work always fails.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use attempt::{Retry, Retryable};
use serde_json::{Value, json};
use worker::{Disposition, Failure, Job, ParkError, Record, Visibility};

use crate::queue::Queue;

/// Test job whose messages are texts. Each word is a unit of work, and determines its outcome.
#[derive(Debug)]
pub(crate) struct Words {
    visibility: Visibility,
    begun: Mutex<Vec<String>>,
    parked: Mutex<Vec<String>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the record says so")]
pub(crate) struct Told(Retry);

impl Retryable for Told {
    fn retry(&self) -> Retry {
        self.0
    }
}

impl Words {
    pub(crate) fn new(queue: &Queue) -> Self {
        let visibility = Visibility::new(queue.client(), queue.url(), Duration::from_secs(10));
        Self { visibility, begun: Mutex::default(), parked: Mutex::default() }
    }

    /// Returns the ids of the parked records, in order.
    pub(crate) fn parked(&self) -> Vec<String> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the words whose work has begun, in order.
    pub(crate) fn begun(&self) -> Vec<String> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Job for Words {
    const SUBJECT: &'static str = "word";
    const RESERVE: Duration = Duration::from_secs(1);

    type Work = String;
    type Error = Told;

    fn read(&self, record: &Record) -> Result<Vec<String>, Told> {
        let text = record.body.as_deref().and_then(|body| std::str::from_utf8(body).ok());
        let text = text.filter(|text| *text != "unreadable").ok_or(Told(Retry::Never))?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }

    async fn run(&self, word: String, _: &Record) -> Result<(), Told> {
        self.begun.lock().unwrap().push(word.clone());
        tracing::Span::current().record("batch_id", &word);
        match word.as_str() {
            "later" => Err(Told(Retry::Later)),
            "contended" => Err(Told(Retry::Contended)),
            "repair" => Err(Told(Retry::AfterRepair)),
            "never" | "moved" => Err(Told(Retry::Never)),
            "slow" => {
                tokio::time::sleep(Duration::from_mins(1)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn visibility(&self, _: &Record) -> Option<&Visibility> {
        Some(&self.visibility)
    }

    async fn dispose(&self, failure: &Failure<Told>, record: &Record) -> Disposition {
        match record.body.as_deref() {
            Some(b"moved unanswered") => return std::future::pending().await,
            Some(body) if body.starts_with(b"moved") => return Disposition::Acknowledge,
            _ => {}
        }
        Plain.dispose(failure, record).await
    }

    async fn park(&self, _: &Failure<Told>, record: &Record) -> Result<(), ParkError> {
        match record.body.as_deref() {
            Some(b"later refused") => Err(ParkError::Queue("the queue is away".into())),
            Some(b"later unanswered") => std::future::pending().await,
            _ => {
                self.parked.lock().unwrap().push(record.id.as_ref().unwrap().to_string());
                Ok(())
            }
        }
    }
}

/// Test job with the default disposition, whose work always fails.
#[derive(Debug)]
pub(crate) struct Plain;

impl Job for Plain {
    const SUBJECT: &'static str = Words::SUBJECT;
    const RESERVE: Duration = Words::RESERVE;

    type Work = ();
    type Error = Told;

    fn read(&self, _: &Record) -> Result<Vec<()>, Told> {
        Ok(vec![()])
    }

    async fn run(&self, (): (), _: &Record) -> Result<(), Told> {
        Err(Told(Retry::Later))
    }

    fn visibility(&self, _: &Record) -> Option<&Visibility> {
        None
    }
}

/// Builds an SQS event with these message bodies, which are also the message ids and receipt
/// handles.
pub(crate) fn messages(bodies: &[&str]) -> Value {
    let message = |body: &&str| {
        json!({
            "eventSource": "aws:sqs", "messageId": body, "receiptHandle": body, "body": body,
            "attributes": {"ApproximateReceiveCount": "1"},
        })
    };
    json!({"Records": bodies.iter().map(message).collect::<Vec<_>>()})
}
