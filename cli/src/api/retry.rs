//! Retry schedule of API requests, and the decision which responses are worth a retry.

use std::time::Duration;

/// Retry schedule of one request: the pauses between its attempts, and the time for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Maximum pause after the first attempt; the maximum doubles with each attempt. The pause is
    /// random, from half of the maximum on.
    pub(crate) first: Duration,
    /// Upper bound of the doubled pauses. A pause that the server asks for may be longer.
    pub(crate) longest: Duration,
    /// Time after the first attempt within which the last attempt has to begin.
    pub(crate) total: Duration,
}

/// Maximum fraction by which a pause that the server asked for is lengthened at random. Otherwise,
/// clients that received the same pause would return together.
const SPREAD: f64 = 0.25;
/// Maximum time by which a pause that the server asked for is lengthened.
const MOST_SPREAD: Duration = Duration::from_secs(10);

impl Schedule {
    /// Returns the retry schedule of a command that a person waits for. `total` limits the time for
    /// all attempts of a request.
    pub(crate) const fn within(total: Duration) -> Self {
        Self { first: Duration::from_millis(500), longest: Duration::from_secs(20), total }
    }

    /// Returns the pause after the attempt `number`, counted from 0; `None` if no time is left for
    /// another attempt. `after` is the pause that the server asked for, `elapsed` the time since
    /// the first attempt began. `random`, from 0 to 1, spreads the pauses.
    pub(crate) fn pause(
        &self,
        number: u32,
        after: Option<Duration>,
        elapsed: Duration,
        random: f64,
    ) -> Option<Duration> {
        let pause = match after {
            Some(after) => {
                // No time, or a date that is over, asks for no flood of attempts.
                let after = after.max(self.first);
                after.saturating_add(after.mul_f64(SPREAD * random).min(MOST_SPREAD))
            }
            None => {
                let window = self.first.saturating_mul(2_u32.saturating_pow(number)).min(self.longest);
                window.mul_f64(0.5 + random / 2.0)
            }
        };
        (elapsed.saturating_add(pause) <= self.total).then_some(pause)
    }
}

/// Returns whether the same request may succeed later, judged by the status and `reason` of the
/// response, and by whether it has the header `Retry-After`. `reason` is `None` if the response is
/// not a problem document.
pub(crate) fn may_succeed_later(status: u16, reason: Option<&str>, has_retry_after: bool) -> bool {
    match status {
        409 => reason == Some("IDEMPOTENT_REQUEST_IN_PROGRESS"),
        429 => !matches!(reason, Some("BUDGET_EXCEEDED" | "KEY_REUSE_ABUSE")),
        502 => has_retry_after || reason.is_none(),
        500 | 503 | 504 => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule::within(Duration::from_secs(60));

    fn pause(number: u32, after: Option<u64>, elapsed: u64, random: f64) -> Option<Duration> {
        SCHEDULE.pause(number, after.map(Duration::from_secs), Duration::from_secs(elapsed), random)
    }

    #[test]
    fn pauses_grow_up_to_the_longest_and_are_spread() {
        let pauses: Vec<_> = [0, 1, 2, 40].map(|number| pause(number, None, 0, 1.0).unwrap()).into();
        assert_eq!(pauses, [500, 1_000, 2_000, 20_000].map(Duration::from_millis));
        assert_eq!(pause(2, None, 0, 0.0), Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_the_server_asks_for_is_the_least() {
        assert_eq!(pause(0, Some(8), 0, 0.0), Some(Duration::from_secs(8)));
        assert_eq!(pause(0, Some(8), 0, 1.0), Some(Duration::from_secs(10)));
        assert_eq!(pause(0, Some(50), 0, 1.0), Some(Duration::from_secs(60)), "the spread is bounded");
        assert_eq!(pause(7, Some(0), 0, 0.0), Some(Duration::from_millis(500)), "the shortest pause");
    }

    #[test]
    fn no_attempt_begins_after_the_time_is_over() {
        assert_eq!(pause(0, Some(30), 31, 0.0), None);
        assert_eq!(pause(9, None, 60, 0.5), None);
        assert_eq!(pause(0, Some(u64::MAX), 0, 1.0), None);
    }

    #[test]
    fn only_what_the_contract_calls_temporary_is_tried_again() {
        for (status, reason, after, expected) in [
            (429, Some("TENANT_RATE_LIMIT"), true, true),
            (429, None, false, true),
            (429, Some("KEY_REUSE_ABUSE"), true, false),
            (429, Some("BUDGET_EXCEEDED"), true, false),
            (409, Some("IDEMPOTENT_REQUEST_IN_PROGRESS"), true, true),
            (409, Some("BATCH_NOT_REPLAYABLE"), true, false),
            (502, Some("OUTCOME_IN_DOUBT"), true, true),
            (502, Some("QUEUE_FULL"), false, false),
            (502, None, false, true),
            (503, Some("STORE_UNAVAILABLE"), true, true),
            (500, None, false, true),
            (504, Some("BROKER_TIMEOUT"), false, true),
            (422, Some("EXCEEDS_VOLUME"), false, false),
            (403, None, false, false),
        ] {
            assert_eq!(may_succeed_later(status, reason, after), expected, "{status} {reason:?}");
        }
    }
}
