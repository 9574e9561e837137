use std::time::Duration;

use serde_json::{Value, json, to_value};

use super::*;
use crate::accounting::End;
use crate::definition::LoadTest;
use crate::micros::Micros;
use crate::plan::{Half, Lane, Plan, Role, Step, Window, Worker};
use crate::samples::accepted;
use crate::schedule::Schedule;
use crate::search::SearchEnd;
use crate::tally::{Sender, Sum, Tally};

/// Behaviour of the broker and the load generator in a run of 60 s at 100 messages a second.
#[derive(Clone, Copy)]
struct Behaviour {
    /// Percentage of the messages that are sent.
    sent: u64,
    /// Percentage of the messages that are sent late.
    late: u64,
    sender: Sender,
    /// Percentage of the messages that the broker refuses.
    refused: u64,
    /// Percentage of the messages that are never received.
    lost: u64,
}

const CALM: Behaviour = Behaviour { sent: 100, late: 0, sender: Sender::Free, refused: 0, lost: 0 };

fn body() -> Value {
    json!({
        "producers": {"ratePerSec": 100, "messageSizeBytes": 256}, "consumers": {}, "durationSeconds": 60,
        "warmUpSeconds": 10
    })
}

fn with(members: Value) -> LoadTest {
    let (Value::Object(mut all), Value::Object(members)) = (body(), members) else { panic!("objects") };
    all.extend(members);
    accepted(Value::Object(all))
}

/// Begins the tallies of a producer and of a consumer.
fn tallies(test: &LoadTest) -> [Tally; 2] {
    [Role::Producer, Role::Consumer].map(|role| {
        let lane = Lane { worker: Worker { role, number: 0 }, half: Half::Even };
        let step = Step { lane, window: Window::new(0), attempt: 0 };
        Tally::new(step, Micros::ZERO, 1, test.measured_from())
    })
}

/// Sums tallies of workers that ended in order after some seconds.
fn ended(tallies: [Tally; 2], seconds: u64) -> Sum {
    let mut sum = Sum::default();
    for mut tally in tallies {
        tally.worked_until(Micros::from_seconds(seconds));
        tally.was_last();
        tally.took(Duration::from_secs(63), Duration::from_secs(2));
        sum.add(&tally);
    }
    sum
}

fn run(test: &LoadTest, behaviour: Behaviour) -> Sum {
    let Some(Schedule::Paced(schedule)) = test.schedule() else { panic!("a rate") };
    let [mut producer, mut consumer] = tallies(test);
    for sequence in 0..schedule.total() {
        let of_100 = sequence % 100;
        if of_100 >= behaviour.sent {
            continue;
        }
        let due = schedule.due(sequence).unwrap();
        let late = if of_100 < behaviour.late { 20_000 } else { 100 };
        let sent = due.plus(Micros::new(late));
        producer.sent(sequence, due, sent, behaviour.sender);
        if of_100 < behaviour.refused {
            producer.refused(sequence);
            continue;
        }
        producer.confirmed(sequence, due, sent.plus(Micros::new(900 + sequence % 50)));
        if of_100 >= behaviour.lost {
            consumer.received(sequence, due, sent.plus(Micros::new(2_000 + sequence % 500)));
        }
    }
    for second in 0..60 {
        consumer.retained(Micros::from_seconds(second), second % 7);
    }
    ended([producer, consumer], 60)
}

fn facts(test: &LoadTest) -> Facts<'_> {
    Facts {
        test_id: "0f0e",
        status: TestStatus::Completed,
        failure: None,
        target: "QM1:DEV.QUEUE.1",
        started_at: "2026-11-26T10:00:00Z".parse().unwrap(),
        test,
        end: End { cut_at: None, is_drained: true },
        complete: true,
        search: None,
        usage: Usage { seconds: 126.0, memory_mb: 512, invocations: 2 },
    }
}

fn report(test: &LoadTest, behaviour: Behaviour) -> Report {
    Report::of(&facts(test), &run(test, behaviour))
}

#[test]
fn a_calm_run_says_what_was_reached() {
    let report = report(&accepted(body()), CALM);
    assert_eq!(
        report.summary,
        "100.0 messages a second were received; 99 % of them within 2.6 ms of when they were due. \
         All of 6,000 messages were received."
    );
    assert!(report.passed());
    assert_eq!((report.rates.asked_per_sec, report.rates.sent_per_sec), (Some(100.0), 100.0));
    // The warm-up is in the accounting, and not in the percentiles.
    assert_eq!((report.accounting.received, report.put_latency_us.as_ref().unwrap().count), (6_000, 5_000));
    assert_eq!((report.most_retained, report.series.sent.len()), (Some(6), 60));
}

#[test]
fn the_json_names_its_form_and_its_units() {
    let report = report(&with(json!({"expect": {"lost": 0}})), CALM);
    let json = to_value(&report).unwrap();
    assert_eq!(
        (&json["schema"], &json["status"]),
        (&json!("integrahub.load-report.v1"), &json!("COMPLETED"))
    );
    assert_eq!(json["putLatencyUs"]["p99_9"], 1_049);
    assert_eq!(json["series"]["received"].as_array().unwrap().len(), 60);
    assert_eq!(
        json["expect"],
        json!({"met": true, "criteria": [
            {"metric": "lost", "bound": 0, "atLeast": false, "value": 0.0, "outcome": "met"}
        ]})
    );
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
}

#[test]
fn a_report_of_a_later_version_is_read() {
    let report = report(&accepted(body()), CALM);
    let mut json = to_value(&report).unwrap();
    json["accounting"]["colour"] = json!("red");
    json["mood"] = json!("calm");
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
}

#[test]
fn a_test_without_one_message_has_not_passed() {
    for (members, what) in [
        (json!({"producers": {}, "messages": 1_000, "durationSeconds": null}), "sent"),
        (json!({"producers": null, "foreign": "take"}), "received"),
    ] {
        let test = with(members);
        let report = Report::of(&facts(&test), &ended(tallies(&test), 60));
        assert_eq!(report.summary, format!("No message was {what}, so nothing was measured."));
        assert!(report.rates.held && !report.passed(), "{what}");
    }
}

#[test]
fn a_test_whose_workers_all_died_does_not_say_what_became_of_messages() {
    for members in [
        json!({"producers": {}, "messages": 1_000, "durationSeconds": null}),
        json!({"producers": null, "foreign": "take"}),
    ] {
        let test = with(members);
        let report = Report::of(&facts(&test), &Sum::default());
        assert!(!report.accounting.holes.is_empty() && !report.passed());
        assert!(
            report.summary.contains("No message was recorded, so nothing was measured."),
            "{}",
            report.summary
        );
        assert!(!report.summary.contains("All of"), "{}", report.summary);
    }
}

#[test]
fn a_rate_that_was_not_held_is_said_first() {
    let report = report(&accepted(body()), Behaviour { sent: 90, ..CALM });
    assert!(
        report.summary.starts_with("The rate could not be held: 90.0 of 100.0 messages a second were sent."),
        "{}",
        report.summary
    );
    assert!(report.summary.ends_with("Of 6,000 messages: 600 not sent."), "{}", report.summary);
    assert!(!report.passed());
}

#[test]
fn a_generator_that_was_the_limit_is_said_first_and_a_broker_that_held_it_back_too() {
    let late = Behaviour { late: 6, ..CALM };
    let report_of = |behaviour| report(&accepted(body()), behaviour);
    let generator = report_of(late);
    assert!(
        generator.summary.starts_with("The generator was the limit: 6.0 % of the messages were sent late"),
        "{}",
        generator.summary
    );
    assert!(!generator.passed());
    let broker = report_of(Behaviour { sender: Sender::HeldBack, ..late });
    assert!(broker.summary.starts_with("The broker held the producers back: 6.0 %"), "{}", broker.summary);
    assert!(broker.passed());
    assert!(report_of(Behaviour { late: 5, ..CALM }).summary.starts_with("100.0 messages"));
}

#[test]
fn of_generator_and_broker_the_one_that_more_messages_were_late_for_is_named() {
    let mut report = report(&accepted(body()), Behaviour { late: 6, ..CALM });
    report.generator.held_back_share = 0.5;
    let summary = super::summary::of(&report);
    assert!(summary.starts_with("The broker held the producers back: 50.0 %"), "{summary}");
}

#[test]
fn a_rate_of_which_the_broker_refused_a_part_does_not_pass() {
    let report_of = |behaviour| report(&with(json!({"expect": {"refused": 100}})), behaviour);
    let refused = report_of(Behaviour { refused: 3, ..CALM });
    let first = "The broker did not take the rate: 97.0 of 100.0 messages a second were confirmed. 97.0 ";
    assert!(refused.summary.starts_with(first), "{}", refused.summary);
    let last = "Of 6,000 messages: 180 refused. Not met: refused is 180, not at most 100.";
    assert!(refused.summary.ends_with(last), "{}", refused.summary);
    assert!(refused.rates.held && !refused.passed());
    assert!(report_of(Behaviour { refused: 1, ..CALM }).passed());
}

#[test]
fn without_a_rate_rates_are_over_the_time_until_the_last_message() {
    let test = with(json!({
        "producers": {}, "messages": 1_000, "durationSeconds": null, "warmUpSeconds": 0
    }));
    let [mut producer, mut consumer] = tallies(&test);
    for sequence in 0..1_000 {
        let at = Micros::new(2_500 * (sequence + 1) - 1);
        producer.sent(sequence, at, at, Sender::Free);
        producer.confirmed(sequence, at, at);
        consumer.received(sequence, at, at.plus(Micros::new(250_000)));
    }
    let report = Report::of(&facts(&test), &ended([producer, consumer], 3));
    let rates = &report.rates;
    let measured = [rates.sent_per_sec, rates.confirmed_per_sec, rates.received_per_sec];
    assert_eq!(measured, [400.0, 400.0, 363.636]);
    assert_eq!((report.duration_seconds, report.drained_in_seconds), (2.5, Some(0.25)));
}

#[test]
fn with_a_backlog_what_was_received_counts_from_the_first_message_to_the_last() {
    let test = with(json!({"durationSeconds": 10, "warmUpSeconds": 0, "backlog": {"messages": 500}}));
    let [mut producer, mut consumer] = tallies(&test);
    for sequence in 0..1_000 {
        let due = Micros::new(10_000 * sequence);
        producer.sent(sequence, due, due, Sender::Free);
        producer.confirmed(sequence, due, due);
        consumer.received(sequence, due, Micros::new(8_500_000 + 2_000 * sequence));
    }
    let report = Report::of(&facts(&test), &ended([producer, consumer], 11));
    assert_eq!((report.rates.sent_per_sec, report.rates.received_per_sec), (100.0, 500.501));
}

#[test]
fn a_test_that_ends_before_a_second_is_measured_has_no_rates() {
    let first_second = (with(json!({"warmUpSeconds": 0})), 16_700, "0 s. It ended in its first second");
    let warm_up = (accepted(body()), 4_200_000, "4 s. It ended in its warm-up");
    for (test, cut_at, sentence) in [first_second, warm_up] {
        let end = End { cut_at: Some(Micros::new(cut_at)), is_drained: false };
        let facts = Facts { status: TestStatus::Stopped, end, ..facts(&test) };
        let report = Report::of(&facts, &run(&test, CALM));
        assert_eq!(report.rates, Rates { asked_per_sec: Some(0.0), held: true, ..Rates::default() });
        let expected = format!(
            "The test was stopped after {sentence}, so no rate was measured. \
             All of 6,000 messages were received."
        );
        assert_eq!(report.summary, expected);
    }
}

#[test]
fn criteria_that_are_not_met_are_named_with_their_units() {
    let expect =
        json!({"throughputPerSec": 99, "endToEndLatencyUs": {"p50": 2_000}, "lost": 10, "retained": 6});
    let test = with(json!({"expect": expect}));
    let report = report(&test, Behaviour { lost: 2, ..CALM });
    assert!(report.summary.contains("Of 6,000 messages: 120 lost."), "{}", report.summary);
    assert!(
        report.summary.ends_with(
            "Not met: throughputPerSec is 98.0/s, not at least 99.0/s; \
             endToEndLatencyUs.p50 is 2.4 ms, not at most 2.0 ms; lost is 120, not at most 10."
        ),
        "{}",
        report.summary
    );
    let mut facts = facts(&test);
    facts.end.is_drained = false;
    let report = Report::of(&facts, &run(&test, CALM));
    assert!(
        report.summary.ends_with("; lost was not measured, and is to be at most 10."),
        "{}",
        report.summary
    );
}

#[test]
fn a_failed_test_says_why_and_what_it_did_until_then() {
    let test = accepted(body());
    let mut facts = facts(&test);
    facts.status = TestStatus::Failed;
    facts.failure = Some("the broker at `mq.host:1414` cannot be reached");
    facts.end = End { cut_at: Some(Micros::new(30_700_000)), is_drained: false };
    let summary = Report::of(&facts, &run(&test, CALM)).summary;
    assert!(
        summary.starts_with("The test failed: the broker at `mq.host:1414` cannot be reached. 100.0 "),
        "{summary}"
    );
    let summary = Report::of(&facts, &Sum::default()).summary;
    let unrecorded = "No message was recorded, so nothing was measured. Of 3,070 messages: 3,070 unrecorded";
    assert!(summary.contains(&format!("cannot be reached. {unrecorded}")), "{summary}");
    facts.status = TestStatus::Stopped;
    assert!(Report::of(&facts, &Sum::default()).summary.starts_with("The test was stopped after 30 s."));
}

#[test]
fn a_test_that_failed_before_it_began_says_nothing_of_its_criteria() {
    let test = with(json!({"expect": {"lost": 0, "throughputPerSec": 1_000}}));
    let mut facts = facts(&test);
    facts.status = TestStatus::Failed;
    facts.failure = Some("the queue `Q` holds 12 messages that are not the test's");
    facts.end = End { cut_at: Some(Micros::ZERO), is_drained: false };
    let report = Report::of(&facts, &Sum::default());
    assert_eq!(
        report.summary,
        "The test failed: the queue `Q` holds 12 messages that are not the test's. \
         No message was sent, so nothing was measured."
    );
    assert!(!report.expect.unwrap().met);
    facts.end = End { cut_at: Some(Micros::from_seconds(30)), is_drained: false };
    let summary = Report::of(&facts, &run(&test, CALM)).summary;
    assert!(summary.contains("Not met: throughputPerSec is "), "{summary}");
}

#[test]
fn a_report_that_lacks_tallies_says_so_first_and_judges_nothing() {
    let test = with(json!({"expect": {"lost": 0, "throughputPerSec": 10}}));
    let facts = Facts { complete: false, ..facts(&test) };
    let report = Report::of(&facts, &run(&test, Behaviour { sent: 50, lost: 1, ..CALM }));
    let summary = &report.summary;
    let first = "Not all tallies could be read: all figures are those of the others. 49.0 messages a second";
    assert!(summary.starts_with(first), "{summary}");
    let last = "Of 6,000 messages: 3,060 unrecorded, because no tally that was read tells their fate.";
    assert!(summary.ends_with(last), "{summary}");
    assert!(report.rates.held && !report.passed());
    assert_eq!((report.accounting.lost, report.accounting.holes.len()), (None, 0));
    let criteria = &report.expect.as_ref().unwrap().criteria;
    assert!(criteria.iter().all(|criterion| criterion.outcome == Outcome::NotMeasured), "{criteria:?}");
    let page = report.to_html();
    assert!(page.contains("not all tallies were read") && page.contains("Not all tallies could be read"));
    let mut json = to_value(&report).unwrap();
    assert_eq!(json["complete"], false);
    json.as_object_mut().unwrap().remove("complete");
    assert!(serde_json::from_value::<Report>(json).unwrap().complete, "an earlier report");
}

#[test]
fn a_search_says_what_it_found() {
    let test = accepted(body());
    let probe = |rate: i64, passed| Probe { rate_per_sec: rate.try_into().unwrap(), passed };
    let probes = vec![probe(100, true), probe(105, false)];
    let finding = Finding { rate_per_sec: Some(100.try_into().unwrap()), end: SearchEnd::Narrowed };
    let facts = Facts { search: Some(SearchReport { probes, finding }), ..facts(&test) };
    let report = Report::of(&facts, &run(&test, CALM));
    let expected =
        "The highest rate that passed is 100 messages a second (2 probes; at most 5 % more fails).";
    assert!(report.summary.starts_with(expected), "{}", report.summary);
}

#[test]
fn two_reports_are_compared_by_the_direction_of_each_metric() {
    let test = accepted(body());
    let baseline = report(&test, CALM);
    let worse = report(&test, Behaviour { sent: 90, late: 50, lost: 1, ..CALM }).compared_with(&baseline);
    let comparison = worse.comparison.unwrap();
    let delta = |metric: &str| comparison.deltas.iter().find(|delta| delta.metric == metric).unwrap();
    let throughput = delta("throughputPerSec");
    assert_eq!((throughput.change, throughput.change_percent), (Change::Worse, Some(-11.0)));
    assert_eq!((delta("lost").change, delta("lost").change_percent), (Change::Worse, None));
    assert_eq!(delta("putLatencyUs.p99").change, Change::Worse);
    assert_eq!(delta("retained").change, Change::Same);
    let better = baseline.compared_with(&report(&test, Behaviour { late: 50, ..CALM })).comparison.unwrap();
    assert!(better.deltas.iter().any(|delta| delta.change == Change::Better));
    assert!(better.deltas.iter().all(|delta| delta.change != Change::Worse));
}

#[test]
fn figures_of_some_tallies_are_compared_with_nothing() {
    let whole = report(&accepted(body()), CALM);
    let part = Report { complete: false, ..whole.clone() };
    for (one, other) in [(&whole, &part), (&part, &whole)] {
        assert_eq!(one.clone().compared_with(other).comparison.unwrap().deltas, []);
    }
}

#[test]
fn the_cost_is_that_of_workers_transitions_and_progress() {
    let test = with(json!({"producers": {"count": 9, "ratePerSec": 100}, "durationSeconds": 3_600}));
    let usage = Usage::planned(&Plan::of(&test), 512);
    assert_eq!((usage.seconds, usage.invocations), (10.0 * (3_600.0 + 60.0 * 3.0), 600));
    let cost = Cost::of(&usage);
    // Ten workers for an hour.
    let compute = 37_800.0 * 0.5 * 0.000_016_666_7 + 600.0 * 0.000_000_2;
    assert!((cost.compute_usd - compute).abs() < 1e-6, "{cost:?}");
    assert!((cost.transitions_usd - 0.045).abs() < 1e-6, "{cost:?}");
    assert!((cost.estimate_usd - cost.compute_usd - cost.transitions_usd - cost.progress_usd).abs() < 3e-6);
    let test = accepted(body());
    let used = Usage::of(&run(&test, CALM), 512);
    assert_eq!(used, Usage { seconds: 126.0, memory_mb: 512, invocations: 2 });
    assert_eq!(used.plus(used), Usage { seconds: 252.0, memory_mb: 512, invocations: 4 });
    assert!((report(&test, CALM).cost.compute_usd - 0.001_05).abs() < 1e-6);
}

#[test]
fn the_page_holds_nothing_that_runs_or_is_loaded() {
    let test = with(json!({"expect": {"lost": 0, "putLatencyUs": {"p99": 100}}}));
    let hostile = "<script>alert(1)</script>\"'&";
    let facts = Facts { test_id: hostile, target: hostile, failure: Some(hostile), ..facts(&test) };
    let facts = Facts { status: TestStatus::Failed, ..facts };
    let report = Report::of(&facts, &run(&test, Behaviour { sent: 98, lost: 1, ..CALM }));
    let page = report.clone().compared_with(&report).to_html();
    for forbidden in
        ["<script", "javascript:", "http://", "https://", "src=", "url(", "@import", "NaN", "inf"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
    for tag in ["html", "head", "body", "style", "figure", "svg", "table", "thead", "tbody", "tr", "p", "h2"]
    {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(page.len() < 100_000, "{} bytes", page.len());
}

#[test]
fn a_page_of_a_long_test_stays_small() {
    let mut report = report(&accepted(body()), CALM);
    let seconds = 8 * 3_600;
    report.series.sent = (0..seconds).collect();
    report.series.confirmed = report.series.sent.clone();
    report.series.received = vec![0; report.series.sent.len()];
    report.series.retained = vec![None; report.series.sent.len()];
    let page = report.to_html();
    assert!(page.len() < 100_000, "{} bytes", page.len());
}
