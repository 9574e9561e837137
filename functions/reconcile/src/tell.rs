use accepted::Taken;
use jiff::Timestamp;
use uuid::Uuid;

use crate::Reconcile;
use crate::failure::Trouble;

/// The time of which one half lies before now: what was told after it is not told again yet, so the pauses double.
pub(crate) fn half_way(since: Timestamp, now: Timestamp) -> Timestamp {
    let age = now.duration_since(since);
    if age.is_negative() { since } else { since.checked_add(age / 2).unwrap_or(now) }
}

impl Reconcile {
    /// Tells of a payload, unless somebody did since `told_before`.
    pub(crate) async fn tell_once(
        &self,
        tenant_id: Uuid,
        batch_id: Uuid,
        key: &str,
        told_before: Timestamp,
    ) -> Result<Taken, Trouble> {
        let taken = self.accepted.take(tenant_id, batch_id, told_before).await?;
        if taken == Taken::Yes
            && let Err(error) = self.queue.tell(self.objects.bucket(), key).await
        {
            // Where that fails too, it is told when its time has doubled.
            let put_back = self.accepted.put_back(tenant_id, batch_id).await;
            return Err(put_back.err().map_or(Trouble::Queue(error), Trouble::Accepted));
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_told_again_when_its_age_has_doubled() {
        let at = |second| Timestamp::from_second(second).unwrap();
        // Told at the age of 10: again at 20, and not before.
        assert!(at(1010) >= half_way(at(1000), at(1019)));
        assert!(at(1010) >= half_way(at(1000), at(1020)) && at(1009) < half_way(at(1000), at(1020)));
        assert_eq!(half_way(at(1000), at(900)), at(1000));
    }
}
