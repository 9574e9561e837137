//! Pacing of messages at an even rate.

use std::time::Duration;

use mq::RateLimit;
use tokio::time::Instant;

/// Maximum delay for which a [`Pacer`] makes up by sending faster. Timers are imprecise by about
/// this much; making up for more would be a visible burst.
const SLACK: Duration = Duration::from_millis(10);

/// Rate limiter that calculates the time at which each message is due, at a constant rate.
#[derive(Debug)]
pub struct Pacer {
    interval: Duration,
    next: Instant,
}

impl Pacer {
    /// Creates a pacer of `rate` messages per second, whose first message is due now.
    #[must_use]
    pub fn new(rate: RateLimit, now: Instant) -> Self {
        Self { interval: Duration::from_secs(1) / rate.get(), next: now }
    }

    /// Returns the time at which the next message is due, and advances to the message after it.
    pub fn due(&mut self, now: Instant) -> Instant {
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        let due = self.next.max(earliest);
        self.next = due + self.interval;
        due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_span_of_time_holds_more_than_the_rate_allows(
            rate in 1_i64..5_000,
            delays in prop::collection::vec(0_u64..50, 1..200),
        ) {
            let start = Instant::now();
            let mut now = start;
            let mut pacer = Pacer::new(RateLimit::try_from(rate).unwrap(), start);
            let mut sent = Vec::new();
            for delay in delays {
                now = pacer.due(now).max(now) + Duration::from_millis(delay);
                sent.push(now);
            }
            let interval = Duration::from_secs(1) / u32::try_from(rate).unwrap();
            for (i, first) in sent.iter().enumerate() {
                for (j, last) in sent.iter().enumerate().skip(i + 1) {
                    let least = interval * u32::try_from(j - i).unwrap();
                    // Each of the two may be late or catching up by the slack, and by the delay
                    // after being due.
                    prop_assert!(*last - *first + SLACK + Duration::from_millis(50) >= least);
                }
            }
        }
    }

    #[test]
    fn messages_are_due_one_interval_after_another() {
        let start = Instant::now();
        let mut pacer = Pacer::new(RateLimit::try_from(100).unwrap(), start);
        let due: Vec<_> = (0..4).map(|_| pacer.due(start) - start).collect();
        assert_eq!(due, [0, 10, 20, 30].map(Duration::from_millis));
    }
}
