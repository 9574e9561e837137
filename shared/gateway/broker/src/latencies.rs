//! Latencies of the puts of a produce, and their percentiles.

use std::time::Duration;

use mq::Latency;

/// Converts a duration to milliseconds, rounded to the microsecond, for reports.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Latencies of the puts of one produce in microseconds, each from a message's publish to its
/// confirm. A request has at most 100,000 messages, so exact values cost less than a histogram in
/// most cases.
#[derive(Debug, Default)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    /// Records the latency of one message, in microseconds.
    pub fn record(&mut self, latency: Duration) {
        self.0.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// Returns the average and the percentiles of the recorded latencies; all are 0 if nothing was
    /// recorded.
    #[must_use]
    pub fn report(&self) -> Latency {
        if self.0.is_empty() {
            return Latency::default();
        }
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            let value = sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default();
            milliseconds(Duration::from_micros(value.into()))
        };
        let sum = Duration::from_micros(sorted.iter().copied().map(u64::from).sum());
        let avg = milliseconds(sum / u32::try_from(sorted.len()).unwrap_or(u32::MAX));
        Latency { avg, p50: at(50), p95: at(95), p99: at(99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_least_latency_that_so_many_messages_do_not_exceed() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.report(), Latency::default());
        for _ in 0..98 {
            latencies.record(Duration::from_micros(1234));
        }
        latencies.record(Duration::ZERO);
        latencies.record(Duration::from_secs(60));
        let Latency { avg, p50, p95, p99 } = latencies.report();
        assert_eq!((avg, p50, p95, p99), (601.209, 1.234, 1.234, 1.234));
        latencies.record(Duration::from_secs(60));
        let Latency { p50, p99, .. } = latencies.report();
        assert_eq!((p50, p99), (1.234, 60_000.0));
    }

    #[test]
    fn one_message_is_every_percentile() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_micros(7));
        assert_eq!(latencies.report(), Latency { avg: 0.007, p50: 0.007, p95: 0.007, p99: 0.007 });
        latencies.record(Duration::MAX);
        assert!(latencies.report().p99 > 60_000.0);
    }
}
