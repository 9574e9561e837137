mod page;
mod summary;

use std::time::Duration;

use serde_json::{Value, json, to_value};

use super::*;
use crate::accounting::EndFacts;
use crate::definition::LoadTest;
use crate::micros::Micros;
use crate::plan::{Lane, MinuteParity, Plan, Role, Step, Window, Worker};
use crate::samples::accepted;
use crate::schedule::Schedule;
use crate::tally::{LateReason, Sum, Tally};

/// Behaviour of the broker and the load generator in a simulated run of 60 s at 100 messages a
/// second.
#[derive(Clone, Copy)]
struct Behaviour {
    /// Percentage of the messages that are sent.
    sent: u64,
    /// Percentage of the messages that are sent late.
    late: u64,
    late_reason: LateReason,
    /// Percentage of the messages that the broker refuses.
    refused: u64,
    /// Percentage of the messages that are never received.
    lost: u64,
}

const CALM: Behaviour =
    Behaviour { sent: 100, late: 0, late_reason: LateReason::Producer, refused: 0, lost: 0 };

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

/// Creates empty counts of minute 0 of a test's run, for one producer and one consumer.
fn tallies(test: &LoadTest) -> [Tally; 2] {
    [Role::Producer, Role::Consumer].map(|role| {
        let lane = Lane { worker: Worker { role, number: 0 }, parity: MinuteParity::Even };
        let step = Step { lane, window: Window::new(0), attempt: 0 };
        Tally::new(step, Micros::ZERO, 1, test.measured_from())
    })
}

/// Sums the counts of two workers that had nothing left to do after this number of seconds.
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
        producer.sent(sequence, due, sent, behaviour.late_reason);
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
        end: EndFacts { cut_at: None, retained: Some(0) },
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
fn without_a_rate_rates_are_over_the_time_until_the_last_message() {
    let test = with(json!({
        "producers": {}, "messages": 1_000, "durationSeconds": null, "warmUpSeconds": 0
    }));
    let [mut producer, mut consumer] = tallies(&test);
    for sequence in 0..1_000 {
        let at = Micros::new(2_500 * (sequence + 1) - 1);
        producer.sent(sequence, at, at, LateReason::Producer);
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
        producer.sent(sequence, due, due, LateReason::Producer);
        producer.confirmed(sequence, due, due);
        consumer.received(sequence, due, Micros::new(8_500_000 + 2_000 * sequence));
    }
    let report = Report::of(&facts(&test), &ended([producer, consumer], 11));
    assert_eq!((report.rates.sent_per_sec, report.rates.received_per_sec), (100.0, 500.501));
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
