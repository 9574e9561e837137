//! Tables of a report's HTML page.

use std::fmt::Write as _;

use super::{Escaped, Outcome, Report, decimal, duration, grouped, percent};
use crate::metric::Percentile;
use crate::report::summary::shown;
use crate::report::{Change, LatencyReport};

pub(super) fn write(page: &mut String, report: &Report) {
    latencies(page, report);
    expect(page, report);
    comparison(page, report);
    search(page, report);
    accounting(page, report);
    holes(page, report);
    setup(page, report);
}

/// Writes a table with its title to the end of `page`. Cells are inserted as HTML, so the caller
/// escapes them.
fn table<const N: usize>(page: &mut String, title: &str, head: [&str; N], rows: &[[String; N]]) {
    let class = if N == 2 { "narrow" } else { "wide" };
    let _ = write!(page, "<h2>{title}</h2><div class=\"scroll\"><table class=\"{class}\"><thead><tr>");
    for name in head {
        let _ = write!(page, "<th>{name}</th>");
    }
    page.push_str("</tr></thead><tbody>");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{cell}</td>");
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
}

fn coloured(class: &str, text: &str) -> String {
    format!("<span class=\"{class}\">{text}</span>")
}

fn latencies(page: &mut String, report: &Report) {
    let row = |(name, _, latencies): (&str, &str, &LatencyReport)| {
        let at = |percentile| duration(super::float(latencies.percentile(percentile)));
        let [p50, p75, p90, p95, p99, p99_9, max] = Percentile::ALL.map(at);
        [name.to_owned(), grouped(latencies.count), p50, p75, p90, p95, p99, p99_9, max]
    };
    let rows: Vec<_> = super::latencies(report).map(row).collect();
    if !rows.is_empty() {
        let head = ["", "messages", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];
        table(page, "Latency", head, &rows);
    }
}

fn expect(page: &mut String, report: &Report) {
    let Some(verdicts) = &report.expect else { return };
    let rows: Vec<_> = verdicts
        .criteria
        .iter()
        .map(|criterion| {
            let value = |value| shown(&criterion.metric, value);
            let sign = if criterion.at_least { "≥" } else { "≤" };
            let (class, text) = match criterion.outcome {
                Outcome::Met => ("good", "met"),
                Outcome::NotMet => ("bad", "not met"),
                Outcome::NotMeasured => ("bad", "not measured"),
            };
            [
                Escaped(&criterion.metric).to_string(),
                format!("{sign} {}", value(super::float(criterion.bound))),
                criterion.value.map_or("–".to_owned(), value),
                coloured(class, text),
            ]
        })
        .collect();
    table(page, "Criteria", ["", "expected", "found", "verdict"], &rows);
}

fn comparison(page: &mut String, report: &Report) {
    let Some(comparison) = &report.comparison else { return };
    let rows: Vec<_> = comparison
        .deltas
        .iter()
        .map(|delta| {
            let (class, text) = match delta.change {
                Change::Better => ("good", "better"),
                Change::Worse => ("bad", "worse"),
                Change::Same => ("none", "same"),
            };
            [
                Escaped(&delta.metric).to_string(),
                shown(&delta.metric, delta.baseline),
                shown(&delta.metric, delta.value),
                delta.change_percent.map_or("–".to_owned(), |change| format!("{change:+.1} %")),
                coloured(class, text),
            ]
        })
        .collect();
    let title = format!("Compared with {}", Escaped(&comparison.baseline_id));
    table(page, &title, ["", "baseline", "this test", "change", ""], &rows);
}

fn search(page: &mut String, report: &Report) {
    let Some(search) = &report.search else { return };
    let rows: Vec<_> = search
        .probes
        .iter()
        .zip(1_u64..)
        .map(|(probe, number)| {
            let (class, text) = if probe.passed { ("good", "passed") } else { ("bad", "failed") };
            let rate = grouped(u64::from(probe.rate_per_sec.get()));
            [number.to_string(), format!("{rate}/s"), coloured(class, text)]
        })
        .collect();
    table(page, "Probes", ["probe", "rate", ""], &rows);
}

fn accounting(page: &mut String, report: &Report) {
    let accounting = &report.accounting;
    let unknown = || "not known".to_owned();
    let rows = [
        ("due", grouped(accounting.due)),
        ("sent", grouped(accounting.sent)),
        ("confirmed", grouped(accounting.confirmed)),
        ("received", grouped(accounting.received)),
        ("lost", accounting.lost.map_or_else(unknown, grouped)),
        ("confirmed and not received", grouped(accounting.retained)),
        ("in doubt", grouped(accounting.in_doubt)),
        ("refused", grouped(accounting.refused)),
        ("not sent", grouped(accounting.not_sent)),
        ("unrecorded", grouped(accounting.unrecorded)),
        ("doubled", grouped(accounting.doubled)),
        ("out of order", grouped(accounting.out_of_order)),
        ("of others, taken", grouped(accounting.foreign_taken)),
    ];
    let rows = rows.map(|(fate, count)| [fate.to_owned(), count]);
    table(page, "Every message", ["", "messages"], &rows);
}

fn holes(page: &mut String, report: &Report) {
    let holes = &report.accounting.holes;
    if holes.is_empty() {
        return;
    }
    let rows: Vec<_> = holes
        .iter()
        .map(|hole| {
            [
                hole.worker.to_string(),
                format!("{:.1} s", hole.from_seconds),
                format!("{:.1} s", hole.to_seconds),
                grouped(hole.messages),
            ]
        })
        .collect();
    table(page, "Holes", ["worker", "from", "to", "messages"], &rows);
    let omitted = report.accounting.holes_omitted;
    if omitted > 0 {
        let _ = write!(page, "<p>And {} more.</p>", grouped(omitted));
    }
}

fn setup(page: &mut String, report: &Report) {
    let (setup, generator, cost) = (&report.setup, &report.generator, &report.cost);
    let number = |number: Option<u32>| number.map(|number| grouped(u64::from(number)));
    let rows = [
        ("producers", Some(setup.producers.to_string())),
        ("consumers", Some(setup.consumers.to_string())),
        ("asked for", report.rates.asked_per_sec.map(|rate| format!("{}/s", decimal(rate)))),
        ("bytes of a message", setup.message_size_bytes.map(grouped)),
        ("messages of a transaction", number(setup.tx_size)),
        ("confirms in flight", number(setup.confirms_in_flight)),
        ("prefetch", number(setup.prefetch)),
        ("warm-up", Some(format!("{} s", setup.warm_up_seconds))),
        ("most on the queues", report.most_retained.map(grouped)),
        ("queues empty after", report.drained_in_seconds.map(|seconds| format!("{seconds:.0} s"))),
        ("sent late by the generator", Some(percent(generator.late_share))),
        ("sent late because of the broker", Some(percent(generator.held_back_share))),
        ("processor", Some(format!("{:.1} s", generator.cpu_seconds))),
        ("estimated cost", Some(format!("{:.4} USD", cost.estimate_usd))),
    ];
    let rows: Vec<_> = rows.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).collect();
    table(page, "Setup and cost", ["", ""], &rows);
}
