//! Tests of the HTML page of a report.

use super::*;

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
