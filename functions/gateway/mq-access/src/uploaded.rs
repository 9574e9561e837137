//! Reads message bodies that the client uploaded to S3 for a produce, before any message is put.

use api::{Fault, Problem, Reason};
use broker::Deadline;
use mq::{Base64Bytes, BodyRef, ProduceCommand, ProduceSource};
use objects::ObjectError;
use orders::uploaded_body_key;
use sha2::{Digest as _, Sha256};

use crate::MqAccess;

/// Maximum number of bytes of all uploaded bodies of a produce together, equal to the limit for a
/// single body.
const MOST_TOGETHER: usize = 32 * 1024 * 1024;

/// Maximum number of bytes that uploaded bodies take in memory. Up to four copies exist: as read
/// from S3, in the messages, in the client library's frames, and as the broker returns them.
pub(crate) const MOST_HELD: usize = 4 * MOST_TOGETHER;

impl MqAccess {
    /// Replaces each reference to an uploaded body in the command by the bytes of that body. Fails
    /// if a body is missing, altered, or cannot be read before `deadline`, or if all together are
    /// too large.
    pub(crate) async fn with_uploaded_bodies(
        &self,
        tenant: &str,
        mut command: ProduceCommand,
        deadline: Deadline,
    ) -> Result<ProduceCommand, Problem> {
        let ProduceSource::Explicit { messages } = &mut command.source else { return Ok(command) };
        let mut left = MOST_TOGETHER;
        for (index, message) in messages.iter_mut().enumerate() {
            let Some(body) = message.body_ref.take() else { continue };
            // Boxed: few messages have one, and each order's future would have room for the call.
            let uploaded = Box::pin(self.uploaded(tenant, &body, index, left));
            let bytes = deadline.run(uploaded).await.map_err(|_| too_late())??;
            left = left.saturating_sub(bytes.len());
            message.body = Base64Bytes(bytes);
        }
        Ok(command)
    }

    /// Reads from S3 the uploaded body of the message at `index`, of at most `limit` bytes. Its
    /// digest is checked here, although S3 checked it at the upload: an object that was changed
    /// since is refused, so no attempt puts other bytes.
    async fn uploaded(
        &self,
        tenant: &str,
        body: &BodyRef,
        index: usize,
        limit: usize,
    ) -> Result<Vec<u8>, Problem> {
        let uploads = self.uploads.as_ref().ok_or_else(unavailable)?;
        let at_fault = |reason, detail: String| {
            let pointer = format!("/messages/{index}/bodyRef");
            Problem::faulty(reason, vec![Fault { pointer, detail }])
        };
        let not_there = |detail: &str| Err(at_fault(Reason::BodyNotFound, detail.to_owned()));
        let key = uploaded_body_key(tenant, body);
        let altered = || {
            tracing::error!(
                event_type = "uploads.altered",
                object = key,
                "uploaded body `{key}` was altered: its bytes do not have the digest in its name"
            );
            not_there("what was uploaded has been altered; upload it again")
        };
        match uploads.get(&key, limit).await {
            Ok(bytes) if Sha256::digest(&bytes).as_slice() == body.sha256() => Ok(bytes),
            Ok(_) => altered(),
            // No upload is larger than the limit of all together.
            Err(ObjectError::TooLarge { .. }) if limit == MOST_TOGETHER => altered(),
            Err(ObjectError::Missing { .. }) => {
                not_there("no such body was uploaded, or it has expired; upload it again")
            }
            Err(ObjectError::TooLarge { .. }) => {
                let detail =
                    format!("the uploaded bodies of a request may have {MOST_TOGETHER} bytes together");
                Err(at_fault(Reason::MaxPayloadExceeded, detail))
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(
                    event_type = "uploads.unavailable",
                    object = key,
                    error,
                    "cannot read uploaded body `{key}`: {error}"
                );
                Err(unavailable())
            }
        }
    }
}

fn unavailable() -> Problem {
    Problem::new(Reason::StoreUnavailable, "an uploaded body cannot be read now; this attempt put nothing")
}

fn too_late() -> Problem {
    let detail = "reading the uploaded bodies took all the time there was; this attempt put nothing";
    Problem::new(Reason::StoreUnavailable, detail)
}

#[cfg(test)]
mod tests {
    use mq::UploadSize;

    use super::*;

    #[test]
    fn the_largest_upload_can_be_put() {
        assert_eq!(usize::try_from(UploadSize::MAX), Ok(MOST_TOGETHER));
    }
}
