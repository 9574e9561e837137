//! Description of a metric: its names, kind, labels and unit.

/// Metric of the catalogue, with its names in Prometheus and CloudWatch.
///
/// `name` follows the conventions of Prometheus: base units, and `_total` for counters. The name
/// and unit in CloudWatch are different, because alarms already use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric in Prometheus, unique in the catalogue.
    pub name: &'static str,
    /// Kind of the metric, which decides how its values add up.
    pub kind: Kind,
    /// Meaning of the metric, in one sentence.
    pub help: &'static str,
    /// True if `GET /metrics` returns the metric.
    pub is_scraped: bool,
    /// Names of the metric's labels in `GET /metrics`; empty if it has none.
    pub labels: &'static [&'static str],
    /// Name and unit of the metric in CloudWatch; `None` if no log line contains it.
    pub emf: Option<Emf>,
}

/// Kind of a metric: counter, gauge or histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Number that only grows. CloudWatch receives each increment.
    Counter,
    /// Present value, such as the depth of a queue.
    Gauge,
    /// Distribution of values. CloudWatch receives each single value.
    Histogram,
}

/// Properties of a metric in CloudWatch, where it has the dimensions `stack` and `service`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emf {
    /// Name of the metric in CloudWatch.
    pub name: &'static str,
    /// Unit of the metric in CloudWatch.
    pub unit: EmfUnit,
    /// Functions that emit the metric: the values of the dimension `service`.
    pub services: &'static [&'static str],
}

/// Unit of a metric in CloudWatch. There is no unit for minutes: such metrics are counts whose name
/// contains the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmfUnit {
    /// The metric is a count, without a unit.
    Count,
    /// The metric is a duration in milliseconds.
    Milliseconds,
}

impl Kind {
    /// Returns the kind's name in the text format of Prometheus.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl EmfUnit {
    /// Returns the name of the unit in CloudWatch.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Milliseconds => "Milliseconds",
        }
    }
}

impl Metric {
    const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, help: "", is_scraped: false, labels: &[], emf: None }
    }

    /// Sets the help text of the metric.
    pub(super) const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Adds the properties with which these functions emit the metric to CloudWatch in log lines.
    pub(super) const fn emitted(
        self,
        name: &'static str,
        unit: EmfUnit,
        services: &'static [&'static str],
    ) -> Self {
        Self { emf: Some(Emf { name, unit, services }), ..self }
    }

    /// Adds the metric to `GET /metrics`, with these labels.
    pub(super) const fn scraped(self, labels: &'static [&'static str]) -> Self {
        Self { is_scraped: true, labels, ..self }
    }

    /// Returns the unit that the metric's name contains: `seconds` or `bytes`, and otherwise `1`.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let is = |unit: &str| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
        ["seconds", "bytes"].into_iter().find(|unit| is(unit)).unwrap_or("1")
    }
}

pub(super) const fn counter(name: &'static str) -> Metric {
    Metric::new(name, Kind::Counter)
}

pub(super) const fn gauge(name: &'static str) -> Metric {
    Metric::new(name, Kind::Gauge)
}

pub(super) const fn histogram(name: &'static str) -> Metric {
    Metric::new(name, Kind::Histogram)
}
