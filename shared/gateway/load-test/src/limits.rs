//! Limits of a deployment on load tests.

use serde::{Deserialize, Serialize};

use crate::definition::{Length, LoadTest, Mode};
use crate::micros::Micros;
use crate::request::RequestError;
use crate::search::{Next, Search};

/// Limits of a deployment on the resources that one load test may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Maximum number of workers of the test, producers and consumers together. Each holds a
    /// connection.
    pub workers: u32,
    /// Maximum number of hours for which the producers work, or the consumers if there are no
    /// producers. In a search, all runs count together.
    pub hours: u32,
    /// Maximum number of messages that the test puts, or takes if it has no producers; in a search,
    /// in all runs together.
    pub messages: u64,
    /// Maximum number of messages that the load test's queues hold at one time.
    pub retained: u64,
    /// Maximum bytes of the bodies of all messages on the queues at one time. `u64::MAX`, which is
    /// no limit, for a test that was stored by a version without this limit.
    #[serde(default = "unlimited")]
    pub retained_bytes: u64,
}

const fn unlimited() -> u64 {
    u64::MAX
}

impl Limits {
    /// Limits that no load test exceeds. Only the bounds of each member of a request, which hold in
    /// every deployment, still apply.
    pub const NONE: Self = Self {
        workers: u32::MAX,
        hours: u32::MAX,
        messages: u64::MAX,
        retained: u64::MAX,
        retained_bytes: u64::MAX,
    };

    /// Returns the maximum duration of a load test: `hours` as a time.
    #[must_use]
    pub fn longest(&self) -> Micros {
        Micros::from_seconds(3_600 * u64::from(self.hours))
    }

    /// Checks that a load test stays within these limits.
    ///
    /// # Errors
    /// If the test exceeds a limit; the error states the first one.
    pub(crate) fn check(&self, test: &LoadTest) -> Result<(), RequestError> {
        self.check_workers(test)?;
        self.check_time(test)?;
        self.check_messages(test)
    }

    fn check_workers(&self, test: &LoadTest) -> Result<(), RequestError> {
        let workers = test.worker_count();
        if workers <= self.workers {
            return Ok(());
        }
        let more_producers = test.producer_count() >= test.consumer_count();
        let pointer = if more_producers { "/producers/count" } else { "/consumers/count" };
        let detail = format!(
            "makes {workers} workers, producers and consumers together, and a test may have {}",
            self.workers
        );
        Err(RequestError::beyond_limit(pointer, detail))
    }

    fn check_time(&self, test: &LoadTest) -> Result<(), RequestError> {
        let (pointer, runs) = match (&test.length, test.mode) {
            (Length::Seconds(_), Mode::Search) => ("/durationSeconds", Search::MOST_PROBES),
            (Length::Seconds(_), Mode::Run) => ("/durationSeconds", 1),
            (Length::Messages(_), _) => ("/messages", 1),
            (Length::Stages(_), _) => ("/stages", 1),
        };
        let longest = self.longest();
        let asked = Micros::new(test.longest().get().saturating_mul(u64::from(runs)));
        if asked <= longest {
            return Ok(());
        }
        let (seconds, hours) = (asked.get().div_ceil(Micros::A_SECOND), self.hours);
        let detail = match test.mode {
            Mode::Run => format!("takes {seconds} s, and a test may take {hours} h"),
            Mode::Search => {
                format!("takes {seconds} s in up to {runs} probes, and a test may take {hours} h")
            }
        };
        Err(RequestError::beyond_limit(pointer, detail))
    }

    fn check_messages(&self, test: &LoadTest) -> Result<(), RequestError> {
        if let Some(Next::Over(_)) = Search::of(test).map(|search| search.next(&[])) {
            let detail = "leaves no room for the messages of a first probe".to_owned();
            return Err(RequestError::beyond_limit("/durationSeconds", detail));
        }
        if let Some(messages) = test.named_messages() {
            let pointer = match test.length {
                Length::Seconds(_) => "/producers/ratePerSec",
                Length::Messages(_) => "/messages",
                Length::Stages(_) => "/stages",
            };
            let are_taken = test.producers.is_none() || test.consumers.is_some();
            self.check_number(pointer, messages, test, are_taken)?;
        }
        match test.backlog {
            Some(backlog) => self.check_number("/backlog/messages", backlog.get(), test, false),
            None => Ok(()),
        }
    }

    fn check_number(
        &self,
        pointer: &str,
        messages: u64,
        test: &LoadTest,
        are_taken: bool,
    ) -> Result<(), RequestError> {
        if messages > self.messages {
            let detail = format!("makes {messages} messages, and a test may have {}", self.messages);
            return Err(RequestError::beyond_limit(pointer, detail));
        }
        if !are_taken && messages > self.retained {
            let detail = format!(
                "leaves {messages} messages on the queue, and a test may leave {} there",
                self.retained
            );
            return Err(RequestError::beyond_limit(pointer, detail));
        }
        if !are_taken && messages > test.most_retained() {
            let detail = format!(
                "leaves {messages} messages of up to {} bytes on the queue, and a test may leave {} bytes \
                 there",
                test.message_bytes(),
                self.retained_bytes
            );
            return Err(RequestError::beyond_limit(pointer, detail));
        }
        Ok(())
    }
}

impl LoadTest {
    /// Returns the maximum number of messages that may be on the test's queues at one time: the
    /// limit on messages, or the limit on bytes divided by the longest body, whichever is lower.
    #[must_use]
    pub fn most_retained(&self) -> u64 {
        self.limits.retained.min(self.limits.retained_bytes / self.message_bytes())
    }

    /// Returns the bytes of the longest body that the test's producers put, at least 1. Without
    /// producers the length of bodies is unknown, so it returns 1.
    #[must_use]
    pub fn message_bytes(&self) -> u64 {
        let longest = self.producers.as_ref().map_or(1, |producers| producers.payload.longest());
        u64::try_from(longest).unwrap_or(u64::MAX).max(1)
    }
}
