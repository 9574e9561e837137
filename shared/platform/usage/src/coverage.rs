//! Period for which usage is counted, with the gaps in it; and the state of the function that
//! counts.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;

use crate::hour::{Hour, start_of};
use crate::key;

/// Maximum duration of a request. A gap, a period in which changes may have been lost, is made to
/// begin earlier by this time, because a request that ended in it may have begun before. The
/// duration exceeds the lease of an execution.
const LONGEST_REQUEST: Duration = Duration::from_secs(60);

/// Gap: a period in which changes of idempotency records may have been lost before they were
/// counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Beginning of the gap. Requests received from then on may be missing from the counters.
    pub from: Timestamp,
    /// Time at which the gap is over. Requests received from then on are counted.
    pub until: Timestamp,
}

impl Gap {
    /// Builds the gap in which the stream may have lost changes, after `last_read` and before
    /// `until`. The gap begins a minute before `last_read`, because requests that ended in it may
    /// have begun then.
    #[must_use]
    pub fn of_stream(last_read: Timestamp, until: Timestamp) -> Self {
        Self { from: last_read.saturating_sub(LONGEST_REQUEST).unwrap_or(last_read), until }
    }

    /// True if the gap overlaps the period that begins at `from` and ends before `until`.
    #[must_use]
    pub fn is_in(&self, from: Timestamp, until: Timestamp) -> bool {
        self.from < until && from < self.until
    }

    /// Returns what is left of the gap if the hours from `first` until before `end` are taken out:
    /// none, one or two gaps.
    #[must_use]
    pub fn without(&self, first: Hour, end: Hour) -> Vec<Self> {
        let (first, end) = (first.start(), end.start());
        let left = [
            Self { from: self.from, until: self.until.min(first) },
            Self { from: self.from.max(end), until: self.until },
        ];
        left.into_iter().filter(|gap| gap.from < gap.until).collect()
    }
}

/// State of the function `metering`, which counts the changes of the stream, as the usage table
/// stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeteringState {
    /// Time up to which all changes of the stream are counted; `None` before the first invocation
    /// that counted them all.
    pub read_until: Option<Timestamp>,
    /// Time at which the first invocation began to count; `None` before it. The counters of earlier
    /// hours are incomplete.
    pub counted_from: Option<Timestamp>,
    /// Last hour whose counters were published as an event; `None` if there is no such hour yet.
    pub published_hour: Option<Hour>,
    /// Last day on which the usage was recounted by a scan of the idempotency table; `None` if it
    /// never was.
    pub recounted_day: Option<Date>,
}

/// Period for which usage is counted, with the gaps in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Time at which counting began; `None` before the first invocation of the function that
    /// counts.
    pub counted_from: Option<Timestamp>,
    /// Time up to which all changes of the stream are counted; `None` before the first invocation
    /// that counted them all.
    pub read_until: Option<Timestamp>,
    /// Periods in which changes may have been lost before they were counted.
    pub gaps: Vec<Gap>,
}

impl Coverage {
    /// True if the counters of the days from `from` to `to`, both included, contain all requests of
    /// the hours that have ended at `now`. False if some may be missing, or if counters of these
    /// days may have been deleted because of their age.
    #[must_use]
    pub fn is_complete(&self, from: Date, to: Date, now: Timestamp) -> bool {
        let end = to.tomorrow().map_or(now, start_of).min(Hour::of(now).start());
        let start = start_of(from);
        if end <= start {
            return true;
        }
        let (Some(counted_from), Some(read_until)) = (self.counted_from, self.read_until) else {
            return false;
        };
        let are_kept = !key::may_be_deleted(start, now);
        are_kept
            && counted_from <= start
            && end <= read_until
            && !self.gaps.iter().any(|gap| gap.is_in(start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-11-{time}Z").parse().unwrap()
    }

    fn day(day: &str) -> Date {
        format!("2026-11-{day}").parse().unwrap()
    }

    fn gap(from: &str, until: &str) -> Gap {
        Gap { from: at(from), until: at(until) }
    }

    #[test]
    fn an_answer_is_complete_for_hours_that_ended_and_were_read() {
        let coverage = Coverage {
            counted_from: Some(at("20T10:00:00")),
            read_until: Some(at("27T02:30:00")),
            gaps: Vec::new(),
        };
        let now = at("27T02:31:00");
        assert!(coverage.is_complete(day("21"), day("27"), now));
        assert!(coverage.is_complete(day("28"), day("30"), now), "nothing of it has passed");
        assert!(!coverage.is_complete(day("20"), day("27"), now), "counting began within the first day");
        assert!(!coverage.is_complete(day("21"), day("27"), at("27T03:00:00")), "an hour is unread");
        assert!(coverage.is_complete(day("21"), day("26"), at("27T03:00:00")), "it is of another day");
        assert!(!Coverage::default().is_complete(day("21"), day("26"), now));
        let with_gap = Coverage { gaps: vec![gap("25T03:59:00", "25T06:00:00")], ..coverage };
        assert!(!with_gap.is_complete(day("21"), day("27"), now));
        assert!(with_gap.is_complete(day("26"), day("27"), now), "the gap is before");

        let later: Timestamp = "2027-12-30T02:31:00Z".parse().unwrap();
        let coverage = Coverage { read_until: Some(later), ..with_gap };
        assert!(coverage.is_complete(day("26"), day("27"), later));
        let later = "2027-12-31T00:00:00Z".parse().unwrap();
        assert!(!coverage.is_complete(day("26"), day("27"), later), "400 days have passed");
    }

    #[test]
    fn a_gap_of_the_stream_begins_with_the_requests_that_ended_in_it() {
        let gap = Gap::of_stream(at("25T04:00:30"), at("25T06:00:00"));
        assert_eq!(gap.from, at("25T03:59:30"));
        assert!(gap.is_in(at("25T03:00:00"), at("25T04:00:00")));
        assert!(!gap.is_in(at("25T06:00:00"), at("25T07:00:00")));
    }

    #[test]
    fn hours_that_were_counted_again_leave_the_gap() {
        let hour = |hour: &str| format!("2026-11-25T{hour}").parse::<Hour>().unwrap();
        let lost = gap("25T03:59:30", "25T06:20:00");
        assert!(lost.without(hour("03"), hour("07")).is_empty());
        assert_eq!(lost.without(hour("04"), hour("07")), [gap("25T03:59:30", "25T04:00:00")]);
        assert_eq!(lost.without(hour("03"), hour("05")), [gap("25T05:00:00", "25T06:20:00")]);
        let left = [gap("25T03:59:30", "25T04:00:00"), gap("25T05:00:00", "25T06:20:00")];
        assert_eq!(lost.without(hour("04"), hour("05")), left);
        assert_eq!(lost.without(hour("08"), hour("09")), [lost]);
    }
}
