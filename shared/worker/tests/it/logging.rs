//! What is logged of a failure.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use telemetry::Envelope;
use test_support::log::Sink;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;
use worker::serve;

use crate::job::{Words, messages};
use crate::queue::Queue;

/// The lines of the worker; the SDK has its own.
fn lines(sink: &Sink) -> Vec<Value> {
    let is_ours = |line: &Value| {
        let event_type = line["event_type"].as_str().unwrap();
        event_type.starts_with("word.") || event_type.starts_with("message.")
    };
    sink.lines().into_iter().filter(is_ours).collect()
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
    let lines = lines(&sink);
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
