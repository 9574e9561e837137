//! Usage of the hours that have ended: its recount from the idempotency records, and its
//! publication as events.

use std::ops::Range;
use std::time::Duration;

use api::idempotency_key::ExpiryBounds;
use attempt::Deadline;
use events::{EventError, PublishError, Publisher};
use jiff::Timestamp;
use usage::{Gap, Hour, Line, MeteringState, Recount, UsageError, UsageTable};

use crate::event::{self, Kind};
use crate::records::Records;

/// Time after the end of an hour from which on a recount covers the hour.
const RECOUNTED_AFTER: Duration = Duration::from_mins(10);
/// Time after the end of an hour at which the hour's usage is published.
const PUBLISHED_AFTER: Duration = Duration::from_mins(15);
/// Age up to which a recount covers an hour.
const RECOUNTED_FOR: Duration = Duration::from_hours(48);
/// Age up to which an hour's usage is still published, if destinations were not available. The
/// usage table keeps the counters of an hour for four days.
const PUBLISHED_FOR: Duration = Duration::from_hours(72);
/// Age from which on a change of a record is certainly counted, once the stream is read to its end.
/// A recount leaves out each hour with a record that was changed less than this time before the
/// recount.
const SETTLED_AFTER: Duration = Duration::from_mins(1);
/// Minutes of each hour in which a recount may begin. A recount that fails begins again in the next
/// minute, and scans the whole table of records. The other minutes are left to the function's other
/// work.
const MINUTES: Range<i64> = 20..30;

/// Reason why hours that have ended were not recounted, or not published.
#[derive(Debug, thiserror::Error)]
pub enum HoursError {
    #[error("the usage table cannot be read or written")]
    Table(#[source] UsageError),
    #[error("the records cannot be counted again")]
    Records(#[source] Box<aws_sdk_dynamodb::Error>),
    #[error("the recount did not end in time; the next run begins it again")]
    OutOfTime,
    #[error("the event of an hour cannot be made")]
    Event(#[source] EventError),
    #[error("the totals of an hour were not published; the next run tries it again")]
    Unpublished(#[source] Option<PublishError>),
}

/// Hours that a recount covers: from `first` until before `end`. Records of hours before
/// `all_live_from` may have expired, so that a recount of these hours may lack some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: Hour,
    pub(crate) end: Hour,
    pub(crate) all_live_from: Hour,
}

impl Span {
    /// Creates the span of a recount that begins at `now`. Every change in the stream before `now`
    /// must have been counted.
    pub(crate) fn at(now: Timestamp) -> Self {
        Self {
            first: Hour::of(earlier(now, RECOUNTED_FOR)).next(),
            end: Hour::of(earlier(now, RECOUNTED_AFTER)),
            all_live_from: Hour::of(earlier(now, ExpiryBounds::MIN)).next(),
        }
    }

    /// Returns whether a recount of these hours can close a part of a gap, a period in which
    /// changes may have been lost uncounted.
    fn closes(&self, gap: &Gap) -> bool {
        self.all_live_from < self.end && gap.is_in(self.all_live_from.start(), self.end.start())
    }

    fn hours(self) -> impl Iterator<Item = Hour> {
        std::iter::successors(Some(self.first), |hour| Some(hour.next()))
            .take_while(move |hour| *hour < self.end)
    }
}

/// Returns whether a recount is due: once in the first hour of a day (UTC), and each hour while
/// there is a gap (a period of lost changes) with hours whose records have not expired. In an hour,
/// it is due only in the minutes [`MINUTES`].
pub(crate) fn is_due(state: &MeteringState, gaps: &[Gap], span: &Span, now: Timestamp) -> bool {
    let today = Hour::of(now).day();
    let minute = now.as_second().div_euclid(60).rem_euclid(24 * 60);
    let is_nightly = minute < 60 && state.recounted_day.is_none_or(|day| day < today);
    let is_wanted = is_nightly || gaps.iter().any(|gap| span.closes(gap));
    is_wanted && MINUTES.contains(&minute.rem_euclid(60))
}

/// Counts the idempotency records again if that is due, and adds the usage that the counters lack.
/// If `publishes`, notes it as still to be published for hours that were published before. Returns
/// the number of requests that were added, or `None` if no recount is due.
pub(crate) async fn recount(
    usage: &UsageTable,
    records: &Records,
    publishes: bool,
    now: Timestamp,
    deadline: Deadline,
) -> Result<Option<u64>, HoursError> {
    let state = usage.state().await.map_err(HoursError::Table)?;
    let gaps = usage.gaps().await.map_err(HoursError::Table)?;
    let span = Span::at(now);
    if !is_due(&state, &gaps, &span, now) {
        return Ok(None);
    }
    let mut recount = Recount::new(span.first, span.end, earlier(now, SETTLED_AFTER));
    if !records.count(&mut recount, deadline).await.map_err(HoursError::Records)? {
        return Err(HoursError::OutOfTime);
    }
    let mut requests = 0_u64;
    for hour in span.hours() {
        let Some(lines) = recount.lines(hour).filter(|lines| !lines.is_empty()) else { continue };
        let was_published = state.published_hour.is_some_and(|published| hour <= published);
        let added = usage.correct(hour, &lines, publishes && was_published).await;
        let added = added.map_err(HoursError::Table)?;
        if added.is_empty() {
            continue;
        }
        let number = added.iter().fold(0_u64, |sum, line| sum.saturating_add(line.counts.requests));
        requests = requests.saturating_add(number);
        tracing::warn!(
            event_type = "usage.corrected",
            %hour,
            requests = number,
            lines = added.len(),
            "a recount of hour {hour} found {number} requests that were not counted"
        );
    }
    close(usage, &gaps, &span, &recount).await.map_err(HoursError::Table)?;
    usage.recounted(Hour::of(now).day()).await.map_err(HoursError::Table)?;
    Ok(Some(requests))
}

/// Removes from the gaps (periods of lost changes) each hour of which the recount saw all records.
async fn close(usage: &UsageTable, gaps: &[Gap], span: &Span, recount: &Recount) -> Result<(), UsageError> {
    if !gaps.iter().any(|gap| span.closes(gap)) {
        return Ok(());
    }
    for hour in span.hours().filter(|hour| span.all_live_from <= *hour) {
        if recount.lines(hour).is_none() {
            continue;
        }
        for gap in usage.gaps().await?.iter().filter(|gap| gap.is_in(hour.start(), hour.end())) {
            usage.close_gap(gap, &gap.without(hour, hour.next())).await?;
        }
    }
    Ok(())
}

/// Publishes the corrections that are still to be published. Then publishes the usage of each hour
/// that ended after the last published one, in order, until the deadline. The very first call
/// publishes no hour, and only records the hour to begin after.
pub(crate) async fn publish(
    usage: &UsageTable,
    publisher: &Publisher,
    now: Timestamp,
    deadline: Deadline,
) -> Result<(), HoursError> {
    if !publisher.has_destinations() {
        return Ok(());
    }
    let corrections = usage.corrections().await.map_err(HoursError::Table)?;
    for of_hour in corrections.chunk_by(|(hour, _), (next, _)| hour == next) {
        let Some((hour, _)) = of_hour.first().filter(|_| !deadline.has_passed()) else { break };
        let lines: Vec<Line> = of_hour.iter().map(|(_, line)| line.clone()).collect();
        publish_lines(publisher, Kind::Correction, *hour, &lines).await?;
        usage.corrections_published(*hour, &lines).await.map_err(HoursError::Table)?;
    }
    let end = Hour::of(earlier(now, PUBLISHED_AFTER));
    let state = usage.state().await.map_err(HoursError::Table)?;
    let Some(published) = state.published_hour else {
        return usage.published(end.before()).await.map_err(HoursError::Table);
    };
    let mut hour = published.next().max(Hour::of(earlier(now, PUBLISHED_FOR)));
    while hour < end && !deadline.has_passed() {
        let lines = usage.hour(hour).await.map_err(HoursError::Table)?;
        publish_lines(publisher, Kind::Hour, hour, &lines).await?;
        usage.published(hour).await.map_err(HoursError::Table)?;
        hour = hour.next();
    }
    Ok(())
}

async fn publish_lines(
    publisher: &Publisher,
    kind: Kind,
    hour: Hour,
    lines: &[Line],
) -> Result<(), HoursError> {
    let events = event::of_hour(kind, hour, lines).map_err(HoursError::Event)?;
    publisher.publish(&events).await.map_err(|failed| HoursError::Unpublished(failed.why))
}

fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_sub(by).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-11-{time}Z").parse().unwrap()
    }

    fn hour(text: &str) -> Hour {
        format!("2026-11-{text}").parse().unwrap()
    }

    #[test]
    fn a_recount_takes_the_closed_hours_of_two_days() {
        let span = Span::at(at("27T02:11:00"));
        let expected = Span { first: hour("25T03"), end: hour("27T02"), all_live_from: hour("27T01") };
        assert_eq!(span, expected);
        assert_eq!(span.hours().count(), 47);
        assert_eq!(Span::at(at("27T02:09:00")).end, hour("27T01"), "the hour ended just now");
    }

    #[test]
    fn records_are_counted_again_once_a_night_and_while_a_gap_can_be_closed() {
        let is_due_at = |now: &str, recounted: Option<&str>, gaps: &[Gap]| {
            let recounted_day = recounted.map(|day| day.parse().unwrap());
            let state = MeteringState { recounted_day, ..MeteringState::default() };
            is_due(&state, gaps, &Span::at(at(now)), at(now))
        };
        assert!(!is_due_at("27T00:19:59", Some("2026-11-26"), &[]));
        assert!(is_due_at("27T00:20:00", Some("2026-11-26"), &[]));
        assert!(is_due_at("27T00:20:00", None, &[]));
        assert!(!is_due_at("27T00:20:00", Some("2026-11-27"), &[]));
        assert!(!is_due_at("27T00:30:00", None, &[]), "a table that is too large is not read all day");
        assert!(!is_due_at("27T01:20:00", None, &[]));
        let gap = |from: &str, until: &str| Gap { from: at(from), until: at(until) };
        let done = Some("2026-11-27");
        assert!(is_due_at("27T02:20:00", done, &[gap("26T00:00:00", "27T01:30:00")]));
        assert!(!is_due_at("27T02:30:00", done, &[gap("26T00:00:00", "27T01:30:00")]), "in an hour again");
        assert!(!is_due_at("27T02:20:00", done, &[gap("26T00:00:00", "27T01:00:00")]), "its records expired");
        assert!(!is_due_at("27T02:20:00", done, &[gap("27T02:00:00", "27T02:10:00")]), "the hour is too new");
    }
}
