//! HTML page of a load test's report.

mod escape;
mod plot;
mod plots;
mod tables;

use std::fmt::Write as _;

use self::escape::Escaped;
use super::number::{decimal, duration, float, grouped, percent, size};
use super::{LatencyReport, Outcome, Report};
use crate::status::TestStatus;

const STYLE: &str = include_str!("page.css");

/// Renders a report as an HTML page. The Content-Security-Policy in its head keeps browsers from
/// running scripts and loading resources.
pub(super) fn page(report: &Report) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    let id = Escaped(&report.test_id);
    let _ = write!(page, "<title>Load test {id}</title><style>\n{STYLE}</style></head><body>");
    let _ = write!(page, "<h1>Load test {id}</h1>");
    let _ = write!(
        page,
        "<p class=\"facts\">{}{} · {} · {} · {:.1} s</p>",
        report.status,
        if report.complete { "" } else { " · not all tallies were read" },
        Escaped(&report.target),
        report.started_at,
        report.duration_seconds
    );
    let _ = write!(page, "<p class=\"summary {}\">{}</p>", tone(report), Escaped(&report.summary));
    plots::write(&mut page, report);
    tables::write(&mut page, report);
    page.push_str("</body></html>\n");
    page
}

/// Returns the kinds of latency that the report has, each with its label, its CSS class and its
/// percentiles.
fn latencies(report: &Report) -> impl Iterator<Item = (&'static str, &'static str, &LatencyReport)> {
    [
        ("due to sent", "sent", &report.lateness_us),
        ("due to confirmed", "confirmed", &report.put_latency_us),
        ("due to received", "received", &report.end_to_end_latency_us),
    ]
    .into_iter()
    .filter_map(|(name, class, latencies)| Some((name, class, latencies.as_ref()?)))
}

/// Returns the CSS class that colours the page's summary: `bad`, `good`, or an empty text if there
/// is nothing to judge.
fn tone(report: &Report) -> &'static str {
    match (report.status, &report.expect) {
        (TestStatus::Failed, _) => "bad",
        _ if !report.complete => "bad",
        (_, Some(verdicts)) if !verdicts.met => "bad",
        (_, Some(_)) => "good",
        (_, None) => "",
    }
}
