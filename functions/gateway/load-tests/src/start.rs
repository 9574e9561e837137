//! Response to `POST /tests`, which accepts a load test and starts it.

use access::TargetLimits;
use api::{Problem, Reason, Reply, TraceId};
use endpoint::{Admission, WorkDone};
use front::{Accepted, origin};
use idempotency::{Execution, whole_seconds};
use jiff::Timestamp;
use lambda_http::Request;
use load_test::store::{Created, ExecutionStart, TestRecord};
use load_test::{Cost, LoadTest, Micros, Mode, Plan, Search, Usage};
use mq::{Tags, Target};
use serde_json::json;

use crate::overdue::planned_end;
use crate::problems::{from_engine, from_store};
use crate::request::{NewTest, START, StartRequest, from_request};
use crate::route::TESTS;
use crate::{LoadTests, id};

/// Maximum `Retry-After`, in seconds, of the response to a start that is refused because other
/// tests of the tenant use up the workers.
const MOST_RETRY_AFTER: u32 = 600;

impl LoadTests {
    pub(crate) async fn start(&self, request: &Request, trace_id: &TraceId) -> Result<Reply, Problem> {
        let accepted = self.front.accept::<StartRequest>(request).await?;
        let Accepted { identity, target, policies, spent, tags, work: NewTest(test) } = accepted;
        let target_name = target.to_string();
        let limits = policies.of_target();
        let admission = Admission::new(&self.front.limiter, policies).within(spent);
        self.front
            .once(&identity, START, &target_name, trace_id, &admission, async |execution| {
                let test = tagged(test, &tags, execution);
                let key_name = identity.principal.key_name();
                let found = self.find_or_create(test, (target, &limits), key_name, execution);
                let record = Box::pin(found).await?;
                let start = ExecutionStart::of(&record.tenant, record.test_id);
                self.engine.start(&start).await.map_err(|error| from_engine(&error))?;
                Ok(WorkDone::Record(started(&record, self.memory_mb)))
            })
            .await
    }

    /// Returns the test that belongs to a claimed idempotency key, and creates it unless an earlier
    /// attempt of the request did. `key_name` is the name of the caller's API key or token. Only
    /// for a new test, enough workers must be free, and the test must stay within the deployment's
    /// and the target's limits.
    async fn find_or_create(
        &self,
        test: LoadTest,
        (target, limits): (Target, &TargetLimits),
        key_name: &str,
        execution: &Execution,
    ) -> Result<TestRecord, Problem> {
        let (tenant, test_id) = (execution.tenant.as_str(), id::of_claim(execution));
        if let Some(record) = self.store.get(tenant, test_id).await.map_err(|error| from_store(&error))? {
            return Ok(record);
        }
        let test = test.within(&self.limits).map_err(|error| from_request(&error))?;
        within_limits(&test, limits)?;
        // The claim may be much older, if this is a retry of a start that found no room.
        let created_at = Timestamp::now();
        let record = TestRecord::new(tenant, test_id, &execution.trace_id, test, target, created_at);
        let record = TestRecord { key_name: key_name.to_owned(), ..record };
        let created = self.store.create(&record, self.limits.workers).await;
        if let Created::NoRoom { others, other_workers } = created.map_err(|error| from_store(&error))? {
            self.close_overdue(&others, created_at).await;
            let counts = [other_workers, record.test.worker_count(), self.limits.workers];
            return Err(no_room(&others, created_at, counts));
        }
        tracing::info!(
            event_type = "load_test.accepted",
            test_id = %test_id,
            workers = record.test.worker_count(),
            "accepted load test {test_id} of `{}`",
            record.target
        );
        Ok(record)
    }
}

/// Adds the caller's tags and the origin (trace id, tenant and target) to the headers of a test's
/// messages.
fn tagged(mut test: LoadTest, tags: &Tags, execution: &Execution) -> LoadTest {
    if let Some(producers) = &mut test.producers {
        let of_first = origin(execution.first_trace_id(), &execution.tenant, &execution.target);
        tags.mark(&mut producers.headers, of_first);
    }
    test
}

/// Refuses a test that would put or take more messages or bytes a second than its target's limits
/// allow. Running workers are not checked against these limits, so the highest rate that the test
/// requests is checked here.
fn within_limits(test: &LoadTest, limits: &TargetLimits) -> Result<(), Problem> {
    let messages = test.highest_rate();
    let bytes = messages.map(|messages| messages.saturating_mul(test.message_bytes()));
    for (unit, asked, limit) in [("messages", messages, limits.messages), ("bytes", bytes, limits.bytes)] {
        let Some(limit) = limit else { continue };
        // No limit is above a thousand million.
        let comparable = |asked: u64| u32::try_from(asked).map_or(f64::INFINITY, f64::from);
        if asked.is_some_and(|asked| comparable(asked) <= limit.per_second) {
            continue;
        }
        let asked = asked.map_or_else(|| "as many as it can".to_owned(), |asked| format!("up to {asked}"));
        let detail = format!(
            "the test puts or takes {asked} {unit} a second, and its target takes {} of this tenant; send it with \
             a lower ratePerSec under a new key, or ask the operator to raise the limit",
            limit.per_second
        );
        // As the limits of requests name themselves.
        let violated = json!([format!("target-{unit}")]);
        return Err(Problem::new(Reason::TargetRateLimit, detail).extension("violated-policies", violated));
    }
    Ok(())
}

/// Builds the problem for a test of `wanted` workers that cannot start, because the tenant's tests
/// in progress (`unfinished`) have `taken` of the `most` workers that the tenant may have.
/// `Retry-After` is the time until the first of these tests should have ended, at most
/// [`MOST_RETRY_AFTER`].
fn no_room(unfinished: &[TestRecord], now: Timestamp, [taken, wanted, most]: [u32; 3]) -> Problem {
    let detail = format!(
        "the tenant's tests under way have {taken} workers, this one has {wanted}, and all together may have {most}; \
         stop one of them, or send this one again with the same key when one has ended"
    );
    let ends = unfinished.iter().map(planned_end).min();
    let seconds = whole_seconds(ends.map(|end| Micros::since_start(now, end).into()).unwrap_or_default());
    Problem::new(Reason::TenantRateLimit, detail).retry_after(seconds.min(MOST_RETRY_AFTER))
}

/// Builds the response to the start of a load test. Every retry gets the same response.
fn started(record: &TestRecord, memory_mb: u32) -> Reply {
    let path = format!("{TESTS}/{}", record.test_id);
    let body = json!({
        "testId": record.test_id,
        "status": "PENDING",
        "target": record.target.to_string(),
        "workers": record.test.worker_count(),
        "estimate": estimate(&record.test, memory_mb),
        "links": {"self": path, "html": format!("{path}?format=html"), "stop": format!("{path}/stop")},
    });
    let mut reply = Reply::json(202, &body);
    reply.set_header("location", path);
    reply
}

/// Estimates the maximum cost of a test, without the time for draining its queues. A search counts
/// with the maximum number of probes (runs at one rate). `memory_mb` is the memory of `load-step`.
fn estimate(test: &LoadTest, memory_mb: u32) -> Cost {
    let run = Usage::planned(&Plan::of(test), memory_mb);
    let runs = match test.mode {
        Mode::Run => 1,
        Mode::Search => Search::MOST_PROBES,
    };
    let all = (1..runs).fold(run, |usage, _| usage.plus(run));
    Cost::of(&all)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::samples::{record, test};

    const MEMORY_MB: u32 = 1_024;

    #[test]
    fn a_start_says_where_the_test_is_and_what_it_costs() {
        let record = record();
        let reply = started(&record, MEMORY_MB);
        let path = format!("/tests/{}", record.test_id);
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((reply.status, reply.headers["location"].as_str()), (202, path.as_str()));
        assert_eq!((&body["status"], &body["workers"]), (&json!("PENDING"), &json!(3)));
        let links = &body["links"];
        assert_eq!((&links["self"], &links["stop"]), (&json!(path), &json!(format!("{path}/stop"))));
        assert!(body["estimate"]["estimateUsd"].as_f64().unwrap() > 0.0, "{body}");
    }

    #[test]
    fn a_search_is_estimated_with_all_its_probes() {
        let once = estimate(&test(&json!({})), MEMORY_MB).estimate_usd;
        let search = estimate(&test(&json!({"mode": "search"})), MEMORY_MB).estimate_usd;
        assert!((search - 20.0 * once).abs() < 1e-4, "{search} of {once}");
    }

    #[test]
    fn a_test_that_is_faster_than_its_target_s_limits_is_refused() {
        let limit = |text: &str| serde_json::from_str::<TargetLimits>(text).unwrap();
        let producers = |rate: u32| test(&json!({"producers": {"ratePerSec": rate, "messageSizeBytes": 10}}));
        let searches = test(&json!({"mode": "search"}));
        for (limits, test, expected) in [
            ("{}", &producers(1_000), None),
            (r#"{"requests": {"perSecond": 1}}"#, &producers(1_000), None),
            (r#"{"messages": {"perSecond": 100}}"#, &producers(100), None),
            (r#"{"messages": {"perSecond": 99.5}}"#, &producers(100), Some("up to 100 messages")),
            (r#"{"messages": {"perSecond": 1e9}}"#, &searches, Some("as many as it can messages")),
            (r#"{"bytes": {"perSecond": 1000}}"#, &producers(100), None),
            (r#"{"bytes": {"perSecond": 999}}"#, &producers(100), Some("up to 1000 bytes")),
        ] {
            let problem = within_limits(test, &limit(limits)).err();
            let reason = problem.as_ref().map(|problem| problem.reason);
            assert_eq!(reason, expected.map(|_| Reason::TargetRateLimit), "{limits}");
            if let (Some(problem), Some(expected)) = (&problem, expected) {
                let unit = expected.rsplit(' ').next().unwrap();
                assert_eq!(problem.extensions["violated-policies"], json!([format!("target-{unit}")]));
            }
            let detail = problem.map(|problem| problem.detail).unwrap_or_default();
            assert!(detail.contains(expected.unwrap_or_default()), "{detail}");
            assert!(detail.is_empty() || detail.contains("under a new key"), "{detail}");
        }
    }

    #[test]
    fn a_test_without_room_waits_for_the_first_that_ends() {
        let now: Timestamp = "2026-11-22T10:00:00Z".parse().unwrap();
        let problem = |records: &[TestRecord]| no_room(records, now, [3, 8, 10]);
        let mut first = record();
        first.created_at = now;
        let second = TestRecord { created_at: "2026-11-22T10:05:00Z".parse().unwrap(), ..first.clone() };
        let waits = problem(&[second.clone(), first]);
        assert_eq!((waits.reason, waits.retry_after), (Reason::TenantRateLimit, Some(80)));
        assert!(waits.detail.contains("have 3 workers, this one has 8, and all together may have 10"));
        let late = TestRecord { created_at: "2026-11-22T12:00:00Z".parse().unwrap(), ..second };
        assert_eq!(problem(&[late]).retry_after, Some(MOST_RETRY_AFTER));
        assert_eq!(problem(&[]).retry_after, Some(1));
    }
}
