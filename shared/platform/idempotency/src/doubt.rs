//! Doubts: reports that it is unknown whether an attempt put or removed messages. They are derived
//! from the changes of an idempotency record.
//!
//! A reader of the table's DynamoDB stream sees each change, with the record before and after it.

use std::collections::HashMap;

use attempt::Malformed;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::operation::OperationType;
use crate::protocol::Status;

/// Cause for which the outcome of an attempt is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The broker did not clearly accept or refuse the call that makes the work final, such as a
    /// commit.
    Broker,
    /// The attempt ended without a report: it crashed, or ran out of time.
    Interrupted,
}

/// Report that it is unknown whether the work of an attempt was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Id of this report, derived from the attempt. It is the same each time that the stream is
    /// read.
    pub id: Uuid,
    /// Type of the attempt's work, such as `PRODUCE`.
    pub operation: String,
    /// Id of the tenant that sent the request.
    pub tenant: String,
    /// Idempotency key of the request, in canonical spelling.
    pub idempotency_key: String,
    /// Target of the attempt's work, such as a queue as `<queueManager>:<queue>`; may be empty.
    pub target: String,
    /// Trace id of the request that made the attempt.
    pub trace_id: String,
    /// Number of the attempt (execution of the request), from 1.
    pub attempt: u32,
    /// Cause for which it is unknown whether the work was done.
    pub cause: Cause,
    /// Number of units of work (for example messages) that the record counts as done.
    pub done: u64,
    /// Maximum number of further units (for example messages) that this attempt may have done,
    /// besides `done`; `None` if unknown.
    pub in_doubt: Option<u64>,
    /// Time of the write to the idempotency record that revealed the doubt. If the record was
    /// deleted, the time at which it was last written.
    pub noticed_at: Timestamp,
}

/// Operation types whose outcome can be in doubt, by the way in which they work.
#[derive(Clone, Copy, Debug)]
pub struct Doubtful<'a> {
    /// Types whose work consists of ordered units (for example messages), and whose progress is
    /// recorded at checkpoints.
    pub resumable: &'a [OperationType],
    /// Types whose work stores its response first, and then makes its effect (for example that
    /// messages are removed) final in one step. An attempt that ends before it has stored the
    /// response has no effect.
    pub prepared: &'a [OperationType],
}

/// Attributes of an idempotency record that [`Doubtful::doubt`] reads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Image {
    pk: String,
    operation_type: String,
    idempotency_key: String,
    tenant_id: String,
    #[serde(default)]
    target: String,
    #[serde(default)]
    trace_id: String,
    status: Status,
    attempt: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(default)]
    checkpoint: u64,
    /// Number of units (for example messages) that the last attempt may have done. The attribute
    /// `inDoubt` also counts such units of earlier attempts.
    #[serde(default)]
    attempt_in_doubt: u64,
    doubt_noted_at: Option<Timestamp>,
}

impl Doubtful<'_> {
    /// Returns the doubt that a change of an item in the idempotency table reveals, from the item
    /// before (`old`) and after it (`new`). Returns `None` if it reveals none, or if the item is
    /// not a record of these operation types. A change reveals a doubt if
    ///
    /// - an attempt **failed** and left units in doubt,
    /// - the effect of a prepared response was [noted](crate::Store::note_doubt) as in doubt,
    /// - an attempt that had not ended was **taken over**, or
    /// - the record of an attempt that had not ended **expired**: DynamoDB deleted it, or a new
    ///   claim replaced it.
    ///
    /// # Errors
    /// If a record of these operation types is malformed.
    pub fn doubt(
        &self,
        old: Option<HashMap<String, AttributeValue>>,
        new: Option<HashMap<String, AttributeValue>>,
    ) -> Result<Option<Doubt>, Malformed> {
        let old =
            old.filter(|item| self.is_about(item)).map(attempt::malformed::from_item::<Image>).transpose()?;
        let new =
            new.filter(|item| self.is_about(item)).map(attempt::malformed::from_item::<Image>).transpose()?;
        let Some(old) = old else { return Ok(None) };
        Ok(match new {
            None if self.is_open(&old) => Some(old.doubt(Cause::Interrupted, None, old.updated_at)),
            None => None,
            Some(new) => self.between(&old, &new),
        })
    }

    fn between(&self, old: &Image, new: &Image) -> Option<Doubt> {
        // A claim over an expired record replaces it, and counts attempts from 1 again.
        if new.attempt > old.attempt || new.created_at != old.created_at {
            return self.is_open(old).then(|| old.doubt(Cause::Interrupted, None, new.updated_at));
        }
        if let (None, Some(noted_at)) = (old.doubt_noted_at, new.doubt_noted_at) {
            return Some(new.doubt(Cause::Broker, None, noted_at));
        }
        let has_failed = old.status.is_open() && new.status == Status::Failed;
        let in_doubt = new.attempt_in_doubt;
        (has_failed && in_doubt > 0).then(|| new.doubt(Cause::Broker, Some(in_doubt), new.updated_at))
    }

    fn is_about(&self, item: &HashMap<String, AttributeValue>) -> bool {
        let operation = item.get("operationType").and_then(|value| value.as_s().ok());
        operation.is_some_and(|name| is_among(self.resumable, name) || is_among(self.prepared, name))
    }

    /// True if the record's attempt has not ended, and would leave a doubt that is not published
    /// yet if it ended without a report now.
    fn is_open(&self, image: &Image) -> bool {
        match image.status {
            Status::InProgress => is_among(self.resumable, &image.operation_type),
            Status::Prepared => image.doubt_noted_at.is_none(),
            Status::Completed | Status::Failed => false,
        }
    }
}

fn is_among(operations: &[OperationType], name: &str) -> bool {
    operations.iter().any(|operation| operation.as_str() == name)
}

impl Image {
    fn doubt(&self, cause: Cause, in_doubt: Option<u64>, noticed_at: Timestamp) -> Doubt {
        Doubt {
            id: self.id(),
            operation: self.operation_type.clone(),
            tenant: self.tenant_id.clone(),
            idempotency_key: self.idempotency_key.clone(),
            target: self.target.clone(),
            trace_id: self.trace_id.clone(),
            attempt: self.attempt,
            cause,
            done: self.checkpoint,
            in_doubt,
            noticed_at,
        }
    }

    /// Returns the id of the doubt: a hash of the record's key, the time of the first claim and the
    /// number of the attempt. The time is needed because attempts count from 1 again when an
    /// expired key is claimed again.
    fn id(&self) -> Uuid {
        let mut hash = Sha256::new();
        hash.update(b"integrahub.message.in_doubt");
        hash.update(self.attempt.to_be_bytes());
        hash.update(self.created_at.as_millisecond().to_be_bytes());
        hash.update(self.pk.as_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        uuid::Builder::from_custom_bytes(hash.first_chunk().copied().unwrap_or_default()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamodb::{number, text};

    const PRODUCE: OperationType = OperationType::named("PRODUCE");
    const CONSUME: OperationType = OperationType::named("CONSUME");
    const DOUBTFUL: Doubtful<'static> = Doubtful { resumable: &[PRODUCE], prepared: &[CONSUME] };

    type Item = HashMap<String, AttributeValue>;

    fn item(operation: OperationType, status: Status, attempt: u32) -> Item {
        let key = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10";
        [
            ("pk", text(&format!("{operation}#t#{key}"))),
            ("operationType", text(operation.as_str())),
            ("idempotencyKey", text(key)),
            ("tenantId", text("t")),
            ("target", text("QM1:ORDERS")),
            ("traceId", text("trace")),
            ("status", text(status.as_str())),
            ("attempt", number(attempt)),
            ("createdAt", text("2026-11-23T09:59:00.000Z")),
            ("updatedAt", text("2026-11-23T10:00:00.000Z")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn with(mut item: Item, name: &str, value: AttributeValue) -> Item {
        item.insert(name.to_owned(), value);
        item
    }

    fn doubt(old: Item, new: Option<Item>) -> Option<Doubt> {
        DOUBTFUL.doubt(Some(old), new).unwrap()
    }

    #[test]
    fn an_attempt_that_fails_with_units_in_doubt_says_how_many() {
        let running = with(item(PRODUCE, Status::InProgress, 1), "checkpoint", number(10));
        let failed = with(item(PRODUCE, Status::Failed, 1), "checkpoint", number(20));
        assert_eq!(doubt(running.clone(), Some(with(failed.clone(), "attemptInDoubt", number(0)))), None);
        let found = doubt(running, Some(with(failed, "attemptInDoubt", number(3)))).unwrap();
        assert_eq!((found.cause, found.done, found.in_doubt), (Cause::Broker, 20, Some(3)));
        assert_eq!((found.operation.as_str(), found.tenant.as_str(), found.attempt), ("PRODUCE", "t", 1));
    }

    #[test]
    fn a_doubt_is_told_once_and_not_by_each_attempt_that_comes_after_it() {
        let failed = with(item(PRODUCE, Status::Failed, 1), "attemptInDoubt", number(3));
        let again = with(item(PRODUCE, Status::InProgress, 2), "inDoubt", number(3));
        assert_eq!(doubt(failed.clone(), Some(again.clone())), None, "the failure told of it");
        let failed_again = with(item(PRODUCE, Status::Failed, 2), "inDoubt", number(3));
        let failed_again = with(failed_again, "attemptInDoubt", number(0));
        assert_eq!(doubt(again, Some(failed_again)), None, "nothing was added");
        assert_eq!(doubt(failed.clone(), Some(with(failed, "ttl", number(1)))), None, "it failed before");
    }

    #[test]
    fn what_earlier_attempts_left_does_not_hide_the_doubt_of_a_later_one() {
        for before in [2, 3, 50, u64::MAX] {
            let running = with(item(PRODUCE, Status::InProgress, 2), "inDoubt", number(before));
            // It put what was in doubt once more, and left three of its own.
            let failed = with(item(PRODUCE, Status::Failed, 2), "inDoubt", number(3));
            let found = doubt(running, Some(with(failed, "attemptInDoubt", number(3)))).unwrap();
            assert_eq!((found.cause, found.attempt, found.in_doubt), (Cause::Broker, 2, Some(3)));
        }
    }

    #[test]
    fn a_key_that_is_used_again_after_it_expired_has_doubts_of_its_own() {
        let first = item(PRODUCE, Status::InProgress, 1);
        let later = with(first.clone(), "createdAt", text("2026-11-30T09:59:00.000Z"));
        assert_ne!(doubt(first, None).unwrap().id, doubt(later, None).unwrap().id);
    }

    #[test]
    fn a_claim_over_an_expired_record_tells_of_the_attempt_that_it_replaces() {
        let claimed_later = |operation| {
            let claimed = item(operation, Status::InProgress, 1);
            with(claimed, "createdAt", text("2026-11-30T09:59:00.000Z"))
        };
        for attempt in [1, 3] {
            let cut_off = with(item(PRODUCE, Status::InProgress, attempt), "checkpoint", number(10));
            let found = doubt(cut_off.clone(), Some(claimed_later(PRODUCE))).unwrap();
            assert_eq!((found.cause, found.attempt, found.done), (Cause::Interrupted, attempt, 10));
            assert_eq!(doubt(cut_off, None).unwrap().id, found.id, "as if DynamoDB had deleted it");
        }
        let prepared = item(CONSUME, Status::Prepared, 1);
        assert_eq!(doubt(prepared.clone(), Some(claimed_later(CONSUME))).unwrap().cause, Cause::Interrupted);
        let noted = with(prepared, "doubtNotedAt", text("2026-11-23T10:00:00.000Z"));
        assert_eq!(doubt(noted, Some(claimed_later(CONSUME))), None, "it was told");
        for status in [Status::Completed, Status::Failed] {
            assert_eq!(doubt(item(PRODUCE, status, 2), Some(claimed_later(PRODUCE))), None);
        }
    }

    #[test]
    fn an_attempt_that_was_cut_off_is_in_doubt_once_it_is_taken_over_or_expires() {
        let running = with(item(PRODUCE, Status::InProgress, 1), "checkpoint", number(10));
        let next = with(item(PRODUCE, Status::InProgress, 2), "inDoubt", number(u64::MAX));
        let taken_over = doubt(running.clone(), Some(next.clone())).unwrap();
        assert_eq!((taken_over.cause, taken_over.done), (Cause::Interrupted, 10));
        assert_eq!((taken_over.attempt, taken_over.in_doubt), (1, None));
        assert_eq!(doubt(running, None).unwrap().id, taken_over.id, "it is the same attempt's");
        let after = doubt(next, None).unwrap();
        assert_ne!(after.id, taken_over.id);
        assert_eq!((after.attempt, after.in_doubt), (2, None));
    }

    #[test]
    fn a_prepared_response_is_in_doubt_if_that_was_noted_or_its_attempt_was_cut_off() {
        let prepared = item(CONSUME, Status::Prepared, 1);
        let noted = with(prepared.clone(), "doubtNotedAt", text("2026-11-23T10:00:00.000Z"));
        let found = doubt(prepared.clone(), Some(noted.clone())).unwrap();
        assert_eq!((found.cause, found.in_doubt), (Cause::Broker, None));
        let next = item(CONSUME, Status::Prepared, 2);
        assert_eq!(doubt(prepared.clone(), Some(next.clone())).unwrap().cause, Cause::Interrupted);
        assert_eq!(doubt(noted.clone(), Some(next.clone())), None, "it was told");
        let taken_over = with(next, "doubtNotedAt", text("2026-11-23T10:01:00.000Z"));
        assert_eq!(doubt(prepared.clone(), Some(taken_over.clone())).unwrap().attempt, 1);
        assert_eq!(doubt(taken_over, Some(item(CONSUME, Status::Prepared, 3))), None, "it was told");
        assert_eq!(doubt(prepared, None).unwrap().id, found.id);
        assert_eq!(doubt(noted, None), None);
    }

    #[test]
    fn work_that_ended_or_had_no_effect_is_not_in_doubt() {
        for status in [Status::Completed, Status::Failed] {
            assert_eq!(doubt(item(PRODUCE, status, 1), None), None);
            assert_eq!(doubt(item(CONSUME, Status::Prepared, 1), Some(item(CONSUME, status, 1))), None);
        }
        let unprepared = item(CONSUME, Status::InProgress, 1);
        assert_eq!(doubt(unprepared.clone(), None), None);
        assert_eq!(doubt(unprepared, Some(item(CONSUME, Status::InProgress, 2))), None);
        assert_eq!(DOUBTFUL.doubt(None, Some(item(PRODUCE, Status::InProgress, 1))).unwrap(), None);
    }

    #[test]
    fn other_items_of_the_table_are_left_alone_and_broken_records_are_refused() {
        let ingest = item(OperationType::named("INGEST"), Status::InProgress, 1);
        assert_eq!(doubt(ingest, None), None);
        let counter = Item::from([("pk".to_owned(), text("REUSE#t")), ("count".to_owned(), number(1))]);
        assert_eq!(doubt(counter, None), None);
        let mut broken = item(PRODUCE, Status::InProgress, 1);
        broken.remove("attempt");
        assert!(DOUBTFUL.doubt(Some(broken), None).is_err());
    }
}
