use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use runtime::Environment;

/// Times after which something counts as stalled, and the hours that a run searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Interval between two runs of the reconciliation.
    pub interval: Duration,
    /// Number of hours of payloads that are listed.
    pub hours: u32,
    /// Age up to which a payload may be unknown to the database.
    pub object_age: Duration,
    /// Time for which a batch may make no progress: longer than all retries of a message together.
    pub stopped_for: Duration,
    /// Maximum age of a batch's generation at which the batch is still restarted.
    pub given_up_after: Duration,
    /// Time for which a batch whose chunks are all written may wait to be finalized.
    pub unfinished_for: Duration,
    /// Time that an upload may take after its URL expired, since an upload that began in time may
    /// end later.
    pub upload_grace: Duration,
    /// Time for which an event is left to the function that committed it.
    pub events_after: Duration,
    /// Retention of a batch after its end.
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

/// The shortest history: batch items are kept for 30 days after the last attempt at their request,
/// and DynamoDB may take two more to delete them. Until then they would be shown as if their batch
/// were still to come. That is also more than the days of a payload and the 14 for which queues
/// keep a message, when its batch must still be known.
const SHORTEST_HISTORY: u64 = 60;

impl Settings {
    /// Reads `RECONCILE_MINUTES` (the schedule's interval), `RECONCILE_HOURS`, and in seconds
    /// `RECONCILE_OBJECT_AGE`, `RECONCILE_STOPPED_FOR`, `RECONCILE_GIVEN_UP_AFTER`,
    /// `RECONCILE_UNFINISHED_FOR`, `RECONCILE_UPLOAD_GRACE` and `RECONCILE_EVENTS_AFTER`; and
    /// `HISTORY_DAYS`.
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

/// Reads the time for which the history is kept. A time that is too short for payloads and replays
/// is refused.
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
