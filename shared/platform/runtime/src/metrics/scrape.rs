//! Samples of metrics, and their text for Prometheus (exposition format 0.0.4).
//!
//! Samples are also sent as JSON, from the function that reads the database to the one that
//! responds to `GET /metrics`. The receiver leaves out samples of metrics that it does not know, so
//! that versions may run side by side.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use serde::{Deserialize, Serialize};

use super::catalogue::ALL;
use super::metric::{Kind, Metric};

/// Media type of the Prometheus text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Samples for a response of `GET /metrics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scrape {
    samples: Vec<Sample>,
}

/// Value of one time series in a response of `GET /metrics`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sample {
    /// Name of the metric in Prometheus, without the suffix.
    metric: Cow<'static, str>,
    /// Suffix that follows the metric's name: `_bucket`, `_sum` or `_count` of a histogram, and
    /// otherwise empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    suffix: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<(Cow<'static, str>, String)>,
    value: String,
}

impl Scrape {
    /// Adds a value of a counter or a gauge. `labels` are the values of the metric's labels, in
    /// order.
    pub fn put(&mut self, metric: Metric, labels: &[&str], value: impl Display) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let named = metric.labels.iter().zip(labels);
        let labels = named.map(|(name, value)| (Cow::Borrowed(*name), (*value).to_owned())).collect();
        self.push(metric, "", labels, &value);
    }

    /// Adds a histogram without labels. `counts[i]` is the number of values above `bounds[i - 1]`
    /// and up to `bounds[i]`; the last count is that of the values above all bounds. `sum` is the
    /// sum of all values.
    pub fn put_histogram(&mut self, metric: Metric, bounds: &[f64], counts: &[u64], sum: f64) {
        debug_assert_eq!(bounds.len() + 1, counts.len(), "{}", metric.name);
        let names = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut total: u64 = 0;
        for (bound, count) in names.zip(counts) {
            total = total.saturating_add(*count);
            self.push(metric, "_bucket", vec![(Cow::Borrowed("le"), bound)], &total);
        }
        self.push(metric, "_sum", Vec::new(), &sum);
        self.push(metric, "_count", Vec::new(), &total);
    }

    fn push(
        &mut self,
        metric: Metric,
        suffix: &'static str,
        labels: Vec<(Cow<'static, str>, String)>,
        value: &dyn Display,
    ) {
        let (metric, suffix) = (Cow::Borrowed(metric.name), Cow::Borrowed(suffix));
        self.samples.push(Sample { metric, suffix, labels, value: value.to_string() });
    }

    /// Adds the samples of another collection.
    pub fn extend(&mut self, other: Self) {
        self.samples.extend(other.samples);
    }

    /// Formats the samples as Prometheus text: metrics in the order of the catalogue, and the
    /// series of a metric in the order in which they were added.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for metric in ALL {
            let is_shown =
                |sample: &&Sample| sample.metric == metric.name && is_of(metric.kind, &sample.suffix);
            let mut of_metric = self.samples.iter().filter(is_shown).peekable();
            if of_metric.peek().is_none() {
                continue;
            }
            let (name, kind) = (metric.name, metric.kind.as_str());
            let help = escaped(metric.help, false);
            // Writing to a string does not fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for sample in of_metric {
                sample.write(&mut text);
            }
        }
        text
    }
}

impl Sample {
    fn write(&self, text: &mut String) {
        let Self { metric, suffix, labels, value } = self;
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(text, "{metric}{suffix}{labels} {value}");
    }
}

/// True if a time series of a metric of this kind may have this suffix.
fn is_of(kind: Kind, suffix: &str) -> bool {
    match kind {
        Kind::Histogram => ["_bucket", "_sum", "_count"].contains(&suffix),
        Kind::Counter | Kind::Gauge => suffix.is_empty(),
    }
}

/// Escapes backslashes and line breaks for the Prometheus text format, and also quotes if the text
/// is the value of a label (`is_quoted`).
fn escaped(text: &str, is_quoted: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if is_quoted { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::{BATCH_DURATION, BATCHES, CHUNKS_PENDING, ITEMS, UP};
    use super::*;

    #[test]
    fn a_metric_has_its_help_and_type_once_and_its_series_below_them() {
        let mut scrape = Scrape::default();
        scrape.put(UP, &["queues"], 1);
        scrape.put(BATCHES, &["COMPLETED"], 7);
        scrape.put(UP, &["database"], 0);
        scrape.put(CHUNKS_PENDING, &[], 2);
        let lines = [
            "# HELP integrahub_batches_total Batches that became final, by status. A batch that was replayed \
             counts again.",
            "# TYPE integrahub_batches_total counter",
            "integrahub_batches_total{status=\"COMPLETED\"} 7",
            "# HELP integrahub_chunks_pending Chunks that are not written yet.",
            "# TYPE integrahub_chunks_pending gauge",
            "integrahub_chunks_pending 2",
            "# HELP integrahub_up State of a part of the snapshot: 1 if it could be read, or else 0, with older \
             figures or none.",
            "# TYPE integrahub_up gauge",
            "integrahub_up{part=\"queues\"} 1",
            "integrahub_up{part=\"database\"} 0",
            "",
        ];
        assert_eq!(scrape.text(), lines.join("\n"));
    }

    #[test]
    fn buckets_add_up_and_the_last_one_has_every_value() {
        let mut scrape = Scrape::default();
        scrape.put_histogram(BATCH_DURATION, &[0.5, 10.0], &[3, 0, 4], 123.5);
        let series: Vec<_> = scrape.text().lines().skip(2).map(str::to_owned).collect();
        let name = BATCH_DURATION.name;
        let expected = [
            format!("{name}_bucket{{le=\"0.5\"}} 3"),
            format!("{name}_bucket{{le=\"10\"}} 3"),
            format!("{name}_bucket{{le=\"+Inf\"}} 7"),
            format!("{name}_sum 123.5"),
            format!("{name}_count 7"),
        ];
        assert_eq!(series, expected);
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let mut scrape = Scrape::default();
        scrape.put(ITEMS, &["a\\b\"c\nd"], 1);
        assert!(scrape.text().ends_with("{outcome=\"a\\\\b\\\"c\\nd\"} 1\n"), "{}", scrape.text());
    }

    #[test]
    fn samples_that_arrive_as_json_are_shown_if_the_metric_is_known() {
        let mut scrape = Scrape::default();
        scrape.put(BATCHES, &["FAILED"], 1);
        scrape.put_histogram(BATCH_DURATION, &[1.0], &[0, 1], 2.0);
        let json = serde_json::to_string(&scrape).unwrap();
        let mut arrived: Scrape = serde_json::from_str(&json).unwrap();
        assert_eq!(arrived, scrape);
        let later = r#"[{"metric":"integrahub_of_a_later_version","value":"1"}]"#;
        arrived.extend(serde_json::from_str(later).unwrap());
        assert_eq!(arrived.text(), scrape.text());
        assert_eq!(Scrape::default().text(), "");
    }

    #[test]
    fn samples_with_an_ending_that_their_metric_has_not_are_left_out() {
        let odd = format!(
            r#"[{{"metric":"{}","suffix":"_rate","value":"1"}},{{"metric":"{}","value":"1"}}]"#,
            CHUNKS_PENDING.name, BATCH_DURATION.name
        );
        assert_eq!(serde_json::from_str::<Scrape>(&odd).unwrap().text(), "");
    }
}
