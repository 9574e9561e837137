use std::time::Duration;

use clock::Deadline;
use drops::{DropName, NotADrop, PREFIX, Seen};
use futures_util::StreamExt as _;
use futures_util::stream;
use ingestion::payload::payload_key_of;
use jiff::Timestamp;
use objects::{Listed, ObjectError, Objects};
use payloads::NotifyError;
use transport::PayloadsReceived;
use uuid::Uuid;

use crate::failure::{FirstError, LookError};
use crate::report::DropsReport;
use crate::{Reconcile, Settings};

/// Notifications that one run sends at most, of one bucket.
const LIMIT: u64 = 500;

/// Objects of one bucket that one run lists at most. They expire some days after their batches
/// ended.
const LISTED: u64 = 50_000;

/// Objects whose tags are read at once.
const AT_ONCE: usize = 16;

impl Reconcile {
    /// Sends the notification of dropped objects whose tags do not say that they were looked at, or
    /// that were accepted and never copied. If one bucket cannot be read, the other one is looked
    /// at all the same.
    pub(crate) async fn notify_drops(
        &self,
        deadline: Deadline,
        report: &mut DropsReport,
    ) -> Result<(), LookError> {
        let Some(queue) = &self.drops else { return Ok(()) };
        let other = self.drop_bucket.as_ref().map(|bucket| self.objects.in_bucket(bucket));
        let mut first = FirstError::default();
        for objects in [&self.objects].into_iter().chain(&other) {
            let mut found = DropsReport::default();
            if let Err(failure) = self.notify_drops_in(objects, queue, deadline, &mut found).await {
                first.note(failure);
            }
            report.seen = report.seen.saturating_add(found.seen);
            report.found = report.found.saturating_add(found.found);
        }
        first.into_result()
    }

    async fn notify_drops_in(
        &self,
        objects: &Objects,
        queue: &PayloadsReceived,
        deadline: Deadline,
        report: &mut DropsReport,
    ) -> Result<(), LookError> {
        let now = Timestamp::now();
        let mut first = FirstError::default();
        let mut from = None;
        loop {
            if deadline.has_passed() {
                return Err(LookError::OutOfTime);
            }
            if report.found >= LIMIT || report.seen >= LISTED {
                tracing::warn!(
                    event_type = "look.limited",
                    bucket = objects.bucket(),
                    "there may be more dropped objects than one run looks at"
                );
                break;
            }
            let page = objects.list(PREFIX, from).await?;
            report.seen = report.seen.saturating_add(u64::try_from(page.objects.len()).unwrap_or(u64::MAX));
            let due = page.objects.into_iter().filter(|object| self.is_due(object, now));
            let mut notified = stream::iter(due.collect::<Vec<_>>())
                .map(|object| {
                    Box::pin(async move { notify_drop(&self.objects, objects, queue, &object).await })
                })
                .buffer_unordered(AT_ONCE);
            while let Some(notified) = notified.next().await {
                match notified {
                    Ok(true) => report.found = report.found.saturating_add(1),
                    Ok(false) => {}
                    Err(failure) => first.note(failure),
                }
            }
            from = page.next;
            if from.is_none() || !first.is_none() {
                break;
            }
        }
        first.into_result()
    }

    fn is_due(&self, object: &Listed, now: Timestamp) -> bool {
        let age = Duration::try_from(now.duration_since(object.modified_at)).unwrap_or_default();
        let is_left_alone = object.length == 0 || DropName::read(&object.key) == Err(NotADrop::Ignored);
        !is_left_alone && is_due(age, &self.settings)
    }
}

/// Returns whether the object's notification was sent.
async fn notify_drop(
    payloads: &Objects,
    objects: &Objects,
    queue: &PayloadsReceived,
    object: &Listed,
) -> Result<bool, LookError> {
    let tags = match objects.tags(&object.key).await {
        Err(ObjectError::Missing { .. }) => return Ok(false),
        tags => tags?,
    };
    let is_done = match drops::seen(&tags, &object.etag, object.modified_at) {
        None => false,
        Some(Seen::Settled) => true,
        Some(Seen::Accepted(batch_id)) => has_payload(payloads, batch_id).await?,
    };
    if is_done {
        return Ok(false);
    }
    queue.notify(objects.bucket(), &object.key).await.map_err(NotifyError::Queue)?;
    tracing::warn!(
        event_type = "drop.found",
        bucket = objects.bucket(),
        object = object.key,
        "the notification of a dropped object was sent again"
    );
    Ok(true)
}

/// Whether the copy was made that an object was accepted for. If not, no message may be left that
/// leads to it: it failed too often.
async fn has_payload(payloads: &Objects, batch_id: Uuid) -> Result<bool, ObjectError> {
    let key = payload_key_of(batch_id);
    Ok(!payloads.there(key.into_iter().collect()).await?.is_empty())
}

/// Whether an object of that age is notified by this run: once it is old enough, and then each time
/// that its age has doubled. Nothing remembers it, so a run overlaps with the one before, and an
/// object may be notified by both; one notification too many does no harm.
fn is_due(age: Duration, settings: &Settings) -> bool {
    let Settings { object_age, interval, hours, .. } = *settings;
    let doublings = |age: Duration| {
        let least = object_age.as_millis().max(1);
        (age >= object_age).then(|| (age.as_millis() / least).max(1).ilog2())
    };
    let before = age.checked_sub(interval.saturating_add(interval / 2)).and_then(doublings);
    age < Duration::from_hours(u64::from(hours)) && doublings(age) != before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_notified_when_it_is_old_enough_and_when_its_age_has_doubled() {
        let settings = Settings::default();
        let at = |minutes: u64| is_due(Duration::from_mins(minutes), &settings);
        // Every five minutes: the run at 10 to 17 minutes, at 20 to 27, and so on.
        let due: Vec<u64> = (0..100).filter(|minutes| at(*minutes)).collect();
        let expected: Vec<u64> = [10..18, 20..28, 40..48, 80..88].into_iter().flatten().collect();
        assert_eq!(due, expected);
        assert!((0..5).all(|offset| (0..20).any(|run| at(run * 5 + offset))), "whenever the runs begin");
        assert!(!at(72 * 60), "it is looked for three days long");
    }

    #[test]
    fn each_object_is_old_at_once_if_nothing_is_waited_for() {
        let settings = Settings { object_age: Duration::ZERO, ..Settings::default() };
        assert!(is_due(Duration::ZERO, &settings));
    }
}
