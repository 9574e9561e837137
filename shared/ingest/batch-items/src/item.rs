//! Conversion of batches to DynamoDB items, and of items to batches.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use ingestion::Cnpj;
use ingestion::batch::BatchStatus;
use ingestion::payload::{AcceptedBatch, LoadType, MediaType, PayloadMetadata, Source};
use ingestion::product::{CnpjAccess, PartialPolicy};
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use crate::{BatchItemError, Item, awaited};

/// Retention of a batch's DynamoDB item after its last write: 30 days.
pub(crate) const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// Attributes of a batch's DynamoDB item.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    tenant_id: Uuid,
    batch_id: Uuid,
    load_type: LoadType,
    media_type: MediaType,
    idempotency_key: String,
    received_at: Timestamp,
    trace_id: String,
    checksum: Option<String>,
    payload_bytes: Option<u64>,
    upload_expires_at: Option<Timestamp>,
    cnpjs: Option<BTreeSet<Cnpj>>,
    #[serde(default)]
    partial: PartialPolicy,
    /// S3 object that was dropped into a bucket, and of which the batch was made; `None` if a
    /// request created the batch.
    source: Option<Source>,
    status: BatchStatus,
    /// Partition key in the index of awaited uploads; `None` once the upload is not awaited any
    /// more.
    awaited: Option<String>,
}

impl Stored {
    /// Returns the time until which the payload may be uploaded, or copied from a dropped object;
    /// `None` once it has arrived, and if it was sent with the request.
    fn upload_expires_at(&self) -> Option<Timestamp> {
        let is_open = self.awaited.is_some() || self.status == BatchStatus::Expired;
        self.upload_expires_at.filter(|_| is_open)
    }
}

/// Builds the DynamoDB item of a batch that is written at `now`.
pub(crate) fn of(batch: &AcceptedBatch, now: Timestamp) -> Item {
    let AcceptedBatch { metadata, payload_bytes, cnpjs, upload_expires_at } = batch;
    let status =
        if upload_expires_at.is_some() { BatchStatus::AwaitingUpload } else { BatchStatus::Received };
    let always = [
        ("tenantId", text(metadata.tenant_id)),
        ("batchId", text(metadata.batch_id)),
        ("loadType", text(metadata.load_type)),
        ("mediaType", text(metadata.media_type)),
        ("idempotencyKey", text(&metadata.idempotency_key)),
        ("receivedAt", time(metadata.received_at)),
        ("traceId", text(&metadata.trace_id)),
        ("partial", text(metadata.partial)),
        ("status", text(status)),
        ("ttl", ttl(now)),
    ];
    let sometimes = [
        ("checksum", metadata.checksum.as_ref().map(text)),
        ("payloadBytes", payload_bytes.map(|bytes| AttributeValue::N(bytes.to_string()))),
        ("uploadExpiresAt", upload_expires_at.map(time)),
        ("cnpjs", set(cnpjs)),
        ("source", metadata.source.as_ref().map(map)),
    ];
    let sometimes = sometimes.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let awaited = upload_expires_at.map(|expires_at| awaited::attributes(metadata.batch_id, expires_at));
    always
        .into_iter()
        .chain(sometimes)
        .chain(awaited.into_iter().flatten())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Returns the value of the TTL attribute for an item that is written at `now`.
pub(crate) fn ttl(now: Timestamp) -> AttributeValue {
    AttributeValue::N((now + KEPT).as_second().to_string())
}

/// Returns the attribute with the establishments that the batch may load; `None` if it may load
/// any. DynamoDB has no empty sets, so an empty list stands for no establishment.
fn set(cnpjs: &CnpjAccess) -> Option<AttributeValue> {
    match cnpjs {
        CnpjAccess::Any => None,
        CnpjAccess::Only(cnpjs) if cnpjs.is_empty() => Some(AttributeValue::L(Vec::new())),
        CnpjAccess::Only(cnpjs) => Some(AttributeValue::Ss(cnpjs.iter().map(Cnpj::to_string).collect())),
    }
}

/// Returns the attribute with the dropped S3 object of which a batch was made.
fn map(source: &Source) -> AttributeValue {
    let Source { bucket, key, etag, version_id } = source;
    let version_id = version_id.as_ref().map(|id| ("version_id", id));
    let members = [("bucket", bucket), ("key", key), ("etag", etag)].into_iter().chain(version_id);
    AttributeValue::M(members.map(|(name, value)| (name.to_owned(), text(value))).collect())
}

/// Parses the DynamoDB item of an accepted batch.
pub(crate) fn read(item: Item) -> Result<AcceptedBatch, BatchItemError> {
    let stored: Stored = attempt::malformed::from_item(item).map_err(BatchItemError::unreadable)?;
    let upload_expires_at = stored.upload_expires_at();
    Ok(AcceptedBatch {
        metadata: PayloadMetadata {
            batch_id: stored.batch_id,
            tenant_id: stored.tenant_id,
            load_type: stored.load_type,
            media_type: stored.media_type,
            idempotency_key: stored.idempotency_key,
            received_at: stored.received_at,
            checksum: stored.checksum,
            trace_id: stored.trace_id,
            partial: stored.partial,
            source: stored.source,
        },
        payload_bytes: stored.payload_bytes,
        cnpjs: stored.cnpjs.map_or(CnpjAccess::Any, CnpjAccess::Only),
        upload_expires_at,
    })
}

/// Parses items, and leaves out malformed ones after logging them, so that one malformed item does
/// not hide the others.
pub(crate) fn readable<T>(
    items: Vec<Item>,
    read: impl Fn(Item) -> Result<T, BatchItemError>,
) -> impl Iterator<Item = T> {
    items.into_iter().filter_map(move |item| {
        let [tenant, batch_id] = ["tenantId", "batchId"].map(|name| key(&item, name));
        let refused = |error: &BatchItemError| {
            let error: &dyn std::error::Error = error;
            tracing::error!(
                event_type = "accepted.item_malformed",
                tenant,
                batch_id,
                error,
                "the item of batch {} is malformed and left out: {error}",
                batch_id.as_deref().unwrap_or_default()
            );
        };
        read(item).inspect_err(refused).ok()
    })
}

/// Returns a key attribute of an item for the log, cut to 36 characters: the length of the ids of
/// tenants and batches.
fn key(item: &Item, name: &str) -> Option<String> {
    Some(item.get(name)?.as_s().ok()?.chars().take(36).collect())
}

pub(crate) fn text(value: impl Display) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

/// Formats a time in ISO 8601, always with microseconds, so that times sort as text.
pub(crate) fn time(time: Timestamp) -> AttributeValue {
    AttributeValue::S(format!("{time:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> AcceptedBatch {
        AcceptedBatch {
            metadata: PayloadMetadata {
                batch_id: Uuid::from_u128(2),
                tenant_id: Uuid::from_u128(1),
                load_type: LoadType::Full,
                media_type: MediaType::NdJson,
                idempotency_key: "5c1e0a56-4a58-4aaf-9359-83ec8f663f10".to_owned(),
                received_at: "2026-11-21T10:00:00.123Z".parse().unwrap(),
                checksum: Some("ab".repeat(32)),
                trace_id: "trace-1".to_owned(),
                partial: PartialPolicy::Refuse,
                source: None,
            },
            payload_bytes: Some(14_100_000),
            cnpjs: CnpjAccess::Only(BTreeSet::from(["11222333000181".parse().unwrap()])),
            upload_expires_at: None,
        }
    }

    #[test]
    fn a_batch_survives_its_item() {
        let only_seen = AcceptedBatch {
            payload_bytes: None,
            cnpjs: CnpjAccess::Any,
            upload_expires_at: Some("2026-11-21T10:15:00Z".parse().unwrap()),
            ..batch()
        };
        let none = AcceptedBatch { cnpjs: CnpjAccess::Only(BTreeSet::new()), ..batch() };
        let source = |version_id| Source {
            bucket: "drops".to_owned(),
            key: "drop/1/full/a.json".to_owned(),
            etag: "\"ab\"".to_owned(),
            version_id,
        };
        let dropped = |version_id| AcceptedBatch {
            metadata: PayloadMetadata { source: Some(source(version_id)), ..batch().metadata },
            ..batch()
        };
        let versioned = dropped(Some("v1".to_owned()));
        for batch in [batch(), only_seen, none, dropped(None), versioned] {
            assert_eq!(read(of(&batch, Timestamp::UNIX_EPOCH)).unwrap(), batch);
        }
    }

    #[test]
    fn the_item_has_the_attributes_that_others_read() {
        let item = of(&batch(), Timestamp::UNIX_EPOCH);
        assert_eq!(item["tenantId"], text("00000000-0000-0000-0000-000000000001"));
        assert_eq!(item["status"], text("RECEIVED"));
        assert_eq!(item["receivedAt"], text("2026-11-21T10:00:00.123000Z"));
        assert_eq!(item["cnpjs"], AttributeValue::Ss(vec!["11222333000181".to_owned()]));
        assert_eq!(item["ttl"], AttributeValue::N("2592000".to_owned()));
        assert!(!item.contains_key("awaited") && !item.contains_key("awaitedUntil"));
        let upload = AcceptedBatch { upload_expires_at: Some(Timestamp::UNIX_EPOCH), ..batch() };
        let item = of(&upload, Timestamp::UNIX_EPOCH);
        assert_eq!(item["status"], text("AWAITING_UPLOAD"));
        assert_eq!((&item["awaited"], &item["awaitedUntil"]), (&text("2"), &item["uploadExpiresAt"]));
    }

    #[test]
    fn an_upload_that_arrived_can_be_put_no_more() {
        let upload = AcceptedBatch { upload_expires_at: Some(Timestamp::UNIX_EPOCH), ..batch() };
        let mut item = of(&upload, Timestamp::UNIX_EPOCH);
        item.insert("status".to_owned(), text(BatchStatus::Expired));
        item.remove("awaited");
        assert_eq!(read(item.clone()).unwrap(), upload, "it expired, and may be offered again");
        item.insert("status".to_owned(), text(BatchStatus::Received));
        let arrived = read(item).unwrap();
        assert_eq!(arrived.upload_expires_at, None);
        assert_eq!(arrived.status(Timestamp::MAX), BatchStatus::Received);
    }

    #[test]
    fn one_item_of_another_form_does_not_hide_the_others() {
        let mut junk = of(&batch(), Timestamp::UNIX_EPOCH);
        junk.remove("loadType");
        let items = vec![Item::new(), of(&batch(), Timestamp::UNIX_EPOCH), junk];
        assert_eq!(readable(items, read).collect::<Vec<_>>(), [batch()]);
    }

    #[test]
    fn an_item_of_another_form_is_an_error() {
        let mut item = of(&batch(), Timestamp::UNIX_EPOCH);
        item.insert("cnpjs".to_owned(), AttributeValue::Ss(vec!["1".to_owned()]));
        assert!(matches!(read(item), Err(BatchItemError::Unreadable(_))));
        let mut item = of(&batch(), Timestamp::UNIX_EPOCH);
        item.remove("loadType");
        assert!(matches!(read(item), Err(BatchItemError::Unreadable(_))));
    }
}
