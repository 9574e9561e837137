//! Client of the load tests' API, which follows load tests to their end.

use std::time::{Duration, Instant};

use serde_json::Value;
use uuid::Uuid;

use crate::gateway::{Answer, Gateway};

const TESTS: &str = "/tests";

/// Final states of a load test, which do not change any more.
const FINAL: [&str; 3] = ["COMPLETED", "STOPPED", "FAILED"];

/// Maximum time for a load test on a busy machine: until it starts, its own duration, and until its
/// queues are empty.
const PATIENCE: Duration = Duration::from_secs(240);
const POLL: Duration = Duration::from_millis(300);
/// Interval at which [`LoadTests::finished`] looks at a load test.
const END_POLL: Duration = Duration::from_secs(2);

/// Client that starts, follows and stops load tests.
#[derive(Clone, Debug)]
pub struct LoadTests {
    gateway: Gateway,
}

impl LoadTests {
    pub const fn new(gateway: Gateway) -> Self {
        Self { gateway }
    }

    /// Sends a request to start a load test, under this idempotency key.
    pub async fn start(&self, key: Uuid, body: &Value) -> Answer {
        self.gateway.post_once(TESTS, key, body).await
    }

    /// Starts a load test under a new idempotency key, and returns its id.
    pub async fn started(&self, body: &Value) -> String {
        Self::id(&self.start(Uuid::new_v4(), body).await.expect(202))
    }

    /// Starts a load test, and returns it when it is final.
    pub async fn run(&self, body: &Value) -> Value {
        let test_id = self.started(body).await;
        self.finished(&test_id).await
    }

    /// Returns the id of the load test in the response to a start or a stop.
    pub fn id(answer: &Answer) -> String {
        answer.json()["testId"].as_str().unwrap().to_owned()
    }

    pub fn path(test_id: &str) -> String {
        format!("{TESTS}/{test_id}")
    }

    pub async fn get(&self, test_id: &str) -> Answer {
        self.at(&Self::path(test_id)).await
    }

    /// Sends a GET request for a path that may have a query.
    pub async fn at(&self, path: &str) -> Answer {
        self.gateway.get(path).await
    }

    /// Sends a request to stop a load test, under this idempotency key.
    pub async fn stop(&self, test_id: &str, key: Uuid) -> Answer {
        self.gateway.post_empty(&format!("{}/stop", Self::path(test_id)), key).await
    }

    pub async fn delete(&self, test_id: &str) -> Answer {
        self.gateway.delete(&Self::path(test_id)).await
    }

    /// Looks at a load test until `expected` returns true, and returns it as it is then.
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

    /// Looks at a load test until it is final, and returns it.
    pub async fn finished(&self, test_id: &str) -> Value {
        self.looks(test_id, END_POLL, |test| FINAL.contains(&test["status"].as_str().unwrap())).await
    }

    /// Stops a load test, and waits until it is final and does not use its queues any more.
    pub async fn end(&self, test_id: &str) {
        self.stop(test_id, Uuid::new_v4()).await.expect(202);
        self.finished(test_id).await;
    }
}
