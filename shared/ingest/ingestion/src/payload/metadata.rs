use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::{LoadType, MediaType, Source};
use crate::product::PartialPolicy;

/// Metadata of a payload's object, from which alone the batch can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadMetadata {
    /// Id of the batch: a UUID of version 7, made at the first claim.
    pub batch_id: Uuid,
    /// Tenant of the API key that the batch's request had.
    pub tenant_id: Uuid,
    /// Load type: the meaning of the catalogue for products that it lacks.
    pub load_type: LoadType,
    /// Format in which the payload holds its items.
    pub media_type: MediaType,
    /// Idempotency key of the client, in canonical spelling.
    pub idempotency_key: String,
    /// Time of the first claim, which orders batches.
    pub received_at: Timestamp,
    /// SHA-256 of the decoded content, in hex; `None` for an upload, whose content was not read
    /// yet.
    pub checksum: Option<String>,
    /// Trace id of the request that created the batch.
    pub trace_id: String,
    /// Policy for items that lack members.
    pub partial: PartialPolicy,
    /// Dropped object of which the payload is a copy; `None` if it came by a request.
    pub source: Option<Source>,
}

/// Error of an object that is not a payload of this system.
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
/// Name of the policy for partial items, absent if it is the usual one.
const PARTIAL: &str = "partial-items";

impl PayloadMetadata {
    /// Returns the metadata in the form of an object's, by names without the prefix `x-amz-meta-`.
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

    /// Reads the metadata that [`to_map`](Self::to_map) made from an object in `bucket`; other
    /// names are ignored.
    ///
    /// # Errors
    /// If a name is missing, or its value is malformed.
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
