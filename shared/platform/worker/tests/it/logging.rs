//! Tests of the log lines about failures.

use std::time::{Duration, SystemTime};

use runtime::Envelope;
use serde_json::Value;
use test_support::log::Sink;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;
use worker::serve;

use crate::job::{Words, messages};
use crate::queue::Queue;

/// Returns the log lines of the worker crate, without those of the SDK.
fn lines(sink: &Sink) -> Vec<Value> {
    let is_ours = |line: &Value| {
        let event_type = line["event_type"].as_str().unwrap();
        event_type.starts_with("word.") || event_type.starts_with("message.")
    };
    sink.lines().into_iter().filter(is_ours).collect()
}

async fn logged(event: Value) -> Vec<Value> {
    let queue = Queue::start().await;
    let words = Words::new(&queue);
    let sink = Sink::default();
    let make_writer = sink.clone();
    let subscriber = tracing_subscriber::registry().with(Envelope::to(move || make_writer.clone()));
    let ends_at = SystemTime::now() + Duration::from_secs(30);
    serve(&words, event, ends_at).with_subscriber(subscriber).await.unwrap();
    lines(&sink)
}

#[tokio::test]
async fn a_failure_is_logged_once_with_what_its_job_recorded() {
    let lines = logged(messages(&["a", "later", "repair", "never"])).await;
    assert_eq!(lines.len(), 3, "{lines:?}");
    let expected = [
        ("later", "warn", "word.interrupted"),
        ("repair", "error", "word.blocked"),
        ("never", "error", "word.refused"),
    ];
    for (line, (word, level, event_type)) in lines.iter().zip(expected) {
        assert_eq!((&line["level"], &line["event_type"]), (&level.into(), &event_type.into()), "{line}");
        assert_eq!(
            (&line["context"]["message_id"], &line["context"]["batch_id"]),
            (&word.into(), &word.into())
        );
        assert_eq!(line["context"]["error"], "the record says so");
    }
}

#[tokio::test]
async fn the_same_permanent_failure_is_an_error_once() {
    let mut event = messages(&["never"]);
    event["Records"][0]["attributes"]["ApproximateReceiveCount"] = "2".into();
    let lines = logged(event).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["level"], &lines[0]["event_type"]), (&"info".into(), &"word.refused".into()));
}
