use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use attempt::Deadline;
use batch_items::NotificationClaim;
use futures_util::StreamExt as _;
use futures_util::stream;
use ingestion::payload::{batch_of_payload, payload_prefix};
use jiff::Timestamp;
use objects::{Listed, ObjectError};
use payloads::PayloadError;
use uuid::Uuid;

use crate::error::{CheckError, ErrorCollector};
use crate::notify::half_way;
use crate::report::ObjectsReport;
use crate::{Reconcile, Settings};

/// Maximum number of notifications of payloads that one run sends.
const LIMIT: u64 = 500;

/// Number of payload objects that are checked concurrently.
const AT_ONCE: usize = 16;

/// Number of latest hours whose payloads every run lists, since nearly all lost notifications are
/// of these.
const RECENT_HOURS: i64 = 3;

/// Number of slices into which the earlier hours are divided. Each run lists the hours of one
/// slice, so that listing costs little, and with a run every 5 minutes each hour is listed once an
/// hour.
const SLICES: i64 = 12;

/// Result of checking one payload object whose batch is not in the database.
enum Finding {
    Notified,
    /// Object whose notification was sent recently, so that it is not sent again yet.
    Waiting,
    Foreign,
    /// Object that was deleted after it was listed.
    Gone,
    /// Object that was not read, because the queue rejects messages.
    Skipped,
}

impl Reconcile {
    /// Sends the notifications of stored payloads again that are old enough and have no batch in
    /// the database.
    pub(crate) async fn notify_objects(
        &self,
        deadline: Deadline,
        report: &mut ObjectsReport,
    ) -> Result<(), CheckError> {
        let now = Timestamp::now();
        let mut errors = ErrorCollector::default();
        for hour in hours(now, &self.settings) {
            let prefix = payload_prefix(hour);
            let mut from = None;
            loop {
                if deadline.has_passed() {
                    return Err(CheckError::OutOfTime);
                }
                if report.found >= LIMIT {
                    tracing::warn!(
                        event_type = "look.limited",
                        "there may be more payloads without a batch than one run notifies; the next continues"
                    );
                    return errors.into_result();
                }
                let page = self.objects.list(&prefix, from).await?;
                self.notify_unknown(page.objects, now, report, &mut errors).await?;
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
        }
        errors.into_result()
    }

    async fn notify_unknown(
        &self,
        listed: Vec<Listed>,
        now: Timestamp,
        report: &mut ObjectsReport,
        errors: &mut ErrorCollector,
    ) -> Result<(), CheckError> {
        report.seen = report.seen.saturating_add(count(listed.len()));
        let young =
            |object: &Listed| now.duration_since(object.modified_at) < signed(self.settings.object_age);
        let mut asked = Vec::new();
        for object in listed.into_iter().filter(|object| !young(object)) {
            match batch_of_payload(&object.key) {
                Some(batch_id) => asked.push((batch_id, object)),
                None => {
                    report.foreign = report.foreign.saturating_add(1);
                    tracing::warn!(
                        event_type = "object.foreign",
                        object = object.key,
                        "object `{}` is not a payload: its key names no batch",
                        object.key
                    );
                }
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = asked.iter().map(|(batch_id, _)| *batch_id).collect();
        let unknown: HashSet<Uuid> = self.database.unknown(&ids).await?.into_iter().collect();
        asked.retain(|(batch_id, _)| unknown.contains(batch_id));
        asked.truncate(usize::try_from(LIMIT.saturating_sub(report.found)).unwrap_or(usize::MAX));
        let queue_is_away = AtomicBool::new(false);
        let mut findings = stream::iter(asked)
            .map(|(_, object)| {
                let queue_is_away = &queue_is_away;
                Box::pin(async move {
                    // A queue that rejects one message would reject the next.
                    if queue_is_away.load(Ordering::Relaxed) {
                        return Ok(Finding::Skipped);
                    }
                    let finding = self.notify_object(&object, now).await;
                    queue_is_away.fetch_or(matches!(finding, Err(CheckError::Notify(_))), Ordering::Relaxed);
                    finding
                })
            })
            .buffer_unordered(AT_ONCE);
        while let Some(finding) = findings.next().await {
            match finding {
                Ok(Finding::Notified) => report.found = report.found.saturating_add(1),
                Ok(Finding::Waiting) => report.waiting = report.waiting.saturating_add(1),
                Ok(Finding::Foreign) => report.foreign = report.foreign.saturating_add(1),
                Ok(Finding::Gone | Finding::Skipped) => {}
                Err(failure) => errors.note(failure),
            }
        }
        Ok(())
    }

    async fn notify_object(&self, object: &Listed, now: Timestamp) -> Result<Finding, CheckError> {
        let key = &object.key;
        let metadata = match payloads::open(&self.objects, key).await {
            Ok(payload) => payload.metadata,
            Err(PayloadError::Object(ObjectError::Missing { .. })) => return Ok(Finding::Gone),
            Err(error @ (PayloadError::Metadata(_) | PayloadError::OtherKey(_))) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    event_type = "object.foreign",
                    object = key,
                    error,
                    "object `{key}` is not a payload: it does not name its batch: {error}"
                );
                return Ok(Finding::Foreign);
            }
            Err(error) => return Err(error.into()),
        };
        let notified_before = half_way(object.modified_at, now);
        let claimed = self.notify_once(metadata.tenant_id, metadata.batch_id, key, notified_before).await?;
        let (batch_id, tenant) = (metadata.batch_id.to_string(), metadata.tenant_id.to_string());
        Ok(match claimed {
            NotificationClaim::Granted => {
                let age = now.duration_since(object.modified_at).as_secs();
                let correlation_id = metadata.trace_id;
                tracing::warn!(
                    event_type = "object.found",
                    object = key,
                    batch_id,
                    tenant,
                    correlation_id,
                    age_seconds = age,
                    "batch {batch_id} was never begun: the notification of its payload was sent again"
                );
                Finding::Notified
            }
            NotificationClaim::Refused => Finding::Waiting,
            NotificationClaim::NotAccepted => {
                tracing::warn!(
                    event_type = "object.foreign",
                    object = key,
                    batch_id,
                    tenant,
                    "object `{key}` is not a payload: batch {batch_id} was never accepted"
                );
                Finding::Foreign
            }
        })
    }
}

/// Returns the hours whose payloads this run lists, oldest first.
fn hours(now: Timestamp, settings: &Settings) -> Vec<Timestamp> {
    let interval = i64::try_from(settings.interval.as_secs()).unwrap_or(i64::MAX).max(1);
    let run = now.as_second().div_euclid(interval);
    let this_hour = now.as_second().div_euclid(3600);
    let chosen =
        |hour: &i64| this_hour - hour < RECENT_HOURS || hour.rem_euclid(SLICES) == run.rem_euclid(SLICES);
    let first = this_hour.saturating_sub(i64::from(settings.hours).saturating_sub(1));
    (first..=this_hour)
        .filter(chosen)
        .filter_map(|hour| Timestamp::from_second(hour.checked_mul(3600)?).ok())
        .collect()
}

fn signed(duration: std::time::Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_run_lists_the_last_hours() {
        let now: Timestamp = "2026-11-21T01:10:00Z".parse().unwrap();
        let hours = hours(now, &Settings::default());
        let newest: Vec<_> = hours[hours.len() - 3..].iter().map(|hour| payload_prefix(*hour)).collect();
        assert_eq!(newest, ["incoming/2026/11/20/23/", "incoming/2026/11/21/00/", "incoming/2026/11/21/01/"]);
        assert!(hours.is_sorted() && hours.len() <= 9, "{hours:?}");
    }

    #[test]
    fn every_hour_is_listed_whatever_the_interval() {
        for minutes in [2, 5, 30, 60] {
            let settings = Settings { interval: Duration::from_mins(minutes), ..Settings::default() };
            let begin: Timestamp = "2026-11-21T01:13:00Z".parse().unwrap();
            let runs = (0..SLICES)
                .map(|run| begin + jiff::SignedDuration::from_mins(run * i64::try_from(minutes).unwrap()));
            let seen: BTreeSet<Timestamp> = runs.flat_map(|now| super::hours(now, &settings)).collect();
            let last = *seen.last().unwrap();
            let expected = (0..72 - 12).map(|hour| last - jiff::SignedDuration::from_hours(hour));
            assert!(expected.into_iter().all(|hour| seen.contains(&hour)), "every {minutes} minutes");
        }
    }

    #[test]
    fn one_hour_is_this_one() {
        let now: Timestamp = "2026-11-21T01:10:00Z".parse().unwrap();
        let settings = Settings { hours: 1, ..Settings::default() };
        assert_eq!(hours(now, &settings), ["2026-11-21T01:00:00Z".parse().unwrap()]);
    }
}
