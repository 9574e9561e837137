//! Messages that a classic queue removed and may have again.
//!
//! A classic queue removes an acknowledged message from memory at once, and from its disk a little
//! later. A broker that ends in between has the message when it is back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The latest acknowledgements, oldest first.
#[derive(Debug)]
pub(super) struct Settled {
    written_within: Duration,
    latest: VecDeque<(Instant, usize)>,
}

impl Settled {
    /// Of a queue that has written an acknowledgement after this time.
    pub(super) const fn new(written_within: Duration) -> Self {
        Self { written_within, latest: VecDeque::new() }
    }

    /// Notes that `count` messages are removed, as the broker says.
    pub(super) fn add(&mut self, count: usize, now: Instant) {
        let is_written = |at: &Instant| now.duration_since(*at) > self.written_within;
        while self.latest.front().is_some_and(|(at, _)| is_written(at)) {
            self.latest.pop_front();
        }
        self.latest.push_back((now, count));
    }

    /// How many may come back, if the broker ended right after it last answered. When a client
    /// learns of that end says nothing about when it was.
    pub(super) fn lately(&self) -> u64 {
        let count = self.latest.iter().map(|(_, count)| count).sum::<usize>();
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_shortly_before_the_last_answer_may_come_back() {
        let start = Instant::now();
        let mut settled = Settled::new(Duration::from_secs(1));
        assert_eq!(settled.lately(), 0);
        for (after, count) in [(0, 1), (500, 2), (1000, 4), (1600, 8)] {
            settled.add(count, start + Duration::from_millis(after));
        }
        assert_eq!(settled.lately(), 12);
    }
}
