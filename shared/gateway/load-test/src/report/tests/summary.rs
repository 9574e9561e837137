//! Tests of the summary's sentences, and of whether a run passes.

use super::*;
use crate::search::SearchEnd;

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
    let broker = report_of(Behaviour { late_reason: LateReason::Broker, ..late });
    assert!(broker.summary.starts_with("The broker held the producers back: 6.0 %"), "{}", broker.summary);
    assert!(broker.passed());
    assert!(report_of(Behaviour { late: 5, ..CALM }).summary.starts_with("100.0 messages"));
}

#[test]
fn of_generator_and_broker_the_one_that_more_messages_were_late_for_is_named() {
    let mut report = report(&accepted(body()), Behaviour { late: 6, ..CALM });
    report.generator.held_back_share = 0.5;
    let summary = crate::report::summary::of(&report);
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
fn a_test_that_ends_before_a_second_is_measured_has_no_rates() {
    let first_second = (with(json!({"warmUpSeconds": 0})), 16_700, "0 s. It ended in its first second");
    let warm_up = (accepted(body()), 4_200_000, "4 s. It ended in its warm-up");
    for (test, cut_at, sentence) in [first_second, warm_up] {
        let end = EndFacts { cut_at: Some(Micros::new(cut_at)), retained: None };
        let facts = Facts { status: TestStatus::Stopped, end, ..facts(&test) };
        let report = Report::of(&facts, &run(&test, CALM));
        assert_eq!(report.rates, Rates { asked_per_sec: Some(0.0), held: true, ..Rates::default() });
        let expected = format!(
            "The test was stopped; its rates are of {sentence}, so no rate was measured. \
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
    facts.end.retained = None;
    let report = Report::of(&facts, &run(&test, CALM));
    assert!(
        report.summary.ends_with(
            "; lost was not measured, and is to be at most 10; \
             retained was not measured, and is to be at most 6."
        ),
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
    facts.end = EndFacts { cut_at: Some(Micros::new(30_700_000)), retained: None };
    let summary = Report::of(&facts, &run(&test, CALM)).summary;
    assert!(
        summary.starts_with("The test failed: the broker at `mq.host:1414` cannot be reached. 100.0 "),
        "{summary}"
    );
    let summary = Report::of(&facts, &Sum::default()).summary;
    let unrecorded = "No message was recorded, so nothing was measured. Of 3,070 messages: 3,070 unrecorded";
    assert!(summary.contains(&format!("cannot be reached. {unrecorded}")), "{summary}");
    facts.status = TestStatus::Stopped;
    assert!(
        Report::of(&facts, &Sum::default())
            .summary
            .starts_with("The test was stopped; its rates are of 30 s.")
    );
}

#[test]
fn a_test_that_failed_before_it_began_says_nothing_of_its_criteria() {
    let test = with(json!({"expect": {"lost": 0, "throughputPerSec": 1_000}}));
    let mut facts = facts(&test);
    facts.status = TestStatus::Failed;
    facts.failure = Some("the queue `Q` holds 12 messages that are not the test's");
    facts.end = EndFacts { cut_at: Some(Micros::ZERO), retained: None };
    let report = Report::of(&facts, &Sum::default());
    assert_eq!(
        report.summary,
        "The test failed: the queue `Q` holds 12 messages that are not the test's. \
         No message was sent, so nothing was measured."
    );
    assert!(!report.expect.unwrap().met);
    facts.end = EndFacts { cut_at: Some(Micros::from_seconds(30)), retained: None };
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
