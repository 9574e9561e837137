use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use super::PayloadMetadata;
use crate::chunk::Generation;

/// Builds a batch's id: a UUID of version 7 (RFC 9562). Its time is that of the batch's receipt
/// (for a request, of the first claim on its idempotency key). Its other bits are a SHA-256 of the
/// tenant, the client's idempotency key, the request's fingerprint and that time. All attempts of
/// one request give the same id, and no other request does.
#[must_use]
pub fn batch_id(tenant_id: Uuid, idempotency_key: &str, fingerprint: &str, received_at: Timestamp) -> Uuid {
    let milliseconds = u64::try_from(received_at.as_millisecond()).unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update(b"integrahub.batch");
    hash.update(tenant_id.as_bytes());
    for text in [idempotency_key, fingerprint] {
        hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.update(milliseconds.to_be_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    let random = hash.first_chunk().copied().unwrap_or_default();
    Builder::from_unix_timestamp_millis(milliseconds, &random).into_uuid()
}

/// Returns the S3 key of a chunk's object: `chunks/<batch id>/<generation>/<index>`. The index has
/// at least six digits.
#[must_use]
pub fn chunk_key(batch_id: Uuid, generation: Generation, index: u32) -> String {
    format!("{}{}/{index:06}", chunk_prefix(batch_id), generation.number())
}

/// Returns the prefix of the S3 keys of a batch's chunks, of all generations.
#[must_use]
pub fn chunk_prefix(batch_id: Uuid) -> String {
    format!("chunks/{batch_id}/")
}

/// Returns the S3 key of the file with the items in error that the chunker found in this generation
/// of the batch.
#[must_use]
pub fn errors_key(batch_id: Uuid, generation: Generation) -> String {
    format!("{}{}/errors.ndjson.gz", errors_prefix(batch_id), generation.number())
}

/// Returns the prefix of the S3 keys of a batch's files with items in error, of all generations.
#[must_use]
pub fn errors_prefix(batch_id: Uuid) -> String {
    format!("errors/{batch_id}/")
}

/// Returns the generation in whose folder the S3 object `key` is, if the object is the batch's
/// chunk with this index; `None` if it is any other object.
#[must_use]
pub fn generation_of_chunk(key: &str, batch_id: Uuid, index: u32) -> Option<Generation> {
    let (generation, _) = key.strip_prefix(&chunk_prefix(batch_id))?.split_once('/')?;
    let generation = Generation::try_from(generation.parse::<u32>().ok()?).ok()?;
    (chunk_key(batch_id, generation, index) == key).then_some(generation)
}

/// Returns the S3 key of a payload's object: `incoming/yyyy/mm/dd/hh/<batch id>`, by the hour (UTC)
/// of its receipt.
#[must_use]
pub fn payload_key(received_at: Timestamp, batch_id: Uuid) -> String {
    format!("{}{batch_id}", payload_prefix(received_at))
}

/// Returns the S3 key of a batch's payload, by the time in the batch's id; `None` if the id
/// contains no time.
#[must_use]
pub fn payload_key_of(batch_id: Uuid) -> Option<String> {
    let (seconds, _) = batch_id.get_timestamp()?.to_unix();
    let received_at = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(payload_key(received_at, batch_id))
}

/// Returns the prefix of the S3 keys of all payloads received in the same hour (UTC) as `hour`.
#[must_use]
pub fn payload_prefix(hour: Timestamp) -> String {
    format!("incoming/{}/", hour.strftime("%Y/%m/%d/%H"))
}

/// Returns the id of the batch whose payload has this S3 key; `None` if it is not a payload's key.
#[must_use]
pub fn batch_of_payload(key: &str) -> Option<Uuid> {
    let (_, name) = key.strip_prefix("incoming/")?.rsplit_once('/')?;
    let batch_id = Uuid::try_parse(name).ok()?;
    // The id must have its canonical spelling, and be in the folder of its hour.
    (payload_key_of(batch_id).as_deref() == Some(key)).then_some(batch_id)
}

impl PayloadMetadata {
    /// Returns the S3 key of the payload's object, by [`payload_key`].
    #[must_use]
    pub fn key(&self) -> String {
        payload_key(self.received_at, self.batch_id)
    }
}
