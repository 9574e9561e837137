use attempt::Deadline;

use crate::Reconcile;
use crate::error::CheckError;
use crate::report::EventsReport;

/// Maximum number of outbox events that one run publishes.
const LIMIT: u32 = 1000;

impl Reconcile {
    /// Publishes events that stayed in the outbox, and reports the age of the oldest. Does nothing
    /// if events have no destination.
    pub(crate) async fn publish_events(
        &self,
        deadline: Deadline,
        report: &mut EventsReport,
    ) -> Result<(), CheckError> {
        if !self.publisher.has_destinations() {
            return Ok(());
        }
        let older_than = self.settings.events_after;
        let left = self.database.publish_left(&self.publisher, older_than, LIMIT, deadline).await;
        // The age is reported also when the destination is unreachable: the alarm is about that.
        let backlog = self.database.backlog().await?;
        report.behind_minutes = Some(backlog.oldest.as_secs() / 60);
        let left = left?;
        report.published = left.published;
        report.refused = left.refused;
        if left.published > 0 {
            tracing::warn!(
                event_type = "events.republished",
                events = left.published,
                "{} events that stayed in the outbox were published",
                left.published
            );
        }
        if left.is_more {
            tracing::warn!(
                event_type = "look.limited",
                waiting = backlog.events,
                "there may be more events than one run publishes; {} wait in the outbox",
                backlog.events
            );
        }
        Ok(())
    }
}
