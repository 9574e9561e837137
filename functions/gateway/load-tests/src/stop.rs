//! Responses to `POST /tests/{test_id}/stop`, which ends a load test early, and to
//! `DELETE /tests/{test_id}`, which removes a load test that has ended.

use api::{Problem, Query, Reason, Reply, TraceId};
use endpoint::WorkDone;
use front::note_reached;
use idempotency::OperationType;
use jiff::Timestamp;
use lambda_http::Request;
use load_test::store::{ExecutionStart, TestRecord};
use load_test::{Plan, TestStatus, Window};
use serde_json::json;
use uuid::Uuid;

use crate::overdue::last_run;
use crate::problems::{from_store, not_found};
use crate::route::{Endpoint, SCOPES, TESTS};
use crate::{LoadTests, id};

/// Operation type that idempotency records have for the stop of a load test.
const STOP: OperationType = OperationType::named("LOAD_TEST_STOP");

impl LoadTests {
    /// Stops a load test: its workers end within two seconds. If none of them is at work, starts
    /// the closing of the test. A test that has ended is left unchanged.
    pub(crate) async fn stop(
        &self,
        test_id: &str,
        request: &Request,
        trace_id: &TraceId,
    ) -> Result<Reply, Problem> {
        let content = json!({"path": {"test_id": test_id.to_ascii_lowercase()}});
        let identity = self.front.identify(request.headers(), SCOPES, &content).await?;
        Query::parse(request.uri().query().unwrap_or_default(), Endpoint::Stop.parameters())?;
        let test_id = id::parse("test_id", test_id)?;
        let tenant = identity.principal.tenant.as_str();
        let admission = self.front.admission(&identity.principal).await?;
        self.front
            .once(&identity, STOP, "", trace_id, &admission, async |_| {
                let now = Timestamp::now();
                let stopped = self.store.request_stop(tenant, test_id, now).await;
                let stopped = stopped.map_err(|error| from_store(&error))?.ok_or_else(not_found)?;
                note_reached(&stopped.target);
                tracing::info!(
                    event_type = "load_test.stop_requested",
                    test_id = %test_id,
                    "load test {test_id} is to stop"
                );
                let reply = stopping(&stopped);
                if is_idle(&stopped, now) {
                    self.close_idle(&stopped).await;
                }
                self.close_overdue(&[stopped], now).await;
                Ok(WorkDone::Record(reply))
            })
            .await
    }

    /// Starts the closing of a test that was stopped while none of its workers is at work. If that
    /// fails, the workers see the stop when they start, and the last of them closes the test.
    async fn close_idle(&self, record: &TestRecord) {
        let test_id = record.test_id;
        let start = ExecutionStart::stopping(&record.tenant, test_id, last_run(record));
        if let Err(error) = self.engine.start(&start).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "load_test.not_closed",
                test_id = %test_id,
                error,
                "load test {test_id} is stopped, and is closed when its workers come: {error}"
            );
        }
    }

    /// Deletes a test that has ended, with its report. If the deletion is cut off, a repeated
    /// request or the end of the retention removes what is left.
    pub(crate) async fn delete(&self, tenant: &str, test_id: Uuid) -> Result<Reply, Problem> {
        let found = self.store.get(tenant, test_id).await.map_err(|error| from_store(&error))?;
        let record = found.ok_or_else(not_found)?;
        note_reached(&record.target);
        if !record.status.is_final() {
            let status = record.status;
            self.close_overdue(&[record], Timestamp::now()).await;
            return Err(not_final(status));
        }
        self.store.delete(tenant, test_id).await.map_err(|error| from_store(&error))?;
        tracing::info!(event_type = "load_test.deleted", test_id = %test_id, "deleted load test {test_id}");
        Ok(Reply { status: 204, ..Reply::default() })
    }
}

/// True if a test that has not ended has no worker at work: its workers are not invoked yet, or it
/// is a search between two runs.
fn is_idle(record: &TestRecord, now: Timestamp) -> bool {
    let works = record
        .runs
        .last()
        .is_some_and(|run| run.ended_at.is_none() && now >= Plan::starts_at(run.started_at, Window::new(0)));
    !works && !record.status.is_final()
}

fn not_final(status: TestStatus) -> Problem {
    let advice = match status {
        TestStatus::Stopping => "delete it when it has ended",
        _ => "stop it, and delete it when its status is final",
    };
    Problem::new(Reason::TestNotFinal, format!("the test is {status}; {advice}"))
}

fn stopping(record: &TestRecord) -> Reply {
    let body = json!({"testId": record.test_id, "status": record.status});
    let mut reply = Reply::json(202, &body);
    reply.set_header("location", format!("{TESTS}/{}", record.test_id));
    reply
}

#[cfg(test)]
mod tests {
    use load_test::store::Run;
    use serde_json::Value;

    use super::*;
    use crate::samples::record;

    #[test]
    fn a_test_that_is_being_stopped_need_not_be_stopped_again() {
        for (status, detail) in [
            (TestStatus::Running, "the test is RUNNING; stop it, and delete it when its status is final"),
            (TestStatus::Stopping, "the test is STOPPING; delete it when it has ended"),
        ] {
            let problem = not_final(status);
            assert_eq!((problem.reason, problem.detail.as_str()), (Reason::TestNotFinal, detail));
        }
    }

    #[test]
    fn a_test_is_idle_until_its_workers_come_and_between_two_probes() {
        let at = |time: &str| format!("2026-11-22T{time}Z").parse::<Timestamp>().unwrap();
        let run = Run {
            rate_per_sec: None,
            started_at: at("10:00:10"),
            ended_at: None,
            passed: None,
            retained: None,
        };
        let test = |status, runs| TestRecord { status, runs, ..record() };
        let stopping = |runs| test(TestStatus::Stopping, runs);
        let ended = Run { ended_at: Some(at("10:00:20")), ..run };
        for (record, now, expected) in [
            (stopping(Vec::new()), "10:00:00", true),
            // Workers come three seconds before the start.
            (stopping(vec![run]), "10:00:06", true),
            (stopping(vec![run]), "10:00:07", false),
            (stopping(vec![run]), "10:00:30", false),
            (stopping(vec![ended]), "10:00:30", true),
            (stopping(vec![ended, run]), "10:00:30", false),
            (test(TestStatus::Completed, vec![ended]), "10:00:30", false),
        ] {
            assert_eq!(is_idle(&record, at(now)), expected, "{now}");
        }
    }

    #[test]
    fn a_stop_says_what_became_of_the_test() {
        for status in [TestStatus::Stopping, TestStatus::Completed] {
            let record = TestRecord { status, ..record() };
            let reply = stopping(&record);
            let body: Value = serde_json::from_str(&reply.body).unwrap();
            assert_eq!(
                (reply.status, body),
                (202, json!({"testId": record.test_id, "status": status.as_str()}))
            );
            assert_eq!(reply.headers["location"], format!("/tests/{}", record.test_id));
        }
    }
}
