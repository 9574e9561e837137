//! A pass over the dropped objects of a bucket, and the choice of objects whose notification is
//! due.

use std::time::Duration;

use catalog::DropLook;
use ingestion::drops::is_left_alone;
use jiff::Timestamp;
use objects::Listed;

use crate::Settings;

/// Pass over the dropped objects of a bucket, from the first to the last, as far as this run does
/// it. A pass may take several runs.
#[derive(Debug)]
pub(crate) struct Pass {
    /// Progress of the pass over the dropped objects, as the database stores it.
    pub(crate) look: DropLook,
    now: Timestamp,
    /// Time since the previous pass began. That pass checked each object at most this long ago.
    since_before: Duration,
}

impl Pass {
    /// Continues the pass that the last run left unfinished, or begins a new one.
    pub(crate) fn after(last: Option<DropLook>, now: Timestamp, settings: &Settings) -> Self {
        let look = match last {
            Some(look) if look.after.is_some() => look,
            last => DropLook {
                after: Some(String::new()),
                began_at: now,
                began_before: last.map(|look| look.began_at),
            },
        };
        let since = |before| Duration::try_from(now.duration_since(before)).unwrap_or_default();
        // There was no pass before the first one. It sends nothing for objects that are older than
        // a run.
        let first = settings.interval.saturating_add(settings.interval / 2);
        let since_before = look.began_before.map_or(first, since).min(looked_for(settings));
        Self { look, now, since_before }
    }

    /// True if the object's notification may have to be sent again, judged by its age.
    pub(crate) fn is_due(&self, object: &Listed, settings: &Settings) -> bool {
        let age = Duration::try_from(self.now.duration_since(object.modified_at)).unwrap_or_default();
        !is_left_alone(&object.key, object.length) && is_due(age, self.since_before, settings)
    }
}

/// Returns the age up to which an object's notification is sent again.
fn looked_for(settings: &Settings) -> Duration {
    Duration::from_hours(u64::from(settings.hours))
}

/// True if an object of this age is notified in this pass: once it is old enough, and then each
/// time its age has doubled. Compares with its age at the previous pass, since no other record is
/// kept; one notification too many does no harm.
fn is_due(age: Duration, since_before: Duration, settings: &Settings) -> bool {
    let doublings = |age: Duration| {
        let least = settings.object_age.as_millis().max(1);
        (age >= settings.object_age).then(|| (age.as_millis() / least).max(1).ilog2())
    };
    let before = age.checked_sub(since_before).and_then(doublings);
    // An object that no pass has checked yet is checked, however long the pass took.
    doublings(age) != before && (age < looked_for(settings) || before.is_none())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const INTERVAL: Duration = Duration::from_mins(5);

    #[test]
    fn an_object_is_notified_when_it_is_old_enough_and_when_its_age_has_doubled() {
        let settings = Settings::default();
        for offset in 0..5 {
            let ages = (0..100).map(|run| run * 5 + offset);
            let due: Vec<u64> =
                ages.filter(|age| is_due(Duration::from_mins(*age), INTERVAL, &settings)).collect();
            let expected: Vec<u64> = [10, 20, 40, 80, 160, 320].map(|age| age + offset).into();
            assert_eq!(due, expected, "whenever the runs begin");
        }
        assert!(!is_due(Duration::from_hours(73), INTERVAL, &settings), "it is looked for three days long");
    }

    #[test]
    fn each_object_is_old_at_once_if_nothing_is_waited_for() {
        let settings = Settings { object_age: Duration::ZERO, ..Settings::default() };
        assert!(is_due(Duration::ZERO, INTERVAL, &settings));
    }

    #[test]
    fn however_long_a_pass_takes_no_object_is_left_out() {
        let settings = Settings::default();
        for hours in [1, 5, 30, 71] {
            let pass = Duration::from_hours(hours);
            // Objects that the pass before has not checked, or that were too young then.
            for age in [Duration::from_mins(10), pass, pass + Duration::from_mins(9)] {
                assert!(is_due(age, pass, &settings), "{age:?} after {pass:?}");
            }
        }
    }

    #[test]
    fn a_pass_goes_on_where_the_last_run_stopped_and_then_begins_again() {
        let settings = Settings::default();
        let begin: Timestamp = "2026-11-22T01:00:00Z".parse().unwrap();
        let at = |minutes| begin + SignedDuration::from_mins(minutes);
        let first = Pass::after(None, begin, &settings);
        let at_the_first = Some(String::new());
        assert_eq!(first.look, DropLook { after: at_the_first.clone(), began_at: begin, began_before: None });
        assert_eq!(first.since_before, Duration::from_secs(450));

        let stopped = DropLook { after: Some("drop/m".to_owned()), ..first.look };
        let second = Pass::after(Some(stopped.clone()), at(5), &settings);
        assert_eq!(second.look, stopped, "the same pass");

        let ended = DropLook { after: None, ..stopped };
        let third = Pass::after(Some(ended), at(10), &settings);
        assert_eq!(third.look, DropLook { after: at_the_first, began_at: at(10), began_before: Some(begin) });
        assert_eq!(third.since_before, Duration::from_mins(10), "since the beginning of the pass before");
    }

    #[test]
    fn after_a_long_pause_old_objects_are_left_alone() {
        let settings = Settings::default();
        let now: Timestamp = "2026-11-22T01:00:00Z".parse().unwrap();
        let ended = DropLook { after: None, began_at: Timestamp::UNIX_EPOCH, began_before: None };
        let pass = Pass::after(Some(ended), now, &settings);
        let put = |hours| Listed {
            key: "drop/11111111-1111-4111-8111-111111111111/full/a.json".to_owned(),
            modified_at: now - SignedDuration::from_hours(hours),
            etag: String::new(),
            length: 2,
        };
        assert!(pass.is_due(&put(71), &settings));
        assert!(pass.is_due(&Listed { length: 0, ..put(71) }, &settings), "an empty file has an answer too");
        assert!(!pass.is_due(&put(80), &settings));
    }
}
