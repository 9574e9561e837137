//! Latencies of a produce.

use std::time::Duration;

use hdrhistogram::Histogram;
use mq::Latency;

/// Returns milliseconds as reports show a duration: to the microsecond.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Longest latency that is distinguished: a longer one counts as this long.
const LONGEST: Duration = Duration::from_secs(60);

/// Microseconds from publish to confirm, to three digits. The histogram grows with the longest one,
/// because the whole range takes 70 KB, and most requests need a quarter of that.
#[derive(Debug)]
pub struct Latencies(Histogram<u32>);

impl Latencies {
    /// Creates an empty histogram. `None` if the library refuses the number of digits, which it
    /// does not.
    #[must_use]
    pub fn new() -> Option<Self> {
        Histogram::new(3).ok().map(Self)
    }

    /// Records the latency of one message.
    pub fn record(&mut self, latency: Duration) {
        let microseconds = latency.min(LONGEST).as_micros().max(1);
        // Fails only if the histogram cannot grow, and it can up to the longest latency.
        let _ = u64::try_from(microseconds).map(|microseconds| self.0.record(microseconds));
    }

    /// Returns the percentiles; all are zero if nothing was recorded.
    #[must_use]
    pub fn report(&self) -> Latency {
        if self.0.is_empty() {
            return Latency::default();
        }
        let at = |quantile| milliseconds(Duration::from_micros(self.0.value_at_quantile(quantile)));
        let avg = milliseconds(Duration::from_secs_f64(self.0.mean() / 1e6));
        Latency { avg, p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_recorded_to_three_digits() {
        let mut latencies = Latencies::new().unwrap();
        for _ in 0..98 {
            latencies.record(Duration::from_micros(1234));
        }
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        let Latency { avg, p50, p95, p99 } = latencies.report();
        assert_eq!((p50, p95, p99), (1.234, 1.234, 1.234));
        let expected = (98.0 * 1.234 + 0.001 + 60_000.0) / 100.0;
        assert!((avg / expected - 1.0).abs() < 0.001, "{avg}");
        latencies.record(Duration::MAX);
        let p99 = latencies.report().p99;
        assert!((p99 / 60_000.0 - 1.0).abs() < 0.001, "{p99}");
    }
}
