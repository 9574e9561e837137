//! Load tests, followed to their end.

use std::time::{Duration, Instant};

use serde_json::Value;
use uuid::Uuid;

use crate::gateway::{Answer, Gateway};

const TESTS: &str = "/tests";

/// States that nothing changes.
const FINAL: [&str; 3] = ["COMPLETED", "STOPPED", "FAILED"];

/// Time that a test may take on a busy machine: its own seconds, those before its start, and those
/// until its queues are seen empty.
const PATIENCE: Duration = Duration::from_secs(240);
const POLL: Duration = Duration::from_millis(300);
/// Interval for what comes after the seconds of a test.
const END_POLL: Duration = Duration::from_secs(2);

/// A client of the load tests.
#[derive(Clone, Debug)]
pub struct LoadTests {
    gateway: Gateway,
}

impl LoadTests {
    pub const fn new(gateway: Gateway) -> Self {
        Self { gateway }
    }

    /// Asks for a test under a key.
    pub async fn start(&self, key: Uuid, body: &Value) -> Answer {
        self.gateway.post_once(TESTS, key, body).await
    }

    /// Starts a test under a key of its own, and returns its id.
    pub async fn started(&self, body: &Value) -> String {
        Self::id(&self.start(Uuid::new_v4(), body).await.expect(202))
    }

    /// Runs a test to its end.
    pub async fn run(&self, body: &Value) -> Value {
        let test_id = self.started(body).await;
        self.finished(&test_id).await
    }

    /// The id in the response to a start or a stop.
    pub fn id(answer: &Answer) -> String {
        answer.json()["testId"].as_str().unwrap().to_owned()
    }

    pub fn path(test_id: &str) -> String {
        format!("{TESTS}/{test_id}")
    }

    pub async fn get(&self, test_id: &str) -> Answer {
        self.at(&Self::path(test_id)).await
    }

    /// Reads a path with its query.
    pub async fn at(&self, path: &str) -> Answer {
        self.gateway.get(path).await
    }

    /// Asks to stop a test, under a key.
    pub async fn stop(&self, test_id: &str, key: Uuid) -> Answer {
        self.gateway.post_empty(&format!("{}/stop", Self::path(test_id)), key).await
    }

    pub async fn delete(&self, test_id: &str) -> Answer {
        self.gateway.delete(&Self::path(test_id)).await
    }

    /// Follows a test until it is as it should be.
    pub async fn becomes(&self, test_id: &str, expected: impl Fn(&Value) -> bool) -> Value {
        self.looks(test_id, POLL, expected).await
    }

    async fn looks(&self, test_id: &str, poll: Duration, expected: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let test = self.get(test_id).await.expect(200).json();
            if expected(&test) {
                return test;
            }
            assert!(begin.elapsed() < PATIENCE, "{test}");
            tokio::time::sleep(poll).await;
        }
    }

    /// Follows a test to its end.
    pub async fn finished(&self, test_id: &str) -> Value {
        self.looks(test_id, END_POLL, |test| FINAL.contains(&test["status"].as_str().unwrap())).await
    }

    /// Stops a test that nobody needs any more, and waits until it uses its queues no longer.
    pub async fn end(&self, test_id: &str) {
        self.stop(test_id, Uuid::new_v4()).await.expect(202);
        self.finished(test_id).await;
    }
}
