//! Patience of a worker with a target that does not work.

use std::time::Duration;

use broker::{Deadline, Jitter, RetryPolicy};
use load_test::Micros;

use super::Shift;
use super::board::Interrupt;
use crate::place::{PlaceError, Tells};

/// Pauses between two attempts to use a target, in seconds: the first and the longest.
const PAUSES: (f64, f64) = (0.1, 1.0);

/// Record of a worker's failures to use its target, which decides when to give up.
#[derive(Debug)]
pub(super) struct Patience {
    /// Time of the first failure since the target last worked; `None` if it works.
    failing_since: Option<Micros>,
    connected_at: Option<Micros>,
    /// Most precise error since the target last worked; of equally precise errors the latest.
    reason: Option<PlaceError>,
    pauses: RetryPolicy,
}

impl Patience {
    /// Time of continuous failure after which a target is given up: 10 seconds.
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

    /// Records that the target works, which forgets earlier failures.
    pub(super) fn worked(&mut self) {
        self.failing_since = None;
        self.reason = None;
        self.pauses.reset();
    }

    /// Records a failure at `at`, and returns the pause before the next attempt; `None` if the
    /// target is given up, because a retry is useless or it has failed for [`Self::LONGEST`].
    pub(super) fn failed(&mut self, error: &PlaceError, at: Micros) -> Option<Duration> {
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

    /// Keeps an error as the reason for giving up, unless the known one is more precise. A time-out
    /// is kept only as the first error: later attempts have less time.
    fn learn(&mut self, error: &PlaceError, was_cut_short: bool) {
        let tells = if was_cut_short { Tells::Time } else { error.tells() };
        let is_better = |known: &PlaceError| tells > Tells::Time && tells >= known.tells();
        if self.reason.as_ref().is_none_or(is_better) {
            self.reason = Some(error.clone());
        }
    }

    /// Returns the reason for giving the target up, for the caller. `last` is the last failure.
    fn why(&self, last: &PlaceError) -> String {
        if last.is_final() {
            return last.to_string();
        }
        let (seconds, reason) = (Self::LONGEST.whole_seconds(), self.reason.as_ref().unwrap_or(last));
        format!("the target did not work for {seconds} s: {reason}")
    }

    /// Returns the time limit of the next attempt to connect at `at`.
    fn left(&self, at: Micros) -> Duration {
        let failing_for = self.failing_since.map_or(Micros::ZERO, |since| at.since(since));
        Self::LONGEST.since(failing_for).into()
    }
}

impl Shift<'_> {
    /// Opens a connection with `connect`, and retries until the target is given up.
    pub(super) async fn connected<T>(
        &self,
        patience: &mut Patience,
        connect: impl AsyncFn(Deadline) -> Result<T, PlaceError>,
    ) -> Result<T, Interrupt> {
        loop {
            let deadline = Deadline::after(patience.left(self.clock.now()));
            match self.board.unless_ended(connect(deadline)).await? {
                Ok(connection) => {
                    patience.connected(self.clock.now());
                    return Ok(connection);
                }
                Err(error) => self.bear(patience, &error).await?,
            }
        }
    }

    /// Waits until the next attempt after a failure. If the target is given up, returns the
    /// interrupt that fails the test.
    pub(super) async fn bear(&self, patience: &mut Patience, error: &PlaceError) -> Result<(), Interrupt> {
        let cause: &dyn std::error::Error = error;
        let Some(pause) = patience.failed(error, self.clock.now()) else {
            return Err(Interrupt::Failed(patience.why(error)));
        };
        tracing::warn!(
            event_type = "load_step.reconnects",
            error = cause,
            "worker {} connects again: {cause}",
            self.step.lane.worker
        );
        self.board.unless_ended(tokio::time::sleep(pause)).await
    }
}

#[cfg(test)]
mod tests {
    use mq::BrokerError;

    use super::*;

    const fn at(milliseconds: u64) -> Micros {
        Micros::new(milliseconds * 1_000)
    }

    fn away() -> PlaceError {
        BrokerError::timeout("slow").into()
    }

    /// Records a failure every `every` ms from `from` on, and returns the ms after which the worker
    /// gives up.
    fn failures(patience: &mut Patience, from: u64, every: u64) -> u64 {
        let mut now = from;
        while let Some(pause) = patience.failed(&away(), at(now)) {
            assert!(pause <= Duration::from_secs(1), "{pause:?}");
            now += every;
        }
        now - from
    }

    #[test]
    fn a_target_that_does_not_work_for_ten_seconds_is_given_up() {
        assert_eq!(failures(&mut Patience::new(), 5_000, 700), 10_500);
        let refused = BrokerError::authentication_failed("refused").into();
        assert_eq!(Patience::new().failed(&refused, at(0)), None);
        assert_eq!(Patience::new().why(&refused), "refused");
    }

    #[test]
    fn the_reason_is_the_last_error_that_says_more_than_that_the_target_is_away() {
        let mut patience = Patience::new();
        patience.failed(&BrokerError::rejected("its queue lost its leader").into(), at(0));
        patience.failed(&away(), at(9_900));
        assert_eq!(patience.why(&away()), "the target did not work for 10 s: its queue lost its leader");
        patience.worked();
        patience.failed(&away(), at(20_000));
        assert_eq!(patience.why(&away()), "the target did not work for 10 s: slow");
    }

    #[test]
    fn the_last_attempt_which_has_little_time_takes_no_other_reason_s_place() {
        let refused: PlaceError = BrokerError::unreachable("127.0.0.1:5671 refuses connections").into();
        let no_tls: PlaceError = BrokerError::unreachable("no TLS connection to 127.0.0.1:5671").into();
        let in_vain: PlaceError = BrokerError::unreachable("127.0.0.1:5671 did not answer in time").into();
        let rejected: PlaceError = BrokerError::rejected("ACCESS_REFUSED").into();
        let slow = away();
        for (first, second, last, reason) in [
            (&slow, &refused, &slow, &refused),
            (&refused, &no_tls, &in_vain, &no_tls),
            (&rejected, &refused, &in_vain, &rejected),
            (&slow, &slow, &in_vain, &slow),
        ] {
            let mut patience = Patience::new();
            for error in [first, second] {
                assert!(patience.failed(error, at(1_000)).is_some());
            }
            assert_eq!(patience.failed(last, at(11_000)), None);
            assert_eq!(patience.why(last), format!("the target did not work for 10 s: {reason}"));
        }
        // After a connection it is no lack of time.
        let mut patience = Patience::new();
        patience.failed(&no_tls, at(1_000));
        patience.connected(at(10_900));
        assert_eq!(patience.failed(&rejected, at(11_000)), None);
        assert_eq!(patience.why(&rejected), "the target did not work for 10 s: ACCESS_REFUSED");
    }

    #[test]
    fn the_time_counts_from_the_first_failure_since_it_worked() {
        let mut patience = Patience::new();
        patience.failed(&away(), at(0));
        patience.failed(&away(), at(9_000));
        patience.worked();
        assert_eq!(failures(&mut patience, 9_500, 1_000), 10_000);
    }

    #[test]
    fn a_connection_alone_shows_nothing_unless_it_lasts() {
        let mut patience = Patience::new();
        patience.failed(&away(), at(0));
        for second in 1..10 {
            patience.connected(at(second * 1_000));
            assert!(patience.failed(&away(), at(second * 1_000 + 900)).is_some());
        }
        patience.connected(at(10_000));
        assert_eq!(patience.failed(&away(), at(10_900)), None);
        // One that lasted was a target that worked.
        patience.connected(at(20_000));
        assert!(patience.failed(&away(), at(22_000)).is_some());
    }

    #[test]
    fn an_attempt_to_connect_takes_no_longer_than_the_patience() {
        let mut patience = Patience::new();
        assert_eq!(patience.left(at(3_000)), Duration::from_secs(10));
        patience.failed(&away(), at(3_000));
        assert_eq!(patience.left(at(9_000)), Duration::from_secs(4));
        assert_eq!(patience.left(at(20_000)), Duration::ZERO);
    }
}
