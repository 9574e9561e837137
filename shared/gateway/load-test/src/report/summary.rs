//! Summary of a load test's report in words, the most important fact first.

use super::number::{decimal, duration, float, messages, percent};
use super::{CriterionVerdict, Outcome, Report, SearchReport};
use crate::metric::Metric;
use crate::search::SearchEnd;
use crate::status::TestStatus;

/// Builds the summary of a report, in this order: missing counts of workers, a failure, a stop or
/// that the test is still running, the limits of the rate or the finding of a search, the result,
/// and the criteria that were not met.
pub(super) fn of(report: &Report) -> String {
    let mut sentences = Vec::new();
    if !report.complete {
        sentences.push("Not all tallies could be read: all figures are those of the others.".to_owned());
    }
    match report.status {
        TestStatus::Failed => {
            let reason = report.failure.as_deref().unwrap_or("the reason is not known");
            sentences.push(format!("The test failed: {reason}."));
        }
        TestStatus::Stopped => {
            sentences
                .push(format!("The test was stopped; its rates are of {:.0} s.", report.duration_seconds));
        }
        TestStatus::Running => {
            sentences.push("The test is still running.".to_owned());
        }
        TestStatus::Pending | TestStatus::Stopping | TestStatus::Completed => {}
    }
    match &report.search {
        Some(search) => sentences.push(found(search)),
        None => sentences.extend(limits(report).into_iter().flatten()),
    }
    sentences.push(reached(report));
    if report.status.is_final() && is_judged(report) {
        sentences.extend(unmet(report));
    }
    sentences.join(" ")
}

/// True if the summary is to name unmet criteria: the report is complete, and the test ran to its
/// end or sent or took messages before it failed or was stopped.
fn is_judged(report: &Report) -> bool {
    report.complete && (report.status == TestStatus::Completed || !report.is_idle())
}

fn found(search: &SearchReport) -> String {
    let probes = search.probes.len();
    let why = match search.finding.end {
        SearchEnd::Narrowed => "at most 5 % more fails",
        SearchEnd::HighestRate => "no test may ask for more",
        SearchEnd::LowestRate => "there is no lower rate",
        SearchEnd::MessagesUsedUp => "more would exceed the messages of a test",
        SearchEnd::ProbesUsedUp => "no more probes were left",
    };
    match search.finding.rate_per_sec {
        Some(rate) => {
            let rate = messages(u64::from(rate.get()));
            format!("The highest rate that passed is {rate} a second ({probes} probes; {why}).")
        }
        None => format!("No rate passed ({probes} probes; {why})."),
    }
}

/// Returns up to three sentences of the summary, about limits of the test's rate: a rate that was
/// not held, a rate that the broker did not take, and late messages.
fn limits(report: &Report) -> [Option<String>; 3] {
    [rate_not_held(report), rate_not_taken(report), generator(report)]
}

/// True if no message is recorded, but a worker's records have a gap in which it may have sent or
/// taken some.
fn is_unrecorded(report: &Report) -> bool {
    report.is_idle() && !report.accounting.holes.is_empty()
}

fn rate_not_held(report: &Report) -> Option<String> {
    let asked = report.rates.asked_per_sec.filter(|_| !report.rates.held && !is_unrecorded(report))?;
    let sent = report.rates.sent_per_sec;
    Some(format!(
        "The rate could not be held: {} of {} messages a second were sent.",
        decimal(sent),
        decimal(asked)
    ))
}

fn rate_not_taken(report: &Report) -> Option<String> {
    let asked = report.rates.asked_per_sec.filter(|_| report.complete && !report.is_rate_taken())?;
    let confirmed = report.rates.confirmed_per_sec;
    Some(format!(
        "The broker did not take the rate: {} of {} messages a second were confirmed.",
        decimal(confirmed),
        decimal(asked)
    ))
}

/// Returns the sentence about late messages, if the load generator or the broker made more than 5 %
/// of the messages late. The sentence names whichever of the two made more of them late.
fn generator(report: &Report) -> Option<String> {
    let generator = &report.generator;
    if generator.late_share > Report::MOST_LATE && generator.late_share >= generator.held_back_share {
        return Some(format!(
            "The generator was the limit: {} of the messages were sent late although the broker was ready.",
            percent(generator.late_share)
        ));
    }
    (generator.held_back_share > Report::MOST_LATE).then(|| {
        format!(
            "The broker held the producers back: {} of the messages were sent late.",
            percent(generator.held_back_share)
        )
    })
}

fn reached(report: &Report) -> String {
    let rates = &report.rates;
    if !report.status.is_final() && rates.sent_per_sec + rates.received_per_sec <= 0.0 {
        return "Nothing is measured yet.".to_owned();
    }
    if is_unrecorded(report) {
        let nothing = "No message was recorded, so nothing was measured.";
        // Without a rate, or without producers, nobody knows how many were due.
        return if report.accounting.unrecorded > 0 {
            format!("{nothing} {}", fates(report, "recorded"))
        } else {
            nothing.to_owned()
        };
    }
    if report.is_idle() {
        let what = if report.setup.producers > 0 { "sent" } else { "received" };
        return format!("No message was {what}, so nothing was measured.");
    }
    let unmeasured = unmeasured(report);
    let (metric, event) = match (report.setup.producers, report.setup.consumers) {
        (1.., 1..) => (Metric::EndToEndLatency(crate::Percentile::P99), "received"),
        (1.., 0) => (Metric::PutLatency(crate::Percentile::P99), "confirmed"),
        (0, _) => {
            if let Some(unmeasured) = unmeasured {
                return unmeasured;
            }
            let rate = decimal(report.throughput_per_sec());
            return format!("Consumers took {rate} messages a second.");
        }
    };
    if let Some(unmeasured) = unmeasured {
        return format!("{unmeasured} {}", fates(report, event));
    }
    let latency = report.value(metric).map_or(String::new(), |latency| {
        format!("; 99 % of them within {} of when they were due", duration(latency))
    });
    let rate = decimal(report.throughput_per_sec());
    format!("{rate} messages a second were {event}{latency}. {}", fates(report, event))
}

/// Returns the sentence which says why a test that sent or took messages has no rates: it ended
/// during its warm-up or in its first second. `None` if it has rates.
fn unmeasured(report: &Report) -> Option<String> {
    let span = if report.duration_seconds <= f64::from(report.setup.warm_up_seconds) {
        "its warm-up"
    } else if report.duration_seconds < 1.0 {
        "its first second"
    } else {
        return None;
    };
    let rates = &report.rates;
    let is_measured = rates.sent_per_sec + rates.confirmed_per_sec + rates.received_per_sec > 0.0;
    (!is_measured).then(|| format!("It ended in {span}, so no rate was measured."))
}

/// Returns the sentence with the number of messages for each abnormal fate, such as lost or
/// refused. If there are none, it says that all due messages were confirmed or received (`event`).
fn fates(report: &Report, event: &str) -> String {
    let accounting = &report.accounting;
    let in_doubt = if report.status.is_final() { "in doubt" } else { "without an answer so far" };
    let unrecorded = if report.complete {
        "unrecorded, because no tally covers their time"
    } else {
        "unrecorded, because no tally that was read tells their fate"
    };
    let odd = [
        (accounting.lost.unwrap_or(0), "lost"),
        (accounting.doubled, "doubled"),
        (accounting.in_doubt, in_doubt),
        (accounting.refused, "refused"),
        (accounting.not_sent, "not sent"),
        (accounting.unrecorded, unrecorded),
        (if event == "received" { accounting.retained } else { 0 }, "confirmed and not received"),
    ];
    let odd: Vec<_> = odd
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, fate)| format!("{} {fate}", super::number::grouped(*count)))
        .collect();
    let due = messages(accounting.due);
    if odd.is_empty() {
        format!("All of {due} were {event}.")
    } else {
        format!("Of {due}: {}.", odd.join(", "))
    }
}

fn unmet(report: &Report) -> Option<String> {
    let criteria = report.expect.as_ref()?.criteria.iter();
    let unmet: Vec<_> = criteria.filter(|criterion| criterion.outcome != Outcome::Met).map(missed).collect();
    (!unmet.is_empty()).then(|| format!("Not met: {}.", unmet.join("; ")))
}

fn missed(criterion: &CriterionVerdict) -> String {
    let shown = |value| shown(&criterion.metric, value);
    let bound = if criterion.at_least { "at least" } else { "at most" };
    let bound = format!("{bound} {}", shown(float(criterion.bound)));
    match criterion.value {
        Some(value) => format!("{} is {}, not {bound}", criterion.metric, shown(value)),
        None => format!("{} was not measured, and is to be {bound}", criterion.metric),
    }
}

/// Formats the value of a metric with its unit, for the summary and the tables of the HTML page.
pub(super) fn shown(metric: &str, value: f64) -> String {
    if metric.contains("Us.") {
        duration(value)
    } else if metric == Metric::Throughput.to_string() {
        format!("{}/s", decimal(value))
    } else {
        let text = decimal(value);
        text.strip_suffix(".0").unwrap_or(&text).to_owned()
    }
}
