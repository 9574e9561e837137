//! Decision of a worker when to give up a target that does not work.

use std::time::Duration;

use broker::{Deadline, Jitter, RetryPolicy};
use load_test::Micros;

use super::WorkerMinute;
use super::state::Interrupt;
use crate::test_target::{ErrorPrecision, TestTargetError};

/// Pauses between two attempts to use a target, in seconds: first pause, and longest pause. The
/// pause doubles.
const PAUSES: (f64, f64) = (0.1, 1.0);

/// Record of a worker's failures to use the load test's target. It decides when the worker gives
/// the target up, which fails the test.
#[derive(Debug)]
pub(super) struct TargetFailures {
    /// Time since the run's start of the worker's first failure after the target last worked;
    /// `None` if the target works.
    failing_since: Option<Micros>,
    connected_at: Option<Micros>,
    /// Error with which the worker explains why it gives the target up: the most precise one since
    /// the target last worked. Of equally precise errors, the latest; of time-outs, the first.
    /// `None` if there was no error.
    reason: Option<TestTargetError>,
    pauses: RetryPolicy,
}

impl TargetFailures {
    /// Time of continuous failure after which a worker gives the target up: 10 seconds.
    pub(super) const LONGEST: Micros = Micros::from_seconds(10);
    /// Time that a connection has to last to show that the target works: 2 seconds. A broker that
    /// refuses every message still accepts connections.
    const STEADY: Micros = Micros::from_seconds(2);

    pub(super) fn new() -> Self {
        let (first, longest) = PAUSES;
        let pauses = RetryPolicy::new(first, 2.0, longest).unwrap_or_default();
        let pauses = pauses.with_jitter(Jitter::Half);
        Self { failing_since: None, connected_at: None, reason: None, pauses }
    }

    /// Records that a connection to the target was opened at `at`.
    pub(super) fn connected(&mut self, at: Micros) {
        self.connected_at = Some(at);
    }

    /// Records that the target works, and forgets earlier failures.
    pub(super) fn worked(&mut self) {
        self.failing_since = None;
        self.reason = None;
        self.pauses.reset();
    }

    /// Records a failure at `at`, and returns the pause before the next attempt. `None` if the
    /// worker gives the target up, because a retry is useless or the target has failed for
    /// [`Self::LONGEST`].
    pub(super) fn failed(&mut self, error: &TestTargetError, at: Micros) -> Option<Duration> {
        let connected_at = self.connected_at.take();
        if connected_at.is_some_and(|connected| at.since(connected) >= Self::STEADY) {
            self.worked();
        }
        let since = *self.failing_since.get_or_insert(at);
        let is_over = at.since(since) >= Self::LONGEST;
        // The last attempt to connect has what is left of the time, and ends for want of it.
        self.learn(error, is_over && connected_at.is_none());
        if error.is_final() || is_over {
            return None;
        }
        Some(self.pauses.next_delay())
    }

    /// Stores an error as the reason for giving up, unless the stored one is more precise. A
    /// time-out is stored only as the first error, because later attempts have less time.
    /// `was_cut_short` is true for an attempt that had only the rest of the time; its error counts
    /// as a time-out.
    fn learn(&mut self, error: &TestTargetError, was_cut_short: bool) {
        let precision = if was_cut_short { ErrorPrecision::Time } else { error.precision() };
        let is_better =
            |known: &TestTargetError| precision > ErrorPrecision::Time && precision >= known.precision();
        if self.reason.as_ref().is_none_or(is_better) {
            self.reason = Some(error.clone());
        }
    }

    /// Returns the reason for giving the target up, for the caller of the API. `last` is the last
    /// failure.
    fn why(&self, last: &TestTargetError) -> String {
        if last.is_final() {
            return last.to_string();
        }
        let (seconds, reason) = (Self::LONGEST.whole_seconds(), self.reason.as_ref().unwrap_or(last));
        format!("the target did not work for {seconds} s: {reason}")
    }

    /// Returns the time limit of an attempt to connect that begins at `at`: what is left of
    /// [`Self::LONGEST`] since the first failure.
    fn left(&self, at: Micros) -> Duration {
        let failing_for = self.failing_since.map_or(Micros::ZERO, |since| at.since(since));
        Self::LONGEST.since(failing_for).into()
    }
}

impl WorkerMinute<'_> {
    /// Opens a connection with `connect`, and tries again until the worker gives the target up. The
    /// error then fails the test.
    pub(super) async fn connected<T>(
        &self,
        failures: &mut TargetFailures,
        connect: impl AsyncFn(Deadline) -> Result<T, TestTargetError>,
    ) -> Result<T, Interrupt> {
        loop {
            let deadline = Deadline::after(failures.left(self.clock.now()));
            match self.state.unless_ended(connect(deadline)).await? {
                Ok(connection) => {
                    failures.connected(self.clock.now());
                    return Ok(connection);
                }
                Err(error) => self.wait_to_retry(failures, &error).await?,
            }
        }
    }

    /// Waits before the next attempt after a failure. If the worker gives the target up, returns
    /// the interrupt that fails the test.
    pub(super) async fn wait_to_retry(
        &self,
        failures: &mut TargetFailures,
        error: &TestTargetError,
    ) -> Result<(), Interrupt> {
        let cause: &dyn std::error::Error = error;
        let Some(pause) = failures.failed(error, self.clock.now()) else {
            return Err(Interrupt::Failed(failures.why(error)));
        };
        tracing::warn!(
            event_type = "load_step.reconnects",
            error = cause,
            "worker {} connects again: {cause}",
            self.step.lane.worker
        );
        self.state.unless_ended(tokio::time::sleep(pause)).await
    }
}

#[cfg(test)]
mod tests {
    use mq::BrokerError;

    use super::*;

    const fn at(milliseconds: u64) -> Micros {
        Micros::new(milliseconds * 1_000)
    }

    fn away() -> TestTargetError {
        BrokerError::timeout("slow").into()
    }

    /// Records a failure every `every` ms from the time `from` (in ms) on. Returns the number of ms
    /// after which the worker gives up.
    fn until_given_up(failures: &mut TargetFailures, from: u64, every: u64) -> u64 {
        let mut now = from;
        while let Some(pause) = failures.failed(&away(), at(now)) {
            assert!(pause <= Duration::from_secs(1), "{pause:?}");
            now += every;
        }
        now - from
    }

    #[test]
    fn a_target_that_does_not_work_for_ten_seconds_is_given_up() {
        assert_eq!(until_given_up(&mut TargetFailures::new(), 5_000, 700), 10_500);
        let refused = BrokerError::authentication_failed("refused").into();
        assert_eq!(TargetFailures::new().failed(&refused, at(0)), None);
        assert_eq!(TargetFailures::new().why(&refused), "refused");
    }

    #[test]
    fn the_reason_is_the_last_error_that_says_more_than_that_the_target_is_away() {
        let mut failures = TargetFailures::new();
        failures.failed(&BrokerError::rejected("its queue lost its leader").into(), at(0));
        failures.failed(&away(), at(9_900));
        assert_eq!(failures.why(&away()), "the target did not work for 10 s: its queue lost its leader");
        failures.worked();
        failures.failed(&away(), at(20_000));
        assert_eq!(failures.why(&away()), "the target did not work for 10 s: slow");
    }

    #[test]
    fn the_last_attempt_which_has_little_time_takes_no_other_reason_s_place() {
        let refused: TestTargetError = BrokerError::unreachable("127.0.0.1:5671 refuses connections").into();
        let no_tls: TestTargetError = BrokerError::unreachable("no TLS connection to 127.0.0.1:5671").into();
        let in_vain: TestTargetError =
            BrokerError::unreachable("127.0.0.1:5671 did not answer in time").into();
        let rejected: TestTargetError = BrokerError::rejected("ACCESS_REFUSED").into();
        let slow = away();
        for (first, second, last, reason) in [
            (&slow, &refused, &slow, &refused),
            (&refused, &no_tls, &in_vain, &no_tls),
            (&rejected, &refused, &in_vain, &rejected),
            (&slow, &slow, &in_vain, &slow),
        ] {
            let mut failures = TargetFailures::new();
            for error in [first, second] {
                assert!(failures.failed(error, at(1_000)).is_some());
            }
            assert_eq!(failures.failed(last, at(11_000)), None);
            assert_eq!(failures.why(last), format!("the target did not work for 10 s: {reason}"));
        }
        // After a connection it is no lack of time.
        let mut failures = TargetFailures::new();
        failures.failed(&no_tls, at(1_000));
        failures.connected(at(10_900));
        assert_eq!(failures.failed(&rejected, at(11_000)), None);
        assert_eq!(failures.why(&rejected), "the target did not work for 10 s: ACCESS_REFUSED");
    }

    #[test]
    fn the_time_counts_from_the_first_failure_since_it_worked() {
        let mut failures = TargetFailures::new();
        failures.failed(&away(), at(0));
        failures.failed(&away(), at(9_000));
        failures.worked();
        assert_eq!(until_given_up(&mut failures, 9_500, 1_000), 10_000);
    }

    #[test]
    fn a_connection_alone_shows_nothing_unless_it_lasts() {
        let mut failures = TargetFailures::new();
        failures.failed(&away(), at(0));
        for second in 1..10 {
            failures.connected(at(second * 1_000));
            assert!(failures.failed(&away(), at(second * 1_000 + 900)).is_some());
        }
        failures.connected(at(10_000));
        assert_eq!(failures.failed(&away(), at(10_900)), None);
        // One that lasted was a target that worked.
        failures.connected(at(20_000));
        assert!(failures.failed(&away(), at(22_000)).is_some());
    }

    #[test]
    fn an_attempt_to_connect_takes_no_longer_than_the_time_to_give_up() {
        let mut failures = TargetFailures::new();
        assert_eq!(failures.left(at(3_000)), Duration::from_secs(10));
        failures.failed(&away(), at(3_000));
        assert_eq!(failures.left(at(9_000)), Duration::from_secs(4));
        assert_eq!(failures.left(at(20_000)), Duration::ZERO);
    }
}
