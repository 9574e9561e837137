//! Stores the body of a consumed message in S3 if the message is too large for a response. The
//! response then has the URL of the body.

use std::time::Duration;

use api::{Problem, Reason};
use broker::Deadline;
use idempotency::Execution;
use mq::{Consumed, OversizedBodies, StoredBody};
use orders::stored_body_url;
use sha2::{Digest as _, Sha256};

use crate::MqAccess;
use crate::consume::{MAX_CARRIED, unstored};

/// Maximum size in bytes of a body that is stored in S3: 100 MB, the maximum of IBM MQ. The
/// function holds such a body in memory twice.
pub(crate) const LARGEST_BODY: usize = 100 * 1024 * 1024;

/// Part of the time limit for storing a body in S3 that does not depend on the body's size.
/// [`time_to_store`] adds a second for each `BYTES_PER_SECOND`.
const TO_STORE: Duration = Duration::from_millis(2_600);
const BYTES_PER_SECOND: usize = 8 * 1024 * 1024;

impl MqAccess {
    /// Stores the body of a consumed message in S3 if the message is too large for a response;
    /// otherwise returns `None`. Must be called before the message is removed from its queue.
    pub(crate) async fn stored_body(
        &self,
        execution: &Execution,
        consumed: &Consumed,
        large: OversizedBodies,
        deadline: Deadline,
    ) -> Result<Option<StoredBody>, Problem> {
        let (OversizedBodies::Store, [message]) = (large, consumed.messages.as_slice()) else {
            return Ok(None);
        };
        if message.carried_size() <= MAX_CARRIED {
            return Ok(None);
        }
        let body = &message.body.0;
        let sha256: [u8; 32] = Sha256::digest(body).into();
        let mut stored = StoredBody {
            url: String::new(),
            size: u64::try_from(body.len()).unwrap_or(u64::MAX),
            sha256: hex::encode(sha256),
        };
        if message.with_stored_body(&stored).carried_size() > MAX_CARRIED - LONGEST_URL {
            let detail = "the first message of the queue has properties that exceed what an answer can carry";
            return Err(Problem::new(Reason::MessageTooLarge, detail));
        }
        let time = deadline.remaining().min(time_to_store(body.len()));
        let attached = self.store.attach(execution, body.clone(), sha256, time).await;
        stored.url = stored_body_url(&attached.map_err(|error| unstored(&error))?);
        Ok(Some(stored))
    }
}

/// Upper bound in bytes of the URL path of a stored body.
const LONGEST_URL: usize = 200;

fn time_to_store(bytes: usize) -> Duration {
    let seconds = u64::try_from(bytes / BYTES_PER_SECOND).unwrap_or(u64::MAX);
    TO_STORE.saturating_add(Duration::from_secs(seconds))
}
