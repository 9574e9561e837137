//! Scan of the dropped objects in a bucket, and the choice of objects whose notification is sent
//! again.

use std::time::Duration;

use catalog::DropScan;
use ingestion::drops::is_left_alone;
use jiff::Timestamp;
use objects::Listed;

use crate::Settings;

/// Part that one run of the reconciliation makes of a scan of all dropped objects of a bucket, in
/// the order of their keys. A scan may take several runs.
#[derive(Debug)]
pub(crate) struct ScanRun {
    /// Progress of the scan of dropped objects, as the database stores it.
    pub(crate) scan: DropScan,
    now: Timestamp,
    /// Time since the previous scan began. That scan checked each object at most this long ago.
    since_before: Duration,
}

impl ScanRun {
    /// Continues the scan that the last run left unfinished, or begins a new one.
    pub(crate) fn after(last: Option<DropScan>, now: Timestamp, settings: &Settings) -> Self {
        let scan = match last {
            Some(scan) if scan.after.is_some() => scan,
            last => DropScan {
                after: Some(String::new()),
                began_at: now,
                began_before: last.map(|scan| scan.began_at),
            },
        };
        let since = |before| Duration::try_from(now.duration_since(before)).unwrap_or_default();
        // There was no scan before the first one. It sends nothing for objects that are older than
        // a run.
        let first = settings.interval.saturating_add(settings.interval / 2);
        let since_before = scan.began_before.map_or(first, since).min(looked_for(settings));
        Self { scan, now, since_before }
    }

    /// True if the object's notification may have to be sent again, judged by its age.
    pub(crate) fn is_due(&self, object: &Listed, settings: &Settings) -> bool {
        let age = Duration::try_from(self.now.duration_since(object.modified_at)).unwrap_or_default();
        !is_left_alone(&object.key, object.length) && is_due(age, self.since_before, settings)
    }
}

/// Returns the age up to which the notification of a dropped object is sent again.
fn looked_for(settings: &Settings) -> Duration {
    Duration::from_hours(u64::from(settings.hours))
}

/// True if the notification of a dropped object of this age is sent again in this scan: once the
/// object is old enough, and then each time its age has doubled. Compares with its age when the
/// previous scan began, `since_before` ago, since no other record is kept; one notification too
/// many does no harm.
fn is_due(age: Duration, since_before: Duration, settings: &Settings) -> bool {
    let doublings = |age: Duration| {
        let least = settings.object_age.as_millis().max(1);
        (age >= settings.object_age).then(|| (age.as_millis() / least).max(1).ilog2())
    };
    let before = age.checked_sub(since_before).and_then(doublings);
    // An object that no scan has checked yet is checked, however long the scan took.
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
    fn however_long_a_scan_takes_no_object_is_left_out() {
        let settings = Settings::default();
        for hours in [1, 5, 30, 71] {
            let scan = Duration::from_hours(hours);
            // Objects that the scan before has not checked, or that were too young then.
            for age in [Duration::from_mins(10), scan, scan + Duration::from_mins(9)] {
                assert!(is_due(age, scan, &settings), "{age:?} after {scan:?}");
            }
        }
    }

    #[test]
    fn a_scan_goes_on_where_the_last_run_stopped_and_then_begins_again() {
        let settings = Settings::default();
        let begin: Timestamp = "2026-11-22T01:00:00Z".parse().unwrap();
        let at = |minutes| begin + SignedDuration::from_mins(minutes);
        let first = ScanRun::after(None, begin, &settings);
        let at_the_first = Some(String::new());
        assert_eq!(first.scan, DropScan { after: at_the_first.clone(), began_at: begin, began_before: None });
        assert_eq!(first.since_before, Duration::from_secs(450));

        let stopped = DropScan { after: Some("drop/m".to_owned()), ..first.scan };
        let second = ScanRun::after(Some(stopped.clone()), at(5), &settings);
        assert_eq!(second.scan, stopped, "the same scan");

        let ended = DropScan { after: None, ..stopped };
        let third = ScanRun::after(Some(ended), at(10), &settings);
        assert_eq!(third.scan, DropScan { after: at_the_first, began_at: at(10), began_before: Some(begin) });
        assert_eq!(third.since_before, Duration::from_mins(10), "since the beginning of the scan before");
    }

    #[test]
    fn after_a_long_pause_old_objects_are_left_alone() {
        let settings = Settings::default();
        let now: Timestamp = "2026-11-22T01:00:00Z".parse().unwrap();
        let ended = DropScan { after: None, began_at: Timestamp::UNIX_EPOCH, began_before: None };
        let run = ScanRun::after(Some(ended), now, &settings);
        let put = |hours| Listed {
            key: "drop/11111111-1111-4111-8111-111111111111/full/a.json".to_owned(),
            modified_at: now - SignedDuration::from_hours(hours),
            etag: String::new(),
            length: 2,
        };
        assert!(run.is_due(&put(71), &settings));
        assert!(run.is_due(&Listed { length: 0, ..put(71) }, &settings), "an empty file has an answer too");
        assert!(!run.is_due(&put(80), &settings));
    }
}
