//! Description of a metric.

/// Metric of the catalogue.
///
/// Its name follows the conventions of Prometheus: base units, `_total` for counters. CloudWatch
/// knows it by another name and in another unit, which alarms have used from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name of the metric, unique in the catalogue.
    pub name: &'static str,
    /// Kind of the metric, which decides how its values add up.
    pub kind: Kind,
    /// Meaning of the metric, in one sentence.
    pub help: &'static str,
    /// True if `GET /metrics` returns the metric.
    pub is_scraped: bool,
    /// Labels in `GET /metrics`, in the order of their names.
    pub labels: &'static [&'static str],
    /// Metric in CloudWatch; `None` if no log line has it.
    pub emf: Option<Emf>,
}

/// Kind of a metric: counter, gauge or histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Number that only grows. CloudWatch gets each addition.
    Counter,
    /// Value at the present time, such as a depth.
    Gauge,
    /// Distribution of values. CloudWatch gets each value.
    Histogram,
}

/// Metric in CloudWatch, with the dimensions `stack` and `service`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emf {
    /// Name of the metric in CloudWatch.
    pub name: &'static str,
    /// Unit of the metric in CloudWatch.
    pub unit: EmfUnit,
    /// Functions that emit the metric: the values of the dimension `service`.
    pub services: &'static [&'static str],
}

/// Unit in CloudWatch, which has no minutes: those count as a number, and the name says so.
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

    /// Publishes the metric in log lines of these functions.
    pub(super) const fn emitted(
        self,
        name: &'static str,
        unit: EmfUnit,
        services: &'static [&'static str],
    ) -> Self {
        Self { emf: Some(Emf { name, unit, services }), ..self }
    }

    /// Publishes the metric in `GET /metrics`.
    pub(super) const fn scraped(self, labels: &'static [&'static str]) -> Self {
        Self { is_scraped: true, labels, ..self }
    }

    /// Returns the unit at the end of the metric's name: `seconds` or `bytes`, or else `1`.
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
