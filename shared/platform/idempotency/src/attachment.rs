//! Attachments: parts of a response that are too large for a function to send. Each is an S3 object
//! in the bucket of stored responses, and available as long as the record of its response lives.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use api::idempotency_key::{IdempotencyKey, KeyForm};
use jiff::Timestamp;
use uuid::Uuid;

use crate::error::StoreError;
use crate::execution::Execution;
use crate::operation::OperationType;
use crate::protocol::{Record, Status};
use crate::results::life;

/// Id of an attachment: an S3 object with the part of a stored response that is too large for a
/// function to send. The id consists of the request's idempotency key, the owner token of the
/// execution that stored the object, and the days for which the object is kept. It has one spelling
/// only, since responses contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentId {
    key: String,
    owner: Uuid,
    days: u64,
}

/// Error for a text that is not the id of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not the name of something that was stored")]
pub struct MalformedAttachmentId;

impl AttachmentId {
    /// Builds the id of the attachment of `execution`, which has at most one attachment. Fails if
    /// the execution's owner token is not a UUID.
    pub(crate) fn of(execution: &Execution) -> Result<Self, StoreError> {
        let owner = Uuid::try_parse(&execution.owner).map_err(StoreError::unreadable)?;
        let key = execution.idempotency_key.clone();
        Ok(Self { key, owner, days: life(execution.retention()) })
    }

    /// Returns the partition key of the idempotency record whose response names the attachment.
    pub(crate) fn pk(&self, operation: OperationType, tenant: &str) -> String {
        operation.pk(tenant, &self.key, "")
    }

    /// Returns the S3 key of the attachment. It has the same prefix as the key of the request's
    /// response body. The tenant is the caller's and not a part of the id, so no caller can read
    /// another tenant's objects.
    pub(crate) fn object_key(&self, operation: &str, tenant: &str) -> String {
        let Self { key, owner, days } = self;
        format!("results/{days}d/{operation}/{tenant}/{key}/{owner}.attachment")
    }

    /// True if the attachment can belong to the response that `record` holds now. An attachment
    /// that is older than the record belongs to an expired record of the same key.
    pub(crate) fn is_of(&self, record: &Record, now: Timestamp) -> bool {
        let is_answered = match record.status {
            Status::Prepared | Status::Completed => true,
            Status::InProgress | Status::Failed => false,
        };
        is_answered && record.expires_at > now && self.made_before().is_some_and(|at| at >= record.created_at)
    }

    /// Returns the latest time at which the execution that stored the attachment can have been
    /// claimed: the time in its owner token, plus the clock skew. `None` if the token contains no
    /// time.
    fn made_before(&self) -> Option<Timestamp> {
        let (seconds, nanoseconds) = self.owner.get_timestamp()?.to_unix();
        let claimed = Duration::new(seconds, nanoseconds).checked_add(Execution::SKEW)?;
        Timestamp::UNIX_EPOCH.checked_add(claimed).ok()
    }
}

impl fmt::Display for AttachmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, owner, days } = self;
        write!(f, "{key}.{owner}.{days}")
    }
}

impl FromStr for AttachmentId {
    type Err = MalformedAttachmentId;

    fn from_str(text: &str) -> Result<Self, MalformedAttachmentId> {
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().ok_or(MalformedAttachmentId);
        let (key, owner, days) = (next()?, next()?, next()?);
        let key =
            IdempotencyKey::parse(key, KeyForm::Uuid).map_err(|_| MalformedAttachmentId)?.as_str().to_owned();
        let owner = Uuid::try_parse(owner).map_err(|_| MalformedAttachmentId)?;
        let days = days.parse().map_err(|_| MalformedAttachmentId)?;
        let id = Self { key, owner, days };
        if id.to_string() == text { Ok(id) } else { Err(MalformedAttachmentId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10";

    fn id(text: &str) -> Result<AttachmentId, MalformedAttachmentId> {
        text.parse()
    }

    /// Builds the id of an attachment whose execution was claimed 1,000 seconds after the epoch.
    fn made() -> AttachmentId {
        let time = uuid::Timestamp::from_unix(uuid::NoContext, 1_000, 0);
        AttachmentId { key: KEY.to_owned(), owner: Uuid::new_v7(time), days: 2 }
    }

    fn record(status: Status, created: i64, expires: i64) -> Record {
        let at = |second| Timestamp::from_second(second).unwrap();
        Record {
            request_hash: "aa".to_owned(),
            rights: None,
            status,
            owner: "a successor's".to_owned(),
            attempt: 2,
            lease_expires_at: 0,
            created_at: at(created),
            trace_id: None,
            updated_at: at(created),
            expires_at: at(expires),
            progress: Default::default(),
            place_history: Default::default(),
            response: None,
        }
    }

    #[test]
    fn an_id_has_one_spelling_and_names_no_other_place() {
        let made = made();
        assert_eq!(id(&made.to_string()), Ok(made.clone()));
        assert_eq!(
            made.object_key("CONSUME", "t"),
            format!("results/2d/CONSUME/t/{KEY}/{}.attachment", made.owner)
        );
        let owner = made.owner;
        for text in [
            String::new(),
            KEY.to_owned(),
            format!("{KEY}.{owner}"),
            format!("{KEY}.{owner}."),
            format!("{KEY}.{owner}.02"),
            format!("{KEY}.{owner}.-2"),
            format!("{KEY}.{owner}.+2"),
            format!("{KEY}.{owner}.2/../3"),
            format!("{KEY}.{owner}.99999999999999999999"),
            format!("{KEY}.{}.2", owner.simple()),
            format!("{}.{owner}.2", KEY.to_uppercase()),
            format!("../other.{owner}.2"),
            format!("\"{KEY}\".{owner}.2"),
        ] {
            assert_eq!(id(&text), Err(MalformedAttachmentId), "{text}");
        }
    }

    #[test]
    fn it_can_be_had_as_long_as_the_response_that_names_it() {
        let (made, now) = (made(), Timestamp::from_second(5_000).unwrap());
        for (status, created, expires, expected) in [
            (Status::Completed, 1_000, 6_000, true),
            (Status::Prepared, 1_000, 6_000, true),
            (Status::InProgress, 1_000, 6_000, false),
            (Status::Failed, 1_000, 6_000, false),
            (Status::Completed, 1_000, 5_000, false),
            // The clock of the execution was behind.
            (Status::Completed, 1_005, 6_000, true),
            // The key was used again since.
            (Status::Completed, 1_006, 6_000, false),
        ] {
            let of = made.is_of(&record(status, created, expires), now);
            assert_eq!(of, expected, "{status:?} {created} {expires}");
        }
        let timeless = AttachmentId { owner: Uuid::nil(), ..made };
        assert!(!timeless.is_of(&record(Status::Completed, 1_000, 6_000), now));
    }
}
