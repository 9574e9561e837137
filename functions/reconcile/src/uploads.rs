use std::collections::HashSet;

use accepted::{AwaitedUpload, Taken};
use clock::Deadline;
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use jiff::{SignedDuration, Timestamp};
use objects::ObjectError;
use uuid::Uuid;

use crate::Reconcile;
use crate::failure::{FirstError, LookError};
use crate::notify::half_way;
use crate::report::UploadsReport;

/// Uploads that one run settles, of each of the index's shards.
const LIMIT_OF_SHARD: u16 = 32;

impl Reconcile {
    /// Expires uploads that were never used, and sends the notification of those that were.
    pub(crate) async fn settle_uploads(
        &self,
        deadline: Deadline,
        report: &mut UploadsReport,
    ) -> Result<(), LookError> {
        let now = Timestamp::now();
        let grace = SignedDuration::try_from(self.settings.upload_grace).unwrap_or(SignedDuration::MAX);
        let over = now.saturating_sub(grace).unwrap_or(Timestamp::MIN);
        let awaited = self.accepted.awaited(over, LIMIT_OF_SHARD).await?;
        if awaited.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = awaited.iter().map(|upload| upload.batch_id).collect();
        let unknown: HashSet<Uuid> = self.database.unknown(&ids).await?.into_iter().collect();
        let mut first = FirstError::default();
        for upload in awaited {
            if deadline.has_passed() {
                return Err(LookError::OutOfTime);
            }
            let is_known = !unknown.contains(&upload.batch_id);
            if let Err(failure) = self.settle(&upload, is_known, now, grace, report).await {
                first.note(failure);
            }
        }
        first.into_result()
    }

    async fn settle(
        &self,
        upload: &AwaitedUpload,
        is_known: bool,
        now: Timestamp,
        grace: SignedDuration,
        report: &mut UploadsReport,
    ) -> Result<(), LookError> {
        if is_known {
            self.accepted.arrived(upload).await?;
            report.arrived = report.arrived.saturating_add(1);
            return Ok(());
        }
        let (batch_id, tenant) = (upload.batch_id.to_string(), upload.tenant_id.to_string());
        match self.objects.head(&upload.key()).await {
            Err(ObjectError::Missing { .. }) => {
                if let Err(failure) = self.expire(upload, report).await {
                    // It must not stay before those that can be settled.
                    self.look_again(upload, now, grace).await?;
                    return Err(failure);
                }
                return Ok(());
            }
            head => head?,
        };
        let notified_before = half_way(upload.expires_at(), now);
        let claimed =
            self.notify_once(upload.tenant_id, upload.batch_id, &upload.key(), notified_before).await?;
        if claimed == Taken::Yes {
            report.found = report.found.saturating_add(1);
            tracing::warn!(
                event_type = "upload.found",
                object = upload.key(),
                batch_id,
                tenant,
                "the notification of an upload was sent again"
            );
        }
        // Until the database knows it, it is checked again.
        self.look_again(upload, now, grace).await
    }

    /// Marks an upload as never used. A payload that arrives later is still processed: S3 sends its
    /// notification.
    async fn expire(&self, upload: &AwaitedUpload, report: &mut UploadsReport) -> Result<(), LookError> {
        // The result beside a dropped object comes first: once the item is marked, nothing leads
        // here again.
        let viewer = Viewer::whole(upload.tenant_id);
        let batch = self.accepted.get(&viewer, upload.batch_id).await?;
        if let Some(batch) = &batch {
            retention::note_expired(&self.objects, &batch.metadata).await?;
        }
        if self.accepted.expire(upload).await? {
            report.expired = report.expired.saturating_add(1);
            let (batch_id, tenant) = (upload.batch_id.to_string(), upload.tenant_id.to_string());
            tracing::info!(event_type = "upload.expired", batch_id, tenant, "an upload was never used");
            return Ok(());
        }
        // Another run expired it, or its payload is being put after all.
        let by_now = self.accepted.get(&viewer, upload.batch_id).await?;
        match by_now.filter(|batch| batch.status(Timestamp::now()) != BatchStatus::Expired) {
            Some(batch) => Ok(retention::note_under_way(&self.objects, &batch.metadata).await?),
            None => Ok(()),
        }
    }

    /// Looks again when the time since the upload's end has doubled.
    async fn look_again(
        &self,
        upload: &AwaitedUpload,
        now: Timestamp,
        grace: SignedDuration,
    ) -> Result<(), LookError> {
        let next = now.saturating_add(now.duration_since(upload.expires_at())).unwrap_or(Timestamp::MAX);
        let next = next.saturating_sub(grace).unwrap_or(now);
        Ok(self.accepted.look_again(upload, next).await?)
    }
}
