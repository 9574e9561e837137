//! Refusal of dropped objects that cannot become batches.

use ingestion::drops::{StateToTag, UnknownKey, refused};
use ingestion::payload::Source;
use objects::Version;
use runtime::metrics;
use serde_json::json;

use crate::{DropIntake, IntakeError, event};

/// Reason why a dropped object is not accepted as a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Key(UnknownKey),
    NotAllowed,
    /// Object in a bucket that the tenant's grant does not name.
    OtherBucket,
    Empty,
    TooLarge(u64),
}

impl Refusal {
    /// Returns the reason's code in tags, results, events and logs.
    const fn reason(self) -> &'static str {
        match self {
            Self::Key(UnknownKey::Form) => "KEY_UNKNOWN",
            Self::Key(UnknownKey::Ending) => "CONTENT_TYPE",
            Self::Key(UnknownKey::Control) => "KEY_CONTROL_CHARACTER",
            Self::Key(UnknownKey::Length) => "KEY_TOO_LONG",
            Self::NotAllowed => "TENANT_NOT_ALLOWED",
            Self::OtherBucket => "BUCKET_NOT_ALLOWED",
            Self::Empty => "EMPTY",
            Self::TooLarge(_) => "MAX_PAYLOAD_EXCEEDED",
        }
    }

    fn detail(self) -> String {
        match self {
            Self::Key(unknown) => unknown.to_string(),
            Self::NotAllowed => "the tenant has no grant to drop objects, or is disabled".to_owned(),
            Self::OtherBucket => "the tenant's grant does not name this bucket".to_owned(),
            Self::Empty => "the object has no bytes: its export may have failed".to_owned(),
            Self::TooLarge(limit) => format!("the object has more than {limit} bytes"),
        }
    }
}

impl DropIntake {
    /// Refuses a dropped object: writes the reason to the result file beside it, to an event and to
    /// its tags, and leaves the object where it is. If the object's key is too long or has control
    /// characters, there is no result file, and every later attempt refuses it too. A repeated call
    /// writes the same.
    pub(crate) async fn refuse(
        &self,
        source: &Source,
        version: &Version,
        refusal: Refusal,
    ) -> Result<(), IntakeError> {
        let (reason, detail) = (refusal.reason(), refusal.detail());
        if !matches!(refusal, Refusal::Key(UnknownKey::Length | UnknownKey::Control)) {
            self.write_result(source, version, &refused(source, reason, &detail)).await?;
        }
        // Before the tags: as long as they are missing, `reconcile` sends the notification again.
        self.publish(source, version, reason, &detail).await?;
        let tags = ingestion::drops::tags(source, version.modified_at, StateToTag::Refused(reason));
        let dropped = self.dropped_in(&source.bucket)?;
        dropped.tag_as(&source.key, source.version_id.as_deref(), &tags).await?;
        tracing::warn!(
            event_type = "drop.refused",
            object = source.key,
            reason,
            detail,
            "dropped object `{}` is refused: {reason}",
            source.key
        );
        let properties = [("object".to_owned(), json!(source.key)), ("reason".to_owned(), json!(reason))];
        metrics::count(self.service, &[metrics::DROPS_REFUSED], properties.into_iter().collect());
        Ok(())
    }

    /// Publishes the event that an object was refused. If no valid event can be built for it, that
    /// is only logged.
    async fn publish(
        &self,
        source: &Source,
        version: &Version,
        reason: &str,
        detail: &str,
    ) -> Result<(), IntakeError> {
        match event::of(source, version, reason, detail) {
            Ok(event) => {
                self.publisher.publish(&[event]).await.map_err(|left| IntakeError::Unpublished(left.why))
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(
                    event_type = "event.refused",
                    error,
                    "the refusal of object `{}` has no valid event and is not published: {error}",
                    source.key
                );
                Ok(())
            }
        }
    }
}
