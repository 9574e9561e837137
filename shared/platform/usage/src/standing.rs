//! Times up to which counters are complete.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;

use crate::hour::{Hour, start_of};
use crate::key;

/// Time by which a gap is widened backwards: a request that was made within it before the gap may
/// have ended in the gap. It is longer than the lease of an execution.
const LONGEST_REQUEST: Duration = Duration::from_secs(60);

/// Time in which changes of records were lost before they were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Time from which requests may be missing.
    pub from: Timestamp,
    /// First moment after the gap.
    pub until: Timestamp,
}

impl Gap {
    /// Builds the gap of the stream records that were written after `last_read` and before `until`.
    /// It begins a minute earlier, because the requests that ended then may have begun before.
    #[must_use]
    pub fn of_stream(last_read: Timestamp, until: Timestamp) -> Self {
        Self { from: last_read.saturating_sub(LONGEST_REQUEST).unwrap_or(last_read), until }
    }

    /// True if the gap has a part in the time from `from` up to `until`.
    #[must_use]
    pub fn is_in(&self, from: Timestamp, until: Timestamp) -> bool {
        self.from < until && from < self.until
    }

    /// Returns the gaps that are left once the hours from `first` up to `end` are known.
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

/// State that the reader of the stream stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Time up to which every change is counted.
    pub read_until: Option<Timestamp>,
    /// Time of the reader's first run. Hours that began before are not complete.
    pub counted_from: Option<Timestamp>,
    /// Last hour whose totals were published as an event.
    pub published_hour: Option<Hour>,
    /// Last day on which the records were counted again.
    pub recounted_day: Option<Date>,
}

/// Times for which the usage counters are complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Time at which counting began; `None` if it has not begun.
    pub counted_from: Option<Timestamp>,
    /// Time up to which every change is counted.
    pub read_until: Option<Timestamp>,
    /// Times whose changes were lost, and so not counted.
    pub gaps: Vec<Gap>,
}

impl Standing {
    /// True if the counters of the days from `from` to `to`, both included, hold every request of
    /// the hours that have ended. Counters that were deleted for their age do not.
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
        let are_kept = !key::is_forgotten(start, now);
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
        let standing = Standing {
            counted_from: Some(at("20T10:00:00")),
            read_until: Some(at("27T02:30:00")),
            gaps: Vec::new(),
        };
        let now = at("27T02:31:00");
        assert!(standing.is_complete(day("21"), day("27"), now));
        assert!(standing.is_complete(day("28"), day("30"), now), "nothing of it has passed");
        assert!(!standing.is_complete(day("20"), day("27"), now), "counting began within the first day");
        assert!(!standing.is_complete(day("21"), day("27"), at("27T03:00:00")), "an hour is unread");
        assert!(standing.is_complete(day("21"), day("26"), at("27T03:00:00")), "it is of another day");
        assert!(!Standing::default().is_complete(day("21"), day("26"), now));
        let with_gap = Standing { gaps: vec![gap("25T03:59:00", "25T06:00:00")], ..standing };
        assert!(!with_gap.is_complete(day("21"), day("27"), now));
        assert!(with_gap.is_complete(day("26"), day("27"), now), "the gap is before");

        let later: Timestamp = "2027-12-30T02:31:00Z".parse().unwrap();
        let standing = Standing { read_until: Some(later), ..with_gap };
        assert!(standing.is_complete(day("26"), day("27"), later));
        let later = "2027-12-31T00:00:00Z".parse().unwrap();
        assert!(!standing.is_complete(day("26"), day("27"), later), "400 days have passed");
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
