//! `integrahub test`: starts load tests from a file, and waits until they end.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::api::{Api, Call, List, with_query};
use crate::args::{TestRun, TestShow, Tests};
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::member::shown;
use crate::output::{Format, Output};

const TESTS: &str = "/tests";
/// Pause between two requests for the state of a load test.
const LOOK: Duration = Duration::from_secs(2);
/// Number of tests on a page of the API's list.
const PAGE: u32 = 100;

const TEST: &str = "integrahub.load-test.v1";
const STARTED: &str = "integrahub.load-test-started.v1";
const STOPPED: &str = "integrahub.load-test-stopped.v1";
const LIST: &str = "integrahub.load-tests.v1";

/// Runs a command about load tests.
pub(crate) async fn run(command: &Tests, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let api = Api::of(context)?;
    match command {
        Tests::Run(args) => start(&api, args, out).await,
        Tests::Show(args) => show(&api, args, out).await,
        Tests::List { max } => list(&api, *max, out).await,
        Tests::Stop { test } => stop(&api, *test, out).await,
        Tests::Delete { test } => delete(&api, *test, out).await,
    }
}

fn path(test: &str) -> String {
    format!("{TESTS}/{test}")
}

async fn start(api: &Api, args: &TestRun, out: &mut Output) -> Result<Exit, Failure> {
    let body: Map<String, Value> = input::document(&args.file).await?;
    let key = args.key.unwrap_or_else(Uuid::new_v4).to_string();
    let call = Call::change(TESTS, &key, &body.into());
    let started = api.send(&call).await.map_err(|refusal| {
        let failure = Failure::from(refusal);
        match failure.exit {
            Exit::Temporary => failure.next(format!("run the same command again with --key {key}")),
            _ => failure,
        }
    })?;
    let started = started.json()?;
    let (program, test) = (api.program(), shown(&started, "testId"));
    if args.no_wait {
        let cost = started.pointer("/estimate/estimateUsd").map(Value::to_string).unwrap_or_default();
        let rows = [
            ("test", test.clone()),
            ("workers", shown(&started, "workers")),
            ("estimate", format!("{cost} USD")),
        ];
        out.thing(STARTED, &started, &rows);
        out.note(&format!("follow it: {program} test show {test}"));
        return Ok(Exit::Done);
    }
    out.note(&format!("test {test} is accepted; stop it: {program} test stop {test}"));
    let ended = follow(api, &test, args.timeout, out).await?;
    if !is_final(&ended) {
        return Err(Failure::new(
            Exit::TimedOut,
            format!("the test is {}, and the time to wait is over", shown(&ended, "status")),
        )
        .why("it goes on by itself")
        .next(format!("look at it: {program} test show {test}")));
    }
    let ended = match args.baseline {
        Some(_) => get(api, &test, args.baseline).await?,
        None => ended,
    };
    print(&ended, out);
    save_page(api, &test, args.html.as_deref(), args.baseline).await?;
    verdict(&ended, program)
}

async fn get(api: &Api, test: &str, baseline: Option<Uuid>) -> Result<Value, Failure> {
    let baseline = baseline.map(|baseline| baseline.to_string());
    let parameters: Vec<_> = baseline.iter().map(|baseline| ("baseline", baseline.as_str())).collect();
    api.get(&with_query(&path(test), &parameters)).await
}

fn is_final(test: &Value) -> bool {
    matches!(shown(test, "status").as_str(), "COMPLETED" | "STOPPED" | "FAILED")
}

/// Requests the state of a load test until it ends, for at most `limit` (without a limit if
/// `None`), and returns the last state. Meanwhile, prints the rates of the test's last second.
async fn follow(api: &Api, test: &str, limit: Option<Duration>, out: &mut Output) -> Result<Value, Failure> {
    let begin = Instant::now();
    let mut last = String::new();
    loop {
        let now = api.get(&path(test)).await?;
        let is_over = limit.is_some_and(|limit| begin.elapsed() >= limit);
        if is_final(&now) || is_over {
            return Ok(now);
        }
        let line = progress(&now);
        if line != last && !out.is_quiet() {
            out.note(&line);
        }
        last = line;
        let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
        tokio::time::sleep(left.map_or(LOOK, |left| left.min(LOOK))).await;
    }
}

/// Returns a line with the state of a load test and the rates of its last second, in the words of
/// RabbitMQ's `PerfTest`.
fn progress(test: &Value) -> String {
    let series = |name: &str| {
        let points = test.pointer(&format!("/report/series/{name}")).and_then(Value::as_array)?;
        Some((points.len(), points.iter().rev().find_map(Value::as_u64)))
    };
    let rate = |name: &str| series(name).and_then(|(_, last)| last);
    let mut line = shown(test, "status");
    if let Some((seconds @ 1.., _)) = series("sent").or_else(|| series("received")) {
        line.push_str(&format!(", time {seconds} s"));
        for (name, unit) in
            [("sent", " msg/s"), ("confirmed", " msg/s"), ("received", " msg/s"), ("retained", "")]
        {
            if let Some(rate) = rate(name) {
                line.push_str(&format!(", {name}: {rate}{unit}"));
            }
        }
    }
    line
}

/// Returns the exit code for a load test that has ended, or a failure if it failed, was stopped, or
/// did not meet its expectations. `program` begins the command that the failure suggests.
fn verdict(test: &Value, program: &str) -> Result<Exit, Failure> {
    let id = shown(test, "testId");
    let summary = shown(test, "summary");
    match (shown(test, "status").as_str(), test.get("passed").and_then(Value::as_bool)) {
        ("FAILED", _) => Err(Failure::new(Exit::Error, "the test failed")
            .why(shown(test, "failure"))
            .next("correct what it says, and run it again")),
        ("STOPPED", _) => Err(Failure::new(Exit::Error, "the test was stopped").why(summary)),
        (_, Some(false)) => Err(Failure::new(Exit::ExpectFailed, "the test did not pass")
            .why(unmet(test).unwrap_or(summary))
            .next(format!("read its report: {program} test show {id} --html report.html"))),
        _ => Ok(Exit::Done),
    }
}

/// Returns the expectations of the load test that were not met, with the measured values; `None` if
/// all were met, or the report has none.
fn unmet(test: &Value) -> Option<String> {
    let criteria = test.pointer("/report/expect/criteria")?.as_array()?;
    let unmet = criteria.iter().filter(|one| shown(one, "outcome") != "met").map(|one| {
        let relation = if one.get("atLeast") == Some(&json!(true)) { "at least" } else { "at most" };
        let value = match one.get("value") {
            None | Some(Value::Null) => "not measured".to_owned(),
            Some(value) => format!("is {value}"),
        };
        format!("{} {value}, expected {relation} {}", shown(one, "metric"), shown(one, "bound"))
    });
    let unmet: Vec<String> = unmet.collect();
    (!unmet.is_empty()).then(|| unmet.join("; "))
}

/// Figures of a load test's report that are shown to people, as name and JSON pointer.
const FIGURES: [(&str, &str); 15] = [
    ("asked for", "/rates/askedPerSec"),
    ("sent", "/rates/sentPerSec"),
    ("confirmed", "/rates/confirmedPerSec"),
    ("received", "/rates/receivedPerSec"),
    ("put p50 µs", "/putLatencyUs/p50"),
    ("put p99 µs", "/putLatencyUs/p99"),
    ("end to end p50 µs", "/endToEndLatencyUs/p50"),
    ("end to end p99 µs", "/endToEndLatencyUs/p99"),
    ("due", "/accounting/due"),
    ("lost", "/accounting/lost"),
    ("doubled", "/accounting/doubled"),
    ("in doubt", "/accounting/inDoubt"),
    ("not sent", "/accounting/notSent"),
    ("retained", "/accounting/retained"),
    ("cost USD", "/cost/estimateUsd"),
];

fn print(test: &Value, out: &mut Output) {
    let mut rows = vec![("test", shown(test, "testId")), ("status", shown(test, "status"))];
    rows.push(("target", shown(test, "target")));
    rows.push(("summary", shown(test, "summary")));
    rows.push(("passed", shown(test, "passed")));
    let report = test.get("report").filter(|report| !report.is_null());
    for (name, pointer) in FIGURES.into_iter().filter(|_| report.is_some()) {
        let figure = report.and_then(|report| report.pointer(pointer)).filter(|figure| !figure.is_null());
        rows.push((name, figure.map_or("not known".to_owned(), Value::to_string)));
    }
    let deltas = report.and_then(|report| report.pointer("/comparison/deltas")).and_then(Value::as_array);
    for delta in deltas.into_iter().flatten().filter(|delta| shown(delta, "change") != "same") {
        let change = format!(
            "{} {} % {}",
            shown(delta, "metric"),
            shown(delta, "changePercent"),
            shown(delta, "change")
        );
        rows.push(("against baseline", change));
    }
    rows.retain(|(_, value)| !value.is_empty());
    out.thing(TEST, test, &rows);
}

async fn show(api: &Api, args: &TestShow, out: &mut Output) -> Result<Exit, Failure> {
    let id = args.test.to_string();
    let test = get(api, &id, args.baseline).await?;
    print(&test, out);
    save_page(api, &id, args.html.as_deref(), args.baseline).await?;
    Ok(Exit::Done)
}

async fn save_page(
    api: &Api,
    test: &str,
    file: Option<&Path>,
    baseline: Option<Uuid>,
) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let baseline = baseline.map(|baseline| baseline.to_string());
    let mut parameters = vec![("format", "html")];
    parameters.extend(baseline.iter().map(|baseline| ("baseline", baseline.as_str())));
    let page = api.send(&Call::get(with_query(&path(test), &parameters))).await?;
    std::fs::write(file, &page.body).or_explain(|| format!("write {}", file.display()))
}

async fn list(api: &Api, max: u32, out: &mut Output) -> Result<Exit, Failure> {
    let limit = max.min(PAGE).to_string();
    let filters = vec![("limit", limit.as_str())];
    let list = List { path: TESTS, filters, items: "tests", next: "nextCursor" };
    let tests = list.first(api, max).await?;
    let columns = [
        ("test", "testId"),
        ("status", "status"),
        ("created", "createdAt"),
        ("passed", "passed"),
        ("target", "target"),
        ("summary", "summary"),
    ];
    out.members(LIST, "tests", tests, &columns);
    Ok(Exit::Done)
}

async fn stop(api: &Api, test: Uuid, out: &mut Output) -> Result<Exit, Failure> {
    let call = Call::of(http::Method::POST, format!("{}/stop", path(&test.to_string())));
    let stopped = api.send(&call.header("idempotency-key", &Uuid::new_v4().to_string())).await?.json()?;
    let rows = [("test", test.to_string()), ("status", shown(&stopped, "status"))];
    out.thing(STOPPED, &stopped, &rows);
    Ok(Exit::Done)
}

async fn delete(api: &Api, test: Uuid, out: &mut Output) -> Result<Exit, Failure> {
    let id = test.to_string();
    out.confirm(&format!("this deletes the test {id} and its report"), &id)?;
    api.send(&Call::of(http::Method::DELETE, path(&id))).await?;
    if out.format() == Format::Text {
        out.note(&format!("the test {id} is deleted"));
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_whether_the_test_passed() {
        let judged = |members: Value| verdict(&members, "integrahub").unwrap_or_else(|failure| failure.exit);
        assert_eq!(judged(json!({"status": "COMPLETED", "passed": true})), Exit::Done);
        assert_eq!(judged(json!({"status": "COMPLETED", "passed": null})), Exit::Done);
        assert_eq!(judged(json!({"status": "COMPLETED", "passed": false})), Exit::ExpectFailed);
        assert_eq!(judged(json!({"status": "FAILED", "passed": false, "failure": "no queue"})), Exit::Error);
        assert_eq!(judged(json!({"status": "STOPPED", "passed": null})), Exit::Error);
    }

    #[test]
    fn unmet_criteria_are_shown_with_what_was_measured() {
        let criteria = json!([
            {"metric": "lost", "bound": 0, "atLeast": false, "value": 0, "outcome": "met"},
            {"metric": "throughputPerSec", "bound": 500, "atLeast": true, "value": 12.5, "outcome": "notMet"},
            {"metric": "putLatencyUs.p99", "bound": 9, "value": null, "outcome": "notMeasured"},
        ]);
        let report = json!({"expect": {"criteria": criteria}});
        let test = json!({"status": "COMPLETED", "passed": false, "testId": "t", "report": report});
        let failure = verdict(&test, "integrahub -c till").unwrap_err();
        assert_eq!(
            failure.why.as_deref(),
            Some(
                "throughputPerSec is 12.5, expected at least 500; \
                 putLatencyUs.p99 not measured, expected at most 9"
            )
        );
        assert!(failure.next.unwrap().contains("integrahub -c till test show t --html"));
    }

    #[test]
    fn progress_is_the_last_second_of_each_series() {
        let retained = json!([null, 3, null]);
        let series =
            json!({"sent": [100, 99], "confirmed": [100, 98], "received": [0, 97], "retained": retained});
        let test = json!({"status": "RUNNING", "report": {"series": series}});
        assert_eq!(
            progress(&test),
            "RUNNING, time 2 s, sent: 99 msg/s, confirmed: 98 msg/s, received: 97 msg/s, retained: 3"
        );
        assert_eq!(progress(&json!({"status": "PENDING", "report": null})), "PENDING");
    }

    #[test]
    fn a_status_of_a_later_version_is_not_final() {
        for (status, expected) in
            [("COMPLETED", true), ("STOPPED", true), ("FAILED", true), ("STOPPING", false), ("NEW", false)]
        {
            assert_eq!(is_final(&json!({"status": status})), expected, "{status}");
        }
    }
}
