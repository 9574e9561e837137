use attempt::Deadline;

use crate::error::CheckError;
use crate::report::BatchesReport;
use crate::{Reconcile, claimed};

impl Reconcile {
    /// Finalizes batches whose chunks are all written.
    pub(crate) async fn finalize_batches(
        &self,
        deadline: Deadline,
        report: &mut BatchesReport,
    ) -> Result<(), CheckError> {
        let claim = async |limit| self.database.take_unfinished(self.settings.unfinished_for, limit).await;
        claimed::for_each(deadline, claim, async |batch| {
            let end = self.database.finalize(batch.batch_id).await?;
            if end.became_final {
                tracing::warn!(
                    event_type = "batch.finalized",
                    status = %end.status,
                    "batch {}, whose chunks were all written, was finalized: {}",
                    batch.batch_id,
                    end.status
                );
                report.finalized = report.finalized.saturating_add(1);
            }
            if end.status.is_final() {
                payloads::retention::release(&self.database, &self.objects, batch.batch_id).await;
            }
            Ok(())
        })
        .await
    }
}
