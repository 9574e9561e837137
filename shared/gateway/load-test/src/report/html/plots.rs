//! Plots of a report's HTML page: rates, messages on the queues, and percentiles.

use super::plot::{self, Line, MOST_VALUES, Plot};
use super::{Report, decimal, duration, float};
use crate::metric::Percentile;

pub(super) fn write(page: &mut String, report: &Report) {
    let series = &report.series;
    let rates = [
        ("sent", "sent", &series.sent),
        ("confirmed", "confirmed", &series.confirmed),
        ("received", "received", &series.received),
    ];
    if series.sent.len() > 1 {
        page.push_str("<h2>Messages a second</h2>");
        let lines = rates.map(|(label, class, values)| {
            let values: Vec<_> = values.iter().map(|value| Some(float(*value))).collect();
            (label, class, averaged(&values))
        });
        over_time(page, "Messages a second over time", &lines, series.sent.len());
    }
    if report.most_retained.is_some() && series.retained.len() > 1 {
        page.push_str("<h2>Messages on the queues</h2>");
        let values: Vec<_> = series.retained.iter().map(|value| value.map(float)).collect();
        let lines = [("on the queues", "received", averaged(&values))];
        over_time(page, "Messages on the queues over time", &lines, values.len());
    }
    percentiles(page, report);
}

/// Averages neighbouring values of a line so that at most [`MOST_VALUES`] remain. A missing value
/// counts as the previous value, since queues are not measured in every second.
fn averaged(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut known = None;
    let filled: Vec<_> = values
        .iter()
        .map(|value| {
            known = value.or(known);
            known
        })
        .collect();
    let average = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / super::size(known.len()))
    };
    filled.chunks(values.len().div_ceil(MOST_VALUES).max(1)).map(average).collect()
}

/// Writes a plot of `seconds` seconds with several lines. Each line is a label, a CSS class, and a
/// value for each second or for several seconds on average.
fn over_time(page: &mut String, title: &str, lines: &[(&str, &str, Vec<Option<f64>>)], seconds: usize) {
    let most = lines.iter().flat_map(|(.., values)| values).copied().flatten().fold(0.0, f64::max);
    let levels = plot::round_numbers(most, 4.0);
    let top = levels.last().copied().unwrap_or(most);
    let last = super::size(seconds.saturating_sub(1)).max(1.0);
    let times = plot::round_numbers(last, 6.0).into_iter().filter(|second| *second <= last);
    let axes = Plot {
        title,
        x: times.map(|second| (second / last, format!("{second:.0} s"))).collect(),
        y: levels.iter().map(|level| (level / top, whole(*level))).collect(),
    };
    let lines: Vec<_> = lines
        .iter()
        .map(|(label, class, values)| Line {
            label,
            class,
            values: values.iter().map(|value| value.map(|value| value / top)).collect(),
        })
        .collect();
    plot::write(page, &axes, &lines);
}

/// Formats a number with one decimal place, or without any if the number is whole.
fn whole(number: f64) -> String {
    decimal(number).trim_end_matches(".0").to_owned()
}

fn percentiles(page: &mut String, report: &Report) {
    let known: Vec<_> = super::latencies(report)
        .map(|(label, class, report)| {
            let values = Percentile::ALL.map(|percentile| float(report.percentile(percentile)));
            (label, class, values)
        })
        .collect();
    if known.is_empty() {
        return;
    }
    let values = || known.iter().flat_map(|(.., values)| values).copied();
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let (y, place) = plot::powers(least, most, |latency| duration(latency).replace(".0 ", " "));
    let x = Percentile::ALL.iter().enumerate().map(|(index, percentile)| {
        (plot::place(index, Percentile::ALL.len()), percentile.name().replace('_', "."))
    });
    let lines: Vec<_> = known
        .iter()
        .map(|(label, class, values)| Line {
            label,
            class,
            values: values.iter().map(|value| Some(place(*value))).collect(),
        })
        .collect();
    page.push_str("<h2>Latency by percentile</h2>");
    let title = "Latency by percentile, from when a message was due";
    plot::write(page, &Plot { title, x: x.collect(), y }, &lines);
}
