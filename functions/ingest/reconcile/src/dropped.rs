use attempt::Deadline;
use futures_util::future::join_all;
use ingestion::drops::{PREFIX, StateFromTags};
use ingestion::payload::payload_key_of;
use jiff::Timestamp;
use objects::{Listed, ObjectError, Objects, Page};
use transport::NotificationQueue;
use uuid::Uuid;

use crate::Reconcile;
use crate::drop_scan::ScanRun;
use crate::error::{CheckError, ErrorCollector};
use crate::report::DropsReport;

/// Maximum number of notifications that one run sends for one bucket; the next run continues after
/// them.
const LIMIT: u64 = 500;

/// Number of objects of one bucket after which a run stops listing, at the end of a page.
const LISTED: u64 = 50_000;

/// Number of objects whose tags are read concurrently.
const AT_ONCE: usize = 16;

impl Reconcile {
    /// Sends the notifications of two kinds of dropped objects again: those whose tags show no
    /// decision, and accepted ones whose payload was not copied. If one bucket cannot be read, the
    /// other is still checked.
    pub(crate) async fn notify_drops(
        &self,
        deadline: Deadline,
        report: &mut DropsReport,
    ) -> Result<(), CheckError> {
        let Some(queue) = &self.drops else { return Ok(()) };
        let other = self.drop_bucket.as_ref().map(|bucket| self.objects.in_bucket(bucket));
        let mut errors = ErrorCollector::default();
        for objects in [&self.objects].into_iter().chain(&other) {
            let mut found = DropsReport::default();
            if let Err(failure) = self.notify_drops_in(objects, queue, deadline, &mut found).await {
                errors.note(failure);
            }
            report.seen = report.seen.saturating_add(found.seen);
            report.found = report.found.saturating_add(found.found);
        }
        errors.into_result()
    }

    /// Checks the dropped objects of one bucket, page by page. The progress is saved after each
    /// page, so that a run that is cut off loses one page at most.
    async fn notify_drops_in(
        &self,
        objects: &Objects,
        queue: &NotificationQueue,
        deadline: Deadline,
        report: &mut DropsReport,
    ) -> Result<(), CheckError> {
        let last = self.database.drop_scan(objects.bucket()).await?;
        let mut run = ScanRun::after(last, Timestamp::now(), &self.settings);
        let (begin, mut from) = (run.scan.after.clone(), None);
        loop {
            if deadline.has_passed() {
                return Err(CheckError::OutOfTime);
            }
            let page = objects.list_after(PREFIX, begin.as_deref(), from).await?;
            report.seen = report.seen.saturating_add(u64::try_from(page.objects.len()).unwrap_or(u64::MAX));
            let came = self.notify_page(objects, queue, deadline, &page, &mut run, report).await;
            self.database.note_drop_scan(objects.bucket(), &run.scan).await?;
            came?;
            if run.scan.after.is_none() {
                return Ok(());
            }
            if report.found >= LIMIT || report.seen >= LISTED {
                tracing::warn!(
                    event_type = "look.limited",
                    bucket = objects.bucket(),
                    "bucket `{}` may have more dropped objects than one run checks; the next run continues",
                    objects.bucket()
                );
                return Ok(());
            }
            from = page.next;
        }
    }

    /// Sends the due notifications of one page of objects, and moves the position of `run` behind
    /// the objects that were checked before the limit or the deadline was reached. An object whose
    /// tags cannot be read is left to the next scan of the bucket, so that it does not delay
    /// others.
    async fn notify_page(
        &self,
        objects: &Objects,
        queue: &NotificationQueue,
        deadline: Deadline,
        page: &Page,
        run: &mut ScanRun,
        report: &mut DropsReport,
    ) -> Result<(), CheckError> {
        let due: Vec<&Listed> =
            page.objects.iter().filter(|object| run.is_due(object, &self.settings)).collect();
        let mut errors = ErrorCollector::default();
        let mut left = due.into_iter();
        while !left.as_slice().is_empty() {
            if deadline.has_passed() {
                return Err(CheckError::OutOfTime);
            }
            let room = usize::try_from(LIMIT.saturating_sub(report.found)).unwrap_or(usize::MAX);
            if room == 0 {
                return errors.into_result();
            }
            let some: Vec<&Listed> = left.by_ref().take(AT_ONCE.min(room)).collect();
            let notifying =
                some.iter().map(|object| Box::pin(notify_drop(&self.objects, objects, queue, object)));
            for notified in join_all(notifying).await {
                match notified {
                    Ok(true) => report.found = report.found.saturating_add(1),
                    Ok(false) => {}
                    // A queue that rejects one message would reject the next.
                    Err(failure @ CheckError::Notify(_)) => return Err(failure),
                    Err(failure) => errors.note(failure),
                }
            }
            run.scan.after = some.last().map(|object| object.key.clone());
        }
        run.scan.after = match (&page.next, page.objects.last()) {
            (None, _) => None,
            (Some(_), Some(object)) => Some(object.key.clone()),
            (Some(_), None) => run.scan.after.take(),
        };
        errors.into_result()
    }
}

/// Sends the notification of a dropped object again, unless the object is gone, is refused, or its
/// batch is final or has its payload. Returns true if it was sent.
async fn notify_drop(
    payloads: &Objects,
    objects: &Objects,
    queue: &NotificationQueue,
    object: &Listed,
) -> Result<bool, CheckError> {
    let tags = match objects.tags(&object.key).await {
        Err(ObjectError::Missing { .. }) => return Ok(false),
        tags => tags?,
    };
    let is_done = match ingestion::drops::tagged_state(&tags, &object.etag, object.modified_at) {
        None => false,
        Some(StateFromTags::Settled) => true,
        Some(StateFromTags::Accepted(batch_id)) => has_payload(payloads, batch_id).await?,
    };
    if is_done {
        return Ok(false);
    }
    let tenant = ingestion::drops::tenant_of(&object.key);
    queue.notify(objects.bucket(), &object.key, tenant).await?;
    tracing::warn!(
        event_type = "drop.found",
        bucket = objects.bucket(),
        object = object.key,
        "the notification of dropped object `{}` was sent again",
        object.key
    );
    Ok(true)
}

/// True if the payload of an accepted dropped object was copied. If it was not, the message about
/// the object may have failed too often and be gone.
async fn has_payload(payloads: &Objects, batch_id: Uuid) -> Result<bool, ObjectError> {
    let key = payload_key_of(batch_id);
    Ok(!payloads.there(key.into_iter().collect()).await?.is_empty())
}
