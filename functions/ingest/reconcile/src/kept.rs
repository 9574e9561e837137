use attempt::Deadline;

use crate::error::CheckError;
use crate::report::BatchesReport;
use crate::{Reconcile, claimed};

impl Reconcile {
    /// Tags the objects of final batches that a function left untagged when it died.
    pub(crate) async fn release_objects(
        &self,
        deadline: Deadline,
        report: &mut BatchesReport,
    ) -> Result<(), CheckError> {
        let claim = async |limit| self.database.take_unreleased(self.settings.unfinished_for, limit).await;
        claimed::for_each(deadline, claim, async |batch| {
            payloads::retention::try_release(&self.database, &self.objects, batch.batch_id).await?;
            tracing::warn!(
                event_type = "batch.released",
                "the objects of final batch {} may expire now",
                batch.batch_id
            );
            report.released = report.released.saturating_add(1);
            Ok(())
        })
        .await
    }
}
