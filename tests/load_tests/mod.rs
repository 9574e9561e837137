//! Tests of the load tests' API. A busy machine sends messages late or not at all, so these tests
//! check what became of the messages, but never how fast they were.

mod failures;
mod requests;
mod runs;
mod search;

use end_to_end::{Access, Gateway, LoadTests, On, Queue, Site};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::products::conforms;

const SCOPES: [&str; 3] = ["mq:read", "mq:write", "mq:admin"];

/// Broker and queue of one test, and a tenant that no other test has.
struct Stand {
    site: Site,
    queue: Queue,
    tenant: String,
    gateway: Gateway,
    tests: LoadTests,
}

impl Stand {
    async fn start(on: On) -> Self {
        let site = Site::start(on).await;
        let queue = site.queue().await;
        let tenant = Uuid::new_v4().to_string();
        let gateway = Gateway::new().with_key(&Access::open().await.key(&tenant, &SCOPES, json!({})).await);
        let tests = LoadTests::new(gateway.clone());
        Self { site, queue, tenant, gateway, tests }
    }

    /// Builds the body that starts a load test on this queue, with these further members.
    fn body(&self, members: Value) -> Value {
        about(&self.site.inline(&self.queue), members)
    }

    async fn end(self) {
        self.site.delete(&self.queue).await;
    }
}

/// Builds the body that starts a load test on a target, with these further members.
fn about(target: &Value, members: Value) -> Value {
    let mut body = json!({ "target": target });
    let Value::Object(members) = members else { panic!("members are an object") };
    body.as_object_mut().unwrap().extend(members);
    body
}

/// Numbers of a load test's messages by their fate, such as sent, received or lost, from its
/// report.
#[derive(Clone, Debug)]
struct Fates {
    accounting: Value,
    is_drained: bool,
}

impl Fates {
    /// Reads the report of a load test, and checks what must be true of every report.
    #[track_caller]
    fn of(test: &Value) -> Self {
        let report = &test["report"];
        assert!(report.is_object(), "{test}");
        conforms("LoadTestReport", report);
        assert_eq!(report["schema"], "integrahub.load-report.v1");
        assert_eq!((&report["testId"], &report["status"]), (&test["testId"], &test["status"]), "{test}");
        assert!(report["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{test}");
        let fates = Self {
            accounting: report["accounting"].clone(),
            is_drained: report["drainedInSeconds"].is_number(),
        };
        let each = ["received", "lost", "retained", "unrecorded", "refused", "inDoubt", "notSent"];
        let sum: u64 = each.iter().map(|fate| fates.count(fate)).sum();
        assert_eq!(sum, fates.count("due"), "each message has one fate: {}", fates.accounting);
        if fates.is_complete() {
            let sent = fates.count("sent") + fates.count("notSent");
            assert_eq!(sent, fates.count("due"), "{}", fates.accounting);
        }
        fates
    }

    /// Returns the number of messages with this fate. Returns 0 if the report does not know it.
    fn count(&self, fate: &str) -> u64 {
        self.accounting[fate].as_u64().unwrap_or_default()
    }

    /// Returns true if the report has the records of all workers, so that none of them began too
    /// late.
    fn is_complete(&self) -> bool {
        self.accounting["holes"].as_array().unwrap().is_empty()
    }

    /// Checks that no message was lost or refused. If the queues were empty in the end and no
    /// record is missing, also checks that at least as many messages were received as the broker
    /// confirmed.
    #[track_caller]
    fn nothing_was_lost(&self) {
        assert_eq!((self.count("lost"), self.count("refused")), (0, 0), "{}", self.accounting);
        if self.is_drained && self.is_complete() {
            assert_eq!(self.accounting["lost"], json!(0), "{}", self.accounting);
            assert!(self.count("received") >= self.count("confirmed"), "{}", self.accounting);
        }
    }
}

/// Checks that a final load test has this status, and returns the fates of its messages.
#[track_caller]
fn ended(test: &Value, status: &str) -> Fates {
    assert_eq!(test["status"], status, "{test}");
    conforms("LoadTest", test);
    Fates::of(test)
}

/// Checks that a load test has failed, and returns the reason in its report.
#[track_caller]
fn failure(test: &Value) -> String {
    ended(test, "FAILED");
    let reason = test["report"]["failure"].as_str();
    reason.unwrap_or_else(|| panic!("{test} has no reason")).to_owned()
}
