use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::{LoadType, MediaType, Source};
use crate::product::PartialPolicy;

/// Metadata of the S3 object with a payload. They suffice to create the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadMetadata {
    /// Id of the batch, a UUID of version 7.
    pub batch_id: Uuid,
    /// Id of the tenant that the batch belongs to.
    pub tenant_id: Uuid,
    /// Load type of the batch: a delta, or a full load whose missing products become inactive.
    pub load_type: LoadType,
    /// Media type of the payload, which says how its items are framed.
    pub media_type: MediaType,
    /// Idempotency key under which the batch was accepted, in canonical spelling: that of the
    /// client, or one that was computed from the dropped object.
    pub idempotency_key: String,
    /// Time of the batch's receipt, by which batches are ordered: the first claim of the request's
    /// idempotency key.
    pub received_at: Timestamp,
    /// SHA-256 of the decoded payload, in hex; `None` for an upload, whose content was not read
    /// yet.
    pub checksum: Option<String>,
    /// Trace id of the request that created the batch.
    pub trace_id: String,
    /// Policy of the batch for items that lack members.
    pub partial: PartialPolicy,
    /// Dropped S3 object of which the payload is a copy; `None` if a request created the batch.
    pub source: Option<Source>,
}

/// Error for an S3 object whose metadata are not those of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum InvalidMetadata {
    #[error("the object's metadata has no {0}")]
    Missing(&'static str),
    #[error("the object's metadata has a malformed {0}")]
    Malformed(&'static str),
}

const BATCH_ID: &str = "batch-id";
const TENANT_ID: &str = "tenant-id";
const LOAD_TYPE: &str = "load-type";
const MEDIA_TYPE: &str = "media-type";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const RECEIVED_AT: &str = "received-at";
const CHECKSUM: &str = "content-sha256";
const TRACE_ID: &str = "trace-id";
/// Name of the metadata entry with the policy for partial items, which is absent for the default
/// policy.
const PARTIAL: &str = "partial-items";

impl PayloadMetadata {
    /// Returns the entries of the S3 object's metadata, by names without the prefix `x-amz-meta-`.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let checksum = self.checksum.as_ref().map(|checksum| (CHECKSUM, checksum.clone()));
        let always = [
            (BATCH_ID, self.batch_id.to_string()),
            (TENANT_ID, self.tenant_id.to_string()),
            (LOAD_TYPE, self.load_type.to_string()),
            (MEDIA_TYPE, self.media_type.to_string()),
            (IDEMPOTENCY_KEY, self.idempotency_key.clone()),
            (RECEIVED_AT, format!("{:.6}", self.received_at)),
            (TRACE_ID, self.trace_id.clone()),
        ];
        let is_usual = self.partial == PartialPolicy::default();
        let partial = (!is_usual).then(|| (PARTIAL, self.partial.to_string()));
        let source = self.source.iter().flat_map(Source::to_map);
        let all = always.into_iter().chain(checksum).chain(partial).chain(source);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Parses the entries of an S3 object's metadata that [`to_map`](Self::to_map) made. Other
    /// entries are ignored. `bucket` is the object's bucket.
    ///
    /// # Errors
    /// If an entry is missing or malformed.
    pub fn from_map(map: &BTreeMap<String, String>, bucket: &str) -> Result<Self, InvalidMetadata> {
        Ok(Self {
            batch_id: parsed(map, BATCH_ID)?,
            tenant_id: parsed(map, TENANT_ID)?,
            load_type: parsed(map, LOAD_TYPE)?,
            media_type: parsed(map, MEDIA_TYPE)?,
            idempotency_key: parsed(map, IDEMPOTENCY_KEY)?,
            received_at: parsed(map, RECEIVED_AT)?,
            checksum: map.get(CHECKSUM).map(|text| checksum(text)).transpose()?,
            trace_id: parsed(map, TRACE_ID)?,
            partial: if map.contains_key(PARTIAL) { parsed(map, PARTIAL)? } else { PartialPolicy::default() },
            source: Source::from_map(map, bucket)?,
        })
    }
}

fn parsed<T: std::str::FromStr>(
    map: &BTreeMap<String, String>,
    name: &'static str,
) -> Result<T, InvalidMetadata> {
    let text = map.get(name).ok_or(InvalidMetadata::Missing(name))?;
    text.parse().map_err(|_| InvalidMetadata::Malformed(name))
}

fn checksum(text: &str) -> Result<String, InvalidMetadata> {
    let is_sha256 = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_sha256.then(|| text.to_owned()).ok_or(InvalidMetadata::Malformed(CHECKSUM))
}
