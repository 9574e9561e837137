//! Schedule of a load test with a rate, which fixes the time at which each message is due.

use mq::RateLimit;

use super::MinuteMessages;
use crate::bounds::{MessageCount, TestSeconds};
use crate::definition::Stage;
use crate::micros::Micros;

/// Number of millionths in a message. A schedule counts in millionths of messages: at `r` messages
/// a second, `r` millionths fall due each microsecond.
const A_MESSAGE: u128 = 1_000_000;

/// Schedule with a rate, which fixes the time at which each message of all producers is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paced {
    legs: Vec<Leg>,
    workers: u64,
    total: u64,
}

/// Part of a schedule with a constant rate. `from` and `until` are its start and its end, in
/// microseconds since the run's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leg {
    from: u64,
    until: u64,
    /// Rate in this part of the schedule, in messages a second.
    rate: u64,
    /// Number of messages that are due before this part, in millionths of a message: the integral
    /// of the rate up to `from`.
    before: u128,
}

impl Leg {
    /// Returns the number of messages that are due up to `at`, in millionths of a message, with
    /// those of earlier parts. `at` must lie in this part, in microseconds since the run's start.
    fn integral(&self, at: u64) -> u128 {
        self.before + u128::from(at - self.from) * u128::from(self.rate)
    }
}

impl Paced {
    /// Builds the schedule of a test with `workers` producers that lasts `seconds`.
    #[must_use]
    pub fn of_seconds(rate: RateLimit, seconds: TestSeconds, workers: u32) -> Self {
        let until = Micros::from_seconds(u64::from(seconds.get())).get();
        Self::new([(u64::from(rate.get()), until)], workers)
    }

    /// Builds the schedule of a test with `workers` producers that ends with the last of `count`
    /// messages.
    #[must_use]
    pub fn of_messages(rate: RateLimit, count: MessageCount, workers: u32) -> Self {
        let rate = u64::from(rate.get());
        // Both are bounded, and their product is below 2^64.
        let until = count.get().saturating_mul(Micros::A_SECOND).div_ceil(rate);
        let schedule = Self::new([(rate, until)], workers);
        Self { total: count.get(), ..schedule }
    }

    /// Builds the schedule of a test with `workers` producers and these stages, one after the
    /// other.
    #[must_use]
    pub fn of_stages(stages: &[Stage], workers: u32) -> Self {
        let stage = |stage: &Stage| {
            (u64::from(stage.rate_per_sec.get()), Micros::from_seconds(u64::from(stage.seconds.get())).get())
        };
        Self::new(stages.iter().map(stage), workers)
    }

    /// Creates a schedule of consecutive spans, each with its rate in messages a second and its
    /// duration in microseconds, for a test with `workers` producers.
    fn new(spans: impl IntoIterator<Item = (u64, u64)>, workers: u32) -> Self {
        let mut legs: Vec<Leg> = Vec::new();
        let (mut from, mut before) = (0, 0);
        for (rate, duration) in spans {
            let leg = Leg { from, until: from + duration, rate, before };
            (from, before) = (leg.until, leg.integral(leg.until));
            legs.push(leg);
        }
        let total = u64::try_from(before.div_ceil(A_MESSAGE)).unwrap_or(u64::MAX);
        Self { legs, workers: u64::from(workers.max(1)), total }
    }

    /// Returns the end of the schedule, as time since the run's start. Every message is due before
    /// it.
    #[must_use]
    pub fn end(&self) -> Micros {
        Micros::new(self.legs.last().map_or(0, |leg| leg.until))
    }

    /// Returns the number of messages of all producers together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the time since the run's start at which the message with this sequence number is
    /// due; `None` past the last message.
    #[must_use]
    pub fn due(&self, sequence: u64) -> Option<Micros> {
        if sequence >= self.total {
            return None;
        }
        let target = u128::from(sequence) * A_MESSAGE;
        // The leg in which the integral leaves the target behind. A pause does not, because the
        // integral stands still in it.
        let next = self.legs.partition_point(|leg| leg.integral(leg.until) <= target);
        let leg = self.legs.get(next)?;
        let after = (target - leg.before).div_ceil(u128::from(leg.rate));
        Some(Micros::new(leg.from + u64::try_from(after).ok()?))
    }

    /// Returns the number of messages of all producers that are due before `at`, a time since the
    /// run's start.
    #[must_use]
    pub fn due_before(&self, at: Micros) -> u64 {
        // A message is due at a whole microsecond: before `at` means at the one before, or earlier.
        let Some(last) = at.get().checked_sub(1) else { return 0 };
        let next = self.legs.partition_point(|leg| leg.until <= last);
        let Some(leg) = self.legs.get(next) else { return self.total };
        let integral = leg.integral(last);
        // The message that the integral has just reached is due now, if the rate is not 0.
        let reached = integral.is_multiple_of(A_MESSAGE) && leg.rate > 0;
        let count = u64::try_from(integral.div_ceil(A_MESSAGE)).unwrap_or(u64::MAX);
        count.saturating_add(u64::from(reached)).min(self.total)
    }

    /// Returns the messages of one producer that are due at `from` or later, but before `to`.
    #[must_use]
    pub fn share(&self, producer: u32, from: Micros, to: Micros) -> MinuteMessages {
        let (begin, end) = (self.due_before(from), self.due_before(to));
        let own = u64::from(producer) % self.workers;
        let first = begin + (own + self.workers - begin % self.workers) % self.workers;
        MinuteMessages { first, step: self.workers, count: end.saturating_sub(first).div_ceil(self.workers) }
    }
}
