use std::collections::HashSet;

use accepted::{AwaitedUpload, Taken};
use jiff::{SignedDuration, Timestamp};
use objects::ObjectError;
use tokio::time::Instant;
use uuid::Uuid;

use crate::Reconcile;
use crate::failure::{First, Trouble};
use crate::report::UploadsReport;
use crate::tell::half_way;

/// Uploads that one run looks at, of each of the index's shards.
const LIMIT_OF_SHARD: u16 = 32;

impl Reconcile {
    /// Looks for the payloads of uploads whose time is over.
    pub(crate) async fn find_uploads(
        &self,
        until: Instant,
        report: &mut UploadsReport,
    ) -> Result<(), Trouble> {
        let now = Timestamp::now();
        let grace = SignedDuration::try_from(self.settings.upload_grace).unwrap_or(SignedDuration::MAX);
        let over = now.saturating_sub(grace).unwrap_or(Timestamp::MIN);
        let awaited = self.accepted.awaited(over, LIMIT_OF_SHARD).await?;
        if awaited.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = awaited.iter().map(|upload| upload.batch_id).collect();
        let unknown: HashSet<Uuid> = self.database.unknown(&ids).await?.into_iter().collect();
        let mut first = First::default();
        for upload in awaited {
            if Instant::now() >= until {
                return Err(Trouble::OutOfTime);
            }
            let is_known = !unknown.contains(&upload.batch_id);
            if let Err(trouble) = self.settle(&upload, is_known, now, grace, report).await {
                first.note(trouble);
            }
        }
        first.end()
    }

    async fn settle(
        &self,
        upload: &AwaitedUpload,
        is_known: bool,
        now: Timestamp,
        grace: SignedDuration,
        report: &mut UploadsReport,
    ) -> Result<(), Trouble> {
        if is_known {
            self.accepted.arrived(upload).await?;
            report.arrived = report.arrived.saturating_add(1);
            return Ok(());
        }
        let (batch_id, tenant) = (upload.batch_id.to_string(), upload.tenant_id.to_string());
        match self.objects.head(&upload.key()).await {
            Err(ObjectError::Missing { .. }) => {
                // An object that comes after all is still worked on: S3 tells of it.
                if self.accepted.expire(upload).await? {
                    report.expired = report.expired.saturating_add(1);
                    tracing::info!(
                        event_type = "upload.expired",
                        batch_id,
                        tenant,
                        "an upload was never used"
                    );
                }
                return Ok(());
            }
            head => head?,
        };
        let told_before = half_way(upload.expires_at(), now);
        let taken = self.tell_once(upload.tenant_id, upload.batch_id, &upload.key(), told_before).await?;
        if taken == Taken::Yes {
            report.found = report.found.saturating_add(1);
            tracing::warn!(
                event_type = "upload.found",
                object = upload.key(),
                batch_id,
                tenant,
                "an upload that nobody had heard of was told of"
            );
        }
        // Until the database knows it, it is looked for again, when the time since its end has doubled.
        let next = now.saturating_add(now.duration_since(upload.expires_at())).unwrap_or(Timestamp::MAX);
        let next = next.saturating_sub(grace).unwrap_or(now);
        Ok(self.accepted.look_again(upload, next).await?)
    }
}
