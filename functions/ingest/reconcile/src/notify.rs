use batch_items::NotificationClaim;
use jiff::Timestamp;
use uuid::Uuid;

use crate::Reconcile;
use crate::error::CheckError;

/// Returns the time halfway between `since` and `now`. A notification that was sent after this time
/// is not repeated yet, so that the pauses between notifications double.
pub(crate) fn half_way(since: Timestamp, now: Timestamp) -> Timestamp {
    let age = now.duration_since(since);
    if age.is_negative() { since } else { since.checked_add(age / 2).unwrap_or(now) }
}

impl Reconcile {
    /// Sends the notification of a batch's payload again, unless one was sent after
    /// `notified_before`. Of concurrent callers, only one sends it.
    pub(crate) async fn notify_once(
        &self,
        tenant_id: Uuid,
        batch_id: Uuid,
        key: &str,
        notified_before: Timestamp,
    ) -> Result<NotificationClaim, CheckError> {
        let claimed = self.accepted.claim_notification(tenant_id, batch_id, notified_before).await?;
        if claimed == NotificationClaim::Granted
            && let Err(error) = self.queue.notify(self.objects.bucket(), key, Some(tenant_id)).await
        {
            // If the release fails too, the claim expires when the payload's age has doubled.
            let released = self.accepted.release_claim(tenant_id, batch_id).await;
            return Err(released.err().map_or(error.into(), CheckError::Accepted));
        }
        Ok(claimed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_repeated_when_the_payload_s_age_has_doubled() {
        let at = |second| Timestamp::from_second(second).unwrap();
        // Sent at the age of 10: again at 20, and not before.
        assert!(at(1010) >= half_way(at(1000), at(1019)));
        assert!(at(1010) >= half_way(at(1000), at(1020)) && at(1009) < half_way(at(1000), at(1020)));
        assert_eq!(half_way(at(1000), at(900)), at(1000));
    }
}
