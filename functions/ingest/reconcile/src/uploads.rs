use std::collections::HashSet;
use std::future::ready;

use attempt::Deadline;
use batch_items::{AwaitedUpload, NotificationClaim};
use futures_util::stream::{self, StreamExt as _};
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use jiff::{SignedDuration, Timestamp};
use objects::ObjectError;
use uuid::Uuid;

use crate::Reconcile;
use crate::error::{CheckError, ErrorCollector};
use crate::notify::half_way;
use crate::report::UploadsReport;

/// Maximum number of uploads read at a time from each shard of the DynamoDB index of awaited
/// uploads.
const LIMIT_OF_SHARD: u16 = 32;

/// Number of uploads that are checked concurrently. Each takes three calls, one after the other.
const AT_ONCE: usize = 16;

/// Outcome of checking one upload whose URL has expired.
enum Settled {
    /// Upload whose batch is in the database.
    Arrived,
    /// Upload whose payload is stored, and whose notification was sent again.
    Found,
    /// Upload that was never used, now marked as expired.
    Expired,
    /// Upload that another run handled or will handle; this run did nothing about it.
    Left,
}

impl Reconcile {
    /// Checks uploads whose URL has expired: marks unused ones as expired, and sends the
    /// notification of used ones again. The oldest come first, and each run does as many as its
    /// time allows, so that unused announcements delay the notifications of others little.
    pub(crate) async fn settle_uploads(
        &self,
        deadline: Deadline,
        report: &mut UploadsReport,
    ) -> Result<(), CheckError> {
        let now = Timestamp::now();
        let grace = SignedDuration::try_from(self.settings.upload_grace).unwrap_or(SignedDuration::MAX);
        let over = now.saturating_sub(grace).unwrap_or(Timestamp::MIN);
        let (mut errors, mut seen) = (ErrorCollector::default(), HashSet::new());
        // An upload that fails stays the oldest, so nothing is read behind it in this run.
        while errors.is_empty() {
            let mut awaited = self.accepted.awaited(over, LIMIT_OF_SHARD).await?;
            // The index may still have uploads that were settled a moment ago.
            awaited.retain(|upload| seen.insert(upload.batch_id));
            if awaited.is_empty() {
                break;
            }
            let ids: Vec<Uuid> = awaited.iter().map(|upload| upload.batch_id).collect();
            let mut left = ids.len();
            let unknown: HashSet<Uuid> = self.database.unknown(&ids).await?.into_iter().collect();
            // Uploads that were begun are finished: a notification may be noted and not sent yet.
            let mut settling = stream::iter(awaited)
                .take_while(|_| ready(!deadline.has_passed()))
                .map(|upload| {
                    let is_known = !unknown.contains(&upload.batch_id);
                    Box::pin(async move { self.settle(&upload, is_known, now, grace).await })
                })
                .buffer_unordered(AT_ONCE);
            while let Some(settled) = settling.next().await {
                left = left.saturating_sub(1);
                match settled {
                    Ok(Settled::Arrived) => report.arrived = report.arrived.saturating_add(1),
                    Ok(Settled::Found) => report.found = report.found.saturating_add(1),
                    Ok(Settled::Expired) => report.expired = report.expired.saturating_add(1),
                    Ok(Settled::Left) => {}
                    Err(failure) => errors.note(failure),
                }
            }
            if left > 0 {
                return Err(CheckError::OutOfTime);
            }
        }
        errors.into_result()
    }

    async fn settle(
        &self,
        upload: &AwaitedUpload,
        is_known: bool,
        now: Timestamp,
        grace: SignedDuration,
    ) -> Result<Settled, CheckError> {
        if is_known {
            self.accepted.arrived(upload).await?;
            return Ok(Settled::Arrived);
        }
        let (batch_id, tenant) = (upload.batch_id.to_string(), upload.tenant_id.to_string());
        match self.objects.head(&upload.key()).await {
            Err(ObjectError::Missing { .. }) => {
                let expired = self.expire(upload).await;
                if expired.is_err() {
                    // The upload must not stay before those that can be settled.
                    self.look_again(upload, now, grace).await?;
                }
                return expired;
            }
            head => head?,
        };
        let notified_before = half_way(upload.upload_expires_at, now);
        let claimed =
            self.notify_once(upload.tenant_id, upload.batch_id, &upload.key(), notified_before).await?;
        let mut settled = Settled::Left;
        if claimed == NotificationClaim::Granted {
            settled = Settled::Found;
            tracing::warn!(
                event_type = "upload.found",
                object = upload.key(),
                batch_id,
                tenant,
                "the notification of the upload of batch {batch_id} was sent again"
            );
        }
        // Until the database knows the batch, the upload is checked again.
        self.look_again(upload, now, grace).await?;
        Ok(settled)
    }

    /// Marks an upload as expired because it was never used. A payload that arrives later is still
    /// processed, by S3's notification.
    async fn expire(&self, upload: &AwaitedUpload) -> Result<Settled, CheckError> {
        // The result beside a dropped object comes first: once the item is marked, nothing leads
        // here again.
        let viewer = Viewer::whole(upload.tenant_id);
        let batch = self.accepted.get(&viewer, upload.batch_id).await?;
        if let Some(batch) = &batch {
            payloads::retention::note_expired(&self.objects, &batch.metadata).await?;
        }
        if self.accepted.expire(upload).await? {
            let (batch_id, tenant) = (upload.batch_id.to_string(), upload.tenant_id.to_string());
            tracing::info!(
                event_type = "upload.expired",
                batch_id,
                tenant,
                "batch {batch_id} is expired: its upload was never used"
            );
            return Ok(Settled::Expired);
        }
        // Another run expired it, or its payload is being put after all.
        let by_now = self.accepted.get(&viewer, upload.batch_id).await?;
        if let Some(batch) = by_now.filter(|batch| batch.status(Timestamp::now()) != BatchStatus::Expired) {
            payloads::retention::note_under_way(&self.objects, &batch.metadata).await?;
        }
        Ok(Settled::Left)
    }

    /// Schedules the next check of an upload for when the time since its URL expired has doubled.
    async fn look_again(
        &self,
        upload: &AwaitedUpload,
        now: Timestamp,
        grace: SignedDuration,
    ) -> Result<(), CheckError> {
        let next = now.saturating_add(now.duration_since(upload.upload_expires_at)).unwrap_or(Timestamp::MAX);
        let next = next.saturating_sub(grace).unwrap_or(now);
        Ok(self.accepted.look_again(upload, next).await?)
    }
}
