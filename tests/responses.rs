//! Tests of the contract beyond single responses. Responses that are hard to cause are made from
//! their types and checked. After all tests, every part of the contract must have been seen.

use std::borrow::Cow;
use std::collections::BTreeSet;

use api::{Fault, Problem, Reason, TraceId};
use catalog::{BatchView, ChangesView, ChunksView, PayloadFailure, PayloadView};
use chunker::UnusableCode;
use end_to_end::contract;
use ingestion::batch::{BatchStatus, Deactivation, SkipReason};
use ingestion::chunk::Generation;
use ingestion::payload::{LoadType, Source};
use ingestion::product::{ItemError, ItemErrorCode, PartialKey};
use jiff::Timestamp;
use load_test::{
    Accounting, Change, Comparison, Cost, CriterionVerdict, Delta, Finding, Generator, Hole, LatencyReport,
    Outcome, Probe, Rates, Report, Role, SearchEnd, SearchReport, Series, Setup, TestStatus, Verdicts,
    Window, Worker,
};
use load_tests::{ListedTest, ShownRun, ShownTest};
use mq::{BrokerReply, KeptReason, MoveOutcome, Persistence, RateLimit};
use serde_json::{Value, json};
use uuid::Uuid;

#[test]
fn a_problem_of_every_reason_is_as_the_contract_describes_it() {
    for reason in Reason::ALL {
        let broker = BrokerReply { product: "RabbitMQ", code: 403, name: "ACCESS_REFUSED" };
        let fault = Fault { pointer: "/batch/count".to_owned(), detail: "must be at least 1".to_owned() };
        let problem = Problem::faulty(*reason, vec![fault]).extension("broker", json!(broker));
        for problem in [Problem::new(*reason, "detail"), problem] {
            let body = serde_json::from_str(&problem.to_reply(&TraceId::new()).body).unwrap();
            contract::problem(&body).unwrap_or_else(|wrong| panic!("{reason:?}: {wrong}"));
        }
    }
}

#[test]
fn a_member_or_a_word_that_the_contract_lacks_is_a_fault_of_ours_alone() {
    let to_clients = |schema: &str, value: &Value| {
        let reference = format!("#/components/schemas/{schema}");
        let schema = json!({"$ref": reference, "components": contract::PUBLISHED["components"]});
        jsonschema::is_valid(&schema, value)
    };
    let problem = Problem::new(Reason::Busy, "detail").to_reply(&TraceId::new()).body;
    let problem: Value = serde_json::from_str(&problem).unwrap();
    let code = PayloadFailure::GIVEN_UP;
    let batch = json!(batch(BatchStatus::Failed, Deactivation::Pending, code));
    for (schema, value, words) in [
        ("Problem", problem, &["/reason", "/code"][..]),
        (
            "ProductBatch",
            batch,
            &["/status", "/error/code", "/deactivation/state", "/deactivation/reason"][..],
        ),
    ] {
        contract::conforms(schema, &value).unwrap_or_else(|wrong| panic!("{wrong}: {value}"));
        let mut larger = value.clone();
        larger["unknown"] = json!(true);
        let other = words.iter().map(|word| {
            let mut value = value.clone();
            *value.pointer_mut(word).unwrap() = json!("SOMETHING_NEW");
            value
        });
        for value in other.chain([larger]) {
            assert!(to_clients(schema, &value), "clients are told that {schema} is closed: {value}");
            assert!(contract::conforms(schema, &value).is_err(), "{schema} may be {value}");
        }
    }
}

#[test]
fn examples_of_responses_have_the_members_of_the_responses() {
    assert_eq!(contract::wrong_examples(), [""; 0]);
}

fn batch(status: BatchStatus, deactivation: Deactivation, code: &'static str) -> BatchView {
    BatchView {
        batch_id: Uuid::now_v7(),
        load_type: LoadType::Full,
        status,
        source: None,
        received_at: Timestamp::now(),
        started_at: Some(Timestamp::now()),
        finished_at: None,
        generation: Generation::FIRST,
        payload: PayloadView { bytes: Some(2), checksum: Some("ab".repeat(32)) },
        items_parsed: 0,
        items_processed: 0,
        items_failed: 0,
        items_partial: 0,
        errors_omitted: 0,
        errors_url: Some(catalog::errors_url(Uuid::now_v7())),
        changes: ChangesView::default(),
        deactivation: deactivation.report(status),
        chunks: ChunksView::default(),
        error: Some(PayloadFailure { code: code.into(), detail: "detail".to_owned(), byte_offset: Some(7) }),
        warnings: vec!["a warning"],
    }
}

#[test]
fn a_batch_is_as_the_contract_describes_it_in_every_state() {
    use UnusableCode::{ContentCorrupt, MalformedJson, MaxPayloadExceeded, TooManyCnpjs, TooManyErrors};
    let deactivation = Deactivation::Pending;
    let unusable = [MalformedJson, ContentCorrupt, MaxPayloadExceeded, TooManyCnpjs, TooManyErrors];
    let codes = unusable.map(UnusableCode::as_str).into_iter();
    let codes = codes.chain([PayloadFailure::GIVEN_UP, PayloadFailure::TOO_OLD]);
    let failed = codes.map(|code| batch(BatchStatus::Failed, deactivation, code));
    let code = PayloadFailure::GIVEN_UP;
    let statuses = BatchStatus::ALL.into_iter().map(|status| batch(status, deactivation, code));
    use SkipReason::{EmptyLoad, FailedLoad, LaterFullLoad, NotOwned, TooLate, UnreadableKey};
    let many = SkipReason::TooManyErrors;
    let skipped = [LaterFullLoad, UnreadableKey, many, TooLate, NotOwned, EmptyLoad, FailedLoad]
        .map(|reason| batch(BatchStatus::Completed, Deactivation::Skipped { reason }, code));
    let source = |version_id| Source {
        bucket: "payloads".to_owned(),
        key: "drop/1/full/a.json".to_owned(),
        etag: "\"ab\"".to_owned(),
        version_id,
    };
    let dropped = [None, Some("v1".to_owned())].map(|id| BatchView {
        source: Some(source(id)),
        ..batch(BatchStatus::Completed, deactivation, code)
    });
    for batch in failed.chain(statuses).chain(skipped).chain(dropped) {
        let batch = serde_json::to_value(batch).unwrap();
        contract::made("ProductBatch", &batch).unwrap_or_else(|wrong| panic!("{wrong}: {batch}"));
    }
}

#[test]
fn an_item_s_error_is_as_the_contract_describes_it_for_every_code() {
    for code in [
        ItemErrorCode::NotAnObject,
        ItemErrorCode::MalformedJson,
        ItemErrorCode::FieldRequired,
        ItemErrorCode::FieldInvalid,
        ItemErrorCode::CnpjInvalid,
        ItemErrorCode::CnpjNotAllowed,
        ItemErrorCode::ItemTooLarge,
        ItemErrorCode::RejectedByDatabase,
    ] {
        let error = ItemError {
            item_index: 0,
            byte_offset: 1,
            code,
            field: Some(Cow::Borrowed("CNPJ")),
            detail: Cow::Borrowed("detail"),
            key: PartialKey::default(),
        };
        let error = serde_json::to_value(error).unwrap();
        contract::made("ItemError", &error).unwrap_or_else(|wrong| panic!("{wrong}: {error}"));
    }
}

#[test]
fn the_contract_has_every_reason_why_a_message_stays() {
    use KeptReason::{
        NoOrigin, NotAllowed, NotReproducible, Refused, SameQueue, TooLarge, Unroutable, WouldBeCopied,
    };
    let all =
        [NoOrigin, SameQueue, NotAllowed, Unroutable, Refused, TooLarge, NotReproducible, WouldBeCopied];
    let reasons = all.map(|stay| MoveOutcome {
        msg_id: None,
        to: None,
        stays: Some(stay),
        deaths: 0,
        backout_count: 0,
    });
    let reasons = reasons.map(|considered| json!(considered)["reason"].clone());
    let published = &contract::PUBLISHED["components"]["schemas"]["StayReason"]["anyOf"][0]["enum"];
    assert_eq!(*published, json!(reasons));
}

/// Makes a report of a load test in which every optional member is present.
fn report(status: TestStatus, outcome: Outcome, end: SearchEnd, change: Change) -> Report {
    let rate_per_sec = RateLimit::default();
    let metric = || "putLatencyUs.p99".to_owned();
    let criterion =
        CriterionVerdict { metric: metric(), bound: 1, at_least: false, value: Some(1.5), outcome };
    let delta = Delta { metric: metric(), baseline: 1.0, value: 2.0, change_percent: Some(100.0), change };
    let hole = Hole {
        worker: Worker { role: Role::Producer, number: 0 },
        from_seconds: 60.0,
        to_seconds: 61.5,
        first_window: Window::new(1),
        messages: 3,
    };
    Report {
        schema: Report::SCHEMA.to_owned(),
        test_id: Uuid::now_v7().to_string(),
        status,
        complete: true,
        summary: "summary".to_owned(),
        failure: Some("failure".to_owned()),
        target: "/:Q".to_owned(),
        started_at: Timestamp::now(),
        duration_seconds: 60.0,
        setup: Setup { persistence: Some(Persistence::Nonpersistent), tx_size: Some(1), ..Setup::default() },
        rates: Rates { asked_per_sec: Some(1.0), ..Rates::default() },
        put_latency_us: Some(LatencyReport::default()),
        end_to_end_latency_us: Some(LatencyReport::default()),
        lateness_us: None,
        generator: Generator::default(),
        accounting: Accounting { lost: None, holes: vec![hole], ..Accounting::default() },
        most_retained: Some(1),
        drained_in_seconds: Some(1.5),
        expect: Some(Verdicts { met: false, criteria: vec![criterion] }),
        search: Some(SearchReport {
            probes: vec![Probe { rate_per_sec, passed: true }],
            finding: Finding { rate_per_sec: Some(rate_per_sec), end },
        }),
        comparison: Some(Comparison {
            baseline_id: Uuid::now_v7().to_string(),
            baseline_started_at: Timestamp::now(),
            deltas: vec![delta],
        }),
        cost: Cost::default(),
        series: Series { sent: vec![1], retained: vec![None, Some(1)], ..Series::default() },
    }
}

#[test]
fn a_load_test_is_as_the_contract_describes_it_in_every_state() {
    let made = |schema: &str, value: Value| {
        contract::made(schema, &value).unwrap_or_else(|wrong| panic!("{wrong}: {value}"));
    };
    for status in TestStatus::ALL {
        let (test_id, now) = (Uuid::now_v7(), Timestamp::now());
        let run = ShownRun {
            rate_per_sec: Some(RateLimit::default()),
            started_at: now,
            ended_at: None,
            passed: None,
        };
        let listed = ListedTest {
            test_id,
            status,
            created_at: now,
            ended_at: Some(now),
            target: "/:Q".to_owned(),
            workers: 1,
            summary: Some("summary".to_owned()),
            passed: Some(true),
        };
        let shown = ShownTest {
            listed: listed.clone(),
            stop_requested_at: Some(now),
            runs: vec![run],
            failure: Some("failure".to_owned()),
            complete: true,
            warnings: vec!["a warning".to_owned()],
            report: Some(report(status, Outcome::Met, SearchEnd::Narrowed, Change::Same)),
        };
        made("LoadTest", json!(shown));
        made("LoadTestSummary", json!(ListedTest { ended_at: None, summary: None, passed: None, ..listed }));
    }
}

#[test]
fn a_report_is_as_the_contract_describes_it_with_every_word() {
    let ends = [
        SearchEnd::Narrowed,
        SearchEnd::HighestRate,
        SearchEnd::LowestRate,
        SearchEnd::MessagesUsedUp,
        SearchEnd::ProbesUsedUp,
    ];
    let outcomes = [Outcome::Met, Outcome::NotMet, Outcome::NotMeasured];
    let changes = [Change::Better, Change::Worse, Change::Same];
    for (index, end) in ends.into_iter().enumerate() {
        let (outcome, change) = (outcomes[index % outcomes.len()], changes[index % changes.len()]);
        let report = json!(report(TestStatus::Completed, outcome, end, change));
        contract::made("LoadTestReport", &report).unwrap_or_else(|wrong| panic!("{wrong}: {report}"));
    }
}

/// Parts of the contract that no end-to-end test sees, each with the reason or with the test that
/// covers it.
const NOT_SEEN: [(&str, &str); 30] = [
    (r#"ErrorReason: "BROKER_REJECTED""#, "refusals of a broker: `shared/gateway/rabbitmq/tests/faults`"),
    (r#"ErrorReason: "EXCEEDS_TIME_BUDGET""#, "`functions/gateway/produce/src/request.rs`"),
    (
        r#"ErrorReason: "POOL_TIMEOUT""#,
        "an environment serves one request: `shared/gateway/rabbitmq/tests/it`",
    ),
    (r#"DependencyName: "ingest""#, STATUS),
    (r#"DependencyName: "kafka""#, "only with `KAFKA=1`; otherwise `tests/crash/batches.rs`"),
    (r#"Readiness/status: "unavailable""#, STATUS),
    (r#"Readiness/status: "degraded""#, STATUS),
    ("GET /health/ready 503 application/json", STATUS),
    ("GET /status 503 application/problem+json", STATUS),
    ("GET /metrics 503 application/problem+json", STATUS),
    ("GET /v1/usage 503 application/problem+json", STATUS),
    ("POST /connections/test 503 application/problem+json", UNANSWERED),
    ("POST /connections/test 504 application/problem+json", UNANSWERED),
    ("GET /targets 503 application/problem+json", AWAY),
    ("GET /tests 503 application/problem+json", AWAY),
    ("GET /tests/{test_id} 503 application/problem+json", AWAY),
    ("DELETE /tests/{test_id} 503 application/problem+json", AWAY),
    ("POST /tests/{test_id}/stop 503 application/problem+json", AWAY),
    ("POST /messages/move 504 application/problem+json", "as for `/messages/consume`"),
    ("POST /queue/depth 504 application/problem+json", UNANSWERED),
    (r#"StayReason: "SAME_QUEUE""#, STAYS),
    (r#"StayReason: "UNROUTABLE""#, STAYS),
    (r#"StayReason: "REFUSED""#, STAYS),
    (r#"StayReason: "TOO_LARGE""#, STAYS),
    (r#"StayReason: "NOT_REPRODUCIBLE""#, STAYS),
    (r#"StayReason: "WOULD_BE_COPIED""#, STAYS),
    (
        "ReceivedMessage/unreadable",
        "properties that are not UTF-8: `shared/gateway/rabbitmq/tests/it/foreign.rs`",
    ),
    ("POST /v1/inovafarma/products/uploads 503 application/problem+json", "as for `…/products`"),
    ("GET /v1/inovafarma/batches/{batch_id}/errors.ndjson 503 application/problem+json", "as for `…/errors`"),
    (r#"UploadStatus: "EXPIRED""#, "30 days after the request"),
];
const STATUS: &str = "a store of the whole stack would be away: `functions/status/src/tests.rs`";
const AWAY: &str = "a store of the whole stack would be away; `POST /tests` has one that cannot be used";
const UNANSWERED: &str = "mq-access gives no answer: `shared/gateway/front/src/mq_access.rs`";
const STAYS: &str = "`shared/gateway/rabbitmq/tests/it/moving/mod.rs`, and their names here";

#[test]
#[ignore = "`make test` runs it after all others, whose notes it reads"]
fn what_is_described_was_seen() {
    let (described, seen) = (contract::described(), contract::seen());
    let excused: BTreeSet<_> = NOT_SEEN.iter().map(|(what, _)| (*what).to_owned()).collect();
    let unknown: Vec<_> = excused.difference(&described).collect();
    assert!(unknown.is_empty(), "the contract does not describe {unknown:#?}");
    let missing: Vec<_> = described.difference(&seen).filter(|what| !excused.contains(*what)).collect();
    assert!(missing.is_empty(), "no response of any test was or had {missing:#?}");
}
