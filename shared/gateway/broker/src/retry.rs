//! Delays between attempts to connect.

use std::time::Duration;

use attempt::Deadline;

/// Exponential backoff, by default 1 s, 2 s, 4 s … 60 s, 60 s: `RetryPolicy` of the specified
/// connection model.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    initial_delay: f64,
    backoff_factor: f64,
    max_delay: f64,
    current_delay: f64,
    attempts: u64,
    jitter: Jitter,
}

/// Random variation of retry delays, so that the clients of a restarted broker do not all reconnect
/// at the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// No variation: every client waits for the exact delay.
    #[default]
    None,
    /// A random time between half of the delay and the full delay.
    Half,
}

/// State of a [`RetryPolicy`], returned by [`RetryPolicy::get_stats`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryStats {
    /// Number of delays that were returned since the last reset.
    pub attempts: u64,
    /// Next delay in seconds, without jitter.
    pub current_delay: f64,
    /// Maximum delay in seconds, without jitter.
    pub max_delay: f64,
}

/// Error about a parameter of a retry policy that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says which range it is")]
pub enum InvalidRetryPolicy {
    #[error("the initial delay is not above 0 s and at most 60 s")]
    InitialDelay,
    #[error("the backoff factor is not above 1 and at most 10")]
    BackoffFactor,
    #[error("the maximum delay is not above 0 s and at most 3600 s")]
    MaxDelay,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            initial_delay: 1.0,
            backoff_factor: 2.0,
            max_delay: 60.0,
            current_delay: 1.0,
            attempts: 0,
            jitter: Jitter::None,
        }
    }
}

impl RetryPolicy {
    /// Creates a policy. Delays are in seconds: `initial_delay` above 0 and at most 60,
    /// `backoff_factor` above 1 and at most 10, `max_delay` above 0 and at most 3600.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn new(initial_delay: f64, backoff_factor: f64, max_delay: f64) -> Result<Self, InvalidRetryPolicy> {
        if !(initial_delay > 0.0 && initial_delay <= 60.0) {
            return Err(InvalidRetryPolicy::InitialDelay);
        }
        if !(backoff_factor > 1.0 && backoff_factor <= 10.0) {
            return Err(InvalidRetryPolicy::BackoffFactor);
        }
        if !(max_delay > 0.0 && max_delay <= 3_600.0) {
            return Err(InvalidRetryPolicy::MaxDelay);
        }
        let current_delay = initial_delay.min(max_delay);
        let this = Self { initial_delay, backoff_factor, max_delay, current_delay, ..Self::default() };
        Ok(this)
    }

    /// Sets the random variation of the delays, which are exact by default.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Returns the delay before the next attempt, and increases the delay after it.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.current_delay;
        self.current_delay = (delay * self.backoff_factor).min(self.max_delay);
        self.attempts = self.attempts.saturating_add(1);
        let spread = match self.jitter {
            Jitter::None => 1.0,
            Jitter::Half => 1.0 - fastrand::f64() / 2.0,
        };
        Duration::from_secs_f64(delay * spread)
    }

    /// Returns the delay before the next attempt, or `None` if that attempt would begin after
    /// `deadline`.
    pub fn next_delay_before(&mut self, deadline: Deadline) -> Option<Duration> {
        let delay = self.next_delay();
        (delay < deadline.remaining()).then_some(delay)
    }

    /// Resets the policy: the next delay is the initial one.
    pub fn reset(&mut self) {
        self.current_delay = self.initial_delay.min(self.max_delay);
        self.attempts = 0;
    }

    /// Returns the number of delays since the last reset, and the next and the maximum delay.
    #[must_use]
    pub fn get_stats(&self) -> RetryStats {
        RetryStats { attempts: self.attempts, current_delay: self.current_delay, max_delay: self.max_delay }
    }
}
