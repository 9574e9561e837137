//! The search for the highest rate that a target sustains.
//!
//! The rate doubles until a probe fails, or halves until one passes; then the span between the two
//! is halved until it is small enough. What comes next follows from the probes so far and from
//! nothing else, so a repeated or resumed search goes the same way.

#[cfg(test)]
mod tests;

use mq::RateLimit;
use serde::{Deserialize, Serialize};

use crate::definition::{Length, LoadTest, Mode};

/// Search of a load test, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    first: u32,
    seconds: u64,
    most_messages: u64,
}

/// Result of a run at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Rate that the probe asked for, in messages a second.
    pub rate_per_sec: RateLimit,
    /// True if the rate was held and all criteria were met.
    pub passed: bool,
}

/// Conclusion from the probes of a search so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Next {
    /// Run a probe at this rate.
    Probe(RateLimit),
    /// The search has ended with this finding.
    Over(Finding),
}

/// Result of the search for the highest rate that a target sustains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Highest rate of a probe that passed; `None` if none did.
    pub rate_per_sec: Option<RateLimit>,
    /// Reason why the search ended.
    pub end: SearchEnd,
}

/// Reason why a rate search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SearchEnd {
    /// A rate within 5 % above the highest that passed has failed.
    Narrowed,
    /// The highest rate that a test may ask for has passed.
    HighestRate,
    /// A probe with one message a second has failed.
    LowestRate,
    /// The next probe would exceed the messages that the test may have.
    MessagesUsedUp,
    /// The next probe would exceed [`Search::MOST_PROBES`].
    ProbesUsedUp,
}

impl Search {
    /// Maximum number of probes of a search: 14 to double from 100 to the highest rate, and 5 to
    /// narrow it down.
    pub const MOST_PROBES: u32 = 20;
    /// Rate of the first probe, if the request names none.
    const FIRST: u32 = 100;
    /// Largest distance of the rates that passed and failed, in percent of the one that passed.
    const PRECISION: u32 = 5;

    /// Returns the search of a test; `None` if the test runs once.
    #[must_use]
    pub fn of(test: &LoadTest) -> Option<Self> {
        let (Mode::Search, Length::Seconds(seconds)) = (test.mode, &test.length) else { return None };
        let first = test.producers.as_ref()?.rate_per_sec.map_or(Self::FIRST, RateLimit::get);
        Some(Self { first, seconds: u64::from(seconds.get()), most_messages: test.most_messages() })
    }

    /// Returns the next probe, or the result.
    #[must_use]
    pub fn next(&self, probes: &[Probe]) -> Next {
        let rates = |passed| {
            probes.iter().filter(move |probe| probe.passed == passed).map(|probe| probe.rate_per_sec.get())
        };
        let best = rates(true).max();
        // A rate that failed once and passed once, as two probes of one broker may, has passed.
        let worst = rates(false).filter(|rate| best.is_none_or(|best| *rate > best)).min();
        let over = |end| {
            let rate = best.and_then(|rate| RateLimit::try_from(i64::from(rate)).ok());
            Next::Over(Finding { rate_per_sec: rate, end })
        };
        let next = match (best, worst) {
            (None, None) => self.first,
            (Some(RateLimit::MAX), None) => return over(SearchEnd::HighestRate),
            (Some(best), None) => best.saturating_mul(2).min(RateLimit::MAX),
            (None, Some(RateLimit::MIN)) => return over(SearchEnd::LowestRate),
            (None, Some(worst)) => worst / 2,
            (Some(best), Some(worst)) => {
                let distance = worst.saturating_sub(best);
                if distance <= 1 || distance <= best.saturating_mul(Self::PRECISION) / 100 {
                    return over(SearchEnd::Narrowed);
                }
                best.saturating_add(distance / 2)
            }
        };
        if probes.len() >= usize::try_from(Self::MOST_PROBES).unwrap_or(usize::MAX) {
            return over(SearchEnd::ProbesUsedUp);
        }
        let messages = |rate: u32| u64::from(rate).saturating_mul(self.seconds);
        let put: u64 = probes.iter().map(|probe| messages(probe.rate_per_sec.get())).sum();
        if put.saturating_add(messages(next)) > self.most_messages {
            return over(SearchEnd::MessagesUsedUp);
        }
        match RateLimit::try_from(i64::from(next)) {
            Ok(rate) => Next::Probe(rate),
            Err(_) => over(SearchEnd::Narrowed),
        }
    }
}
