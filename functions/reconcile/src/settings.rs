use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use aws::Environment;

/// From when on something counts as stopped, and how far back is looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Between two runs.
    pub interval: Duration,
    /// How many hours' payloads are looked through.
    pub hours: u32,
    /// How long an object may lie unknown.
    pub object_age: Duration,
    /// How long a batch may stand still: longer than any pause before a message comes back, and than all tries of one together.
    pub stopped_for: Duration,
    /// How long after its generation began a batch is set going.
    pub given_up_after: Duration,
    /// How long a batch may stand still whose chunks are all written.
    pub unfinished_for: Duration,
    /// How long after its time is over an upload may still be on its way: what began in time may end later.
    pub upload_grace: Duration,
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
        }
    }
}

impl Settings {
    /// Reads `RECONCILE_MINUTES` (the schedule's interval), `RECONCILE_HOURS`, and in seconds `RECONCILE_OBJECT_AGE`, `RECONCILE_STOPPED_FOR`, `RECONCILE_GIVEN_UP_AFTER`,
    /// `RECONCILE_UNFINISHED_FOR` and `RECONCILE_UPLOAD_GRACE`.
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
