use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use runtime::Environment;

/// Settings of the reconciliation, such as the time after which a batch counts as stalled, and the
/// number of past hours to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Interval between two scheduled runs of the reconciliation.
    pub interval: Duration,
    /// Number of past hours whose payloads and dropped objects are checked.
    pub hours: u32,
    /// Age from which a notification is sent again for a payload without a batch, or for a dropped
    /// object that was neither accepted nor refused.
    pub object_age: Duration,
    /// Time without progress after which a batch counts as stalled: longer than all retries of a
    /// message together.
    pub stopped_for: Duration,
    /// Age of a batch's generation (round of processing) from which the batch is no longer
    /// restarted, and counts as stuck.
    pub given_up_after: Duration,
    /// Time for which other functions may finalize a batch whose chunks are all written, or tag the
    /// objects of a final batch for expiry, before the reconciliation does it.
    pub unfinished_for: Duration,
    /// Time for which an upload is still awaited after its URL expired, since an upload that began
    /// in time may end after that.
    pub upload_grace: Duration,
    /// Time for which an event is left to the function that committed it, before the reconciliation
    /// publishes it.
    pub events_after: Duration,
    /// Time for which a batch is kept after its end.
    pub history: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Duration::from_mins(5),
            hours: 72,
            object_age: Duration::from_mins(10),
            stopped_for: Duration::from_mins(30),
            given_up_after: Duration::from_hours(24),
            unfinished_for: Duration::from_mins(5),
            upload_grace: Duration::from_hours(1),
            events_after: Duration::from_mins(1),
            history: DAY * 90,
        }
    }
}

const DAY: Duration = Duration::from_hours(24);

/// Minimum of `HISTORY_DAYS`. Batch items live for 30 days after the last attempt at their request,
/// plus up to two until DynamoDB deletes them; an item whose batch was deleted before would be
/// shown as a batch still to come. Payloads and queue messages, which are kept for less time, then
/// also find their batch.
const SHORTEST_HISTORY: u64 = 60;

impl Settings {
    /// Reads the optional variables: `RECONCILE_MINUTES`, the schedule's interval;
    /// `RECONCILE_HOURS`; `HISTORY_DAYS`; and in seconds `RECONCILE_OBJECT_AGE`,
    /// `RECONCILE_STOPPED_FOR`, `RECONCILE_GIVEN_UP_AFTER`, `RECONCILE_UNFINISHED_FOR`,
    /// `RECONCILE_UPLOAD_GRACE` and `RECONCILE_EVENTS_AFTER`.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let usual = Self::default();
        let minutes = environment.optional("RECONCILE_MINUTES", NonZeroU16::MIN.saturating_add(4));
        let hours = environment.optional("RECONCILE_HOURS", NonZeroU32::MIN.saturating_add(usual.hours - 1));
        let mut seconds =
            |name: &str, usual: Duration| Duration::from_secs(environment.optional(name, usual.as_secs()));
        Self {
            interval: Duration::from_mins(u64::from(minutes.get())),
            hours: hours.get(),
            object_age: seconds("RECONCILE_OBJECT_AGE", usual.object_age),
            stopped_for: seconds("RECONCILE_STOPPED_FOR", usual.stopped_for),
            given_up_after: seconds("RECONCILE_GIVEN_UP_AFTER", usual.given_up_after),
            unfinished_for: seconds("RECONCILE_UNFINISHED_FOR", usual.unfinished_for),
            upload_grace: seconds("RECONCILE_UPLOAD_GRACE", usual.upload_grace),
            events_after: seconds("RECONCILE_EVENTS_AFTER", usual.events_after),
            history: history(environment, hours.get()),
        }
    }
}

/// Reads `HISTORY_DAYS`. A value below the minimum is refused, and so is one shorter than `hours`,
/// the number of past hours whose payloads are checked.
fn history<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>, hours: u32) -> Duration {
    let days: u64 = environment.optional("HISTORY_DAYS", 90);
    if days < SHORTEST_HISTORY {
        environment.refuse(format!("HISTORY_DAYS is {days}, and must be at least {SHORTEST_HISTORY}"));
    }
    if u64::from(hours) > days.saturating_mul(24) {
        environment.refuse("RECONCILE_HOURS reaches back further than HISTORY_DAYS");
    }
    // A time so long that it has no end within the type's range is far enough away.
    Duration::from_secs(days.saturating_mul(DAY.as_secs()).min(u64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_kept_longer_than_what_leans_on_it() {
        for (history, hours, is_refused) in
            [("60", "72", false), ("59", "72", true), ("60", "1440", false), ("60", "1441", true)]
        {
            let mut environment = Environment::of(|name| match name {
                "HISTORY_DAYS" => Some(history.to_owned()),
                "RECONCILE_HOURS" => Some(hours.to_owned()),
                _ => None,
            });
            let days = u32::try_from(Settings::read(&mut environment).history.as_secs() / 86_400).unwrap();
            assert_eq!(days.to_string(), history);
            assert_eq!(environment.check().is_err(), is_refused, "{history} {hours}");
        }
    }

    #[test]
    fn nothing_said_is_the_usual() {
        let mut environment = Environment::of(|_| None);
        assert_eq!(Settings::read(&mut environment), Settings::default());
        environment.check().unwrap();
    }

    #[test]
    fn everything_wrong_is_reported_together() {
        let mut environment = Environment::of(|name| match name {
            "RECONCILE_MINUTES" => Some("0".to_owned()),
            "RECONCILE_OBJECT_AGE" => Some("ten".to_owned()),
            "RECONCILE_UPLOAD_GRACE" => Some("0".to_owned()),
            _ => None,
        });
        assert_eq!(Settings::read(&mut environment).upload_grace, Duration::ZERO);
        let wrong = environment.check().unwrap_err().to_string();
        assert!(wrong.contains("RECONCILE_MINUTES") && wrong.contains("RECONCILE_OBJECT_AGE"), "{wrong}");
    }
}
