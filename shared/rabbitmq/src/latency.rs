//! Latencies of a produce.

use std::time::Duration;

use hdrhistogram::Histogram;
use mq::Latency;

/// As reports show a duration: to the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Microseconds from publish to confirm, to three digits.
#[derive(Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Option<Self> {
        Histogram::new_with_bounds(1, 60_000_000, 3).ok().map(Self)
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn report(&self) -> Latency {
        if self.0.is_empty() {
            return Latency::default();
        }
        let at = |quantile| milliseconds(Duration::from_micros(self.0.value_at_quantile(quantile)));
        let avg = milliseconds(Duration::from_secs_f64(self.0.mean() / 1e6));
        Latency { avg, p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }
}
