//! What is logged of a failure.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use telemetry::Envelope;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;
use worker::serve;

use crate::job::{Words, messages};
use crate::queue::Queue;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    /// The lines of the worker; the SDK has its own.
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let is_ours = |line: &Value| {
            let event_type = line["event_type"].as_str().unwrap();
            event_type.starts_with("word.") || event_type.starts_with("message.")
        };
        lines.filter(is_ours).collect()
    }
}

#[tokio::test]
async fn a_failure_is_logged_once_with_what_its_job_recorded() {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    let sink = Sink::default();
    let make_writer = sink.clone();
    let subscriber = tracing_subscriber::registry().with(Envelope::to(move || make_writer.clone()));
    let ends_at = SystemTime::now() + Duration::from_secs(30);
    serve(&words, messages(&["a", "later", "never"]), ends_at).with_subscriber(subscriber).await.unwrap();
    let lines = sink.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, (word, level, event_type)) in
        lines.iter().zip([("later", "warn", "word.interrupted"), ("never", "error", "word.refused")])
    {
        assert_eq!((&line["level"], &line["event_type"]), (&level.into(), &event_type.into()), "{line}");
        assert_eq!(
            (&line["context"]["message_id"], &line["context"]["batch_id"]),
            (&word.into(), &word.into())
        );
        assert_eq!(line["context"]["error"], "the record says so");
    }
}
