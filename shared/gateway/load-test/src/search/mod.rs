//! Search for the highest rate that a target sustains.
//!
//! A search runs the test at one rate after another; each run is a probe. The rate doubles until a
//! probe fails, or halves until one passes. Then the span between the two rates is halved until it
//! is small enough. The next rate follows from the earlier probes alone, so a repeated or resumed
//! search continues in the same way.

#[cfg(test)]
mod tests;

use mq::RateLimit;
use serde::{Deserialize, Serialize};

use crate::definition::{Length, LoadTest, Mode};

/// Search for the highest rate that a target sustains: its first rate, the duration of each probe
/// (run at one rate) in seconds, and the maximum number of messages of all probes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    first: u32,
    seconds: u64,
    most_messages: u64,
}

/// Result of a probe, which is a run of a search at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Target rate of the probe, in messages a second.
    pub rate_per_sec: RateLimit,
    /// True if the probe passed by its report: the rate was held, all pass criteria were met, and
    /// the other conditions of [`Report::passed`](crate::Report::passed) hold.
    pub passed: bool,
}

/// Next action of a search for the highest rate, as the results of its probes determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Next {
    /// Run a probe at this rate, in messages a second.
    Probe(RateLimit),
    /// No further probe: the search has ended with this result.
    Over(Finding),
}

/// Result of a search for the highest rate that a target sustains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Highest rate in messages a second at which a probe passed; `None` if no probe passed.
    pub rate_per_sec: Option<RateLimit>,
    /// Reason why the search ended.
    pub end: SearchEnd,
}

/// Reason why a rate search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SearchEnd {
    /// Rates are close enough: a probe (run of the search) failed at a rate at most 5 %, or 1
    /// message a second, above the highest rate that passed.
    Narrowed,
    /// No higher rate is allowed: a probe (run of the search) passed at the highest rate that a
    /// load test may request.
    HighestRate,
    /// No lower rate is possible: a probe (run of the search) failed at 1 message a second.
    LowestRate,
    /// Messages are used up: the next run of the search would exceed the number of messages that
    /// the load test may put.
    MessagesUsedUp,
    /// Probes are used up: the search has made [`Search::MOST_PROBES`] probes (runs at different
    /// rates).
    ProbesUsedUp,
}

impl Search {
    /// Maximum number of probes of a search: 14 to double the rate from 100 messages a second to
    /// the highest rate, and about 5 to narrow it down.
    pub const MOST_PROBES: u32 = 20;
    /// Rate of the first probe in messages a second, if the request names no rate.
    const DEFAULT_FIRST_RATE: u32 = 100;
    /// Maximum difference between the highest rate that passed and the lowest rate that failed, in
    /// percent of the former, at which the search ends.
    const PRECISION: u32 = 5;

    /// Returns the search that a load test makes; `None` if the test runs once.
    #[must_use]
    pub fn of(test: &LoadTest) -> Option<Self> {
        let (Mode::Search, Length::Seconds(seconds)) = (test.mode, &test.length) else { return None };
        let first = test.producers.as_ref()?.rate_per_sec.map_or(Self::DEFAULT_FIRST_RATE, RateLimit::get);
        Some(Self { first, seconds: u64::from(seconds.get()), most_messages: test.most_messages() })
    }

    /// Returns the rate of the next probe after these probes (runs of the search), or the result of
    /// the search.
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
