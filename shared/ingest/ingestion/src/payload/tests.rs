use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::batch::BatchStatus;
use crate::chunk::Generation;
use crate::product::{CnpjAccess, PartialPolicy};

const TENANT: Uuid = Uuid::from_u128(0x1111_1111_1111_4111_8111_1111_1111_1111);
const KEY: &str = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn metadata() -> PayloadMetadata {
    let received_at = at("2026-11-21T23:59:59.123Z");
    PayloadMetadata {
        batch_id: batch_id(TENANT, KEY, "fingerprint", received_at),
        tenant_id: TENANT,
        load_type: LoadType::Full,
        media_type: MediaType::NdJson,
        idempotency_key: KEY.to_owned(),
        received_at,
        checksum: Some("ab".repeat(32)),
        trace_id: "trace-1".to_owned(),
        partial: crate::product::PartialPolicy::Warn,
        source: None,
    }
}

#[test]
fn a_batch_id_is_a_uuid_of_its_time_and_request() {
    let id = metadata().batch_id;
    assert_eq!(id.to_string(), "01a2008d-7093-7e7e-9faa-a8c36b85831c");
    let time = metadata().received_at;
    for other in [
        batch_id(Uuid::nil(), KEY, "fingerprint", time),
        batch_id(TENANT, "key", "fingerprint", time),
        batch_id(TENANT, KEY, "other", time),
        batch_id(TENANT, &format!("{KEY}f"), "ingerprint", time),
        batch_id(TENANT, KEY, "fingerprint", at("2026-11-21T23:59:59.124Z")),
    ] {
        assert_eq!(other.get_version_num(), 7);
        assert_ne!(other, id);
    }
    assert!(batch_id(TENANT, KEY, "a", at("2026-11-21T23:59:59.124Z")) > id, "ids sort by time");
}

#[test]
fn objects_lie_by_the_hour_and_chunks_by_their_generation() {
    let metadata = metadata();
    let id = metadata.batch_id;
    assert_eq!(metadata.key(), format!("incoming/2026/11/21/23/{id}"));
    assert_eq!(chunk_key(id, Generation::FIRST.next(), 17), format!("chunks/{id}/2/000017"));
}

#[test]
fn a_chunk_s_object_tells_its_generation_and_no_other_object_does() {
    let id = metadata().batch_id;
    let second = Generation::FIRST.next();
    assert_eq!(generation_of_chunk(&chunk_key(id, second, 17), id, 17), Some(second));
    for other in [
        chunk_key(id, second, 18),
        chunk_key(Uuid::nil(), second, 17),
        format!("chunks/{id}/02/000017"),
        format!("chunks/{id}/+2/000017"),
        format!("chunks/{id}/0/000017"),
        format!("chunks/{id}/000017"),
        metadata().key(),
        String::new(),
    ] {
        assert_eq!(generation_of_chunk(&other, id, 17), None, "{other}");
    }
}

#[test]
fn metadata_has_the_names_that_objects_carry() {
    let map = metadata().to_map();
    let names: Vec<_> = map.keys().map(String::as_str).collect();
    let expected = [
        "batch-id",
        "content-sha256",
        "idempotency-key",
        "load-type",
        "media-type",
        "received-at",
        "tenant-id",
        "trace-id",
    ];
    assert_eq!(names, expected);
    assert_eq!(map["received-at"], "2026-11-21T23:59:59.123000Z");
    assert_eq!(map["load-type"], "full");
    assert_eq!(map["media-type"], "application/x-ndjson");
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    let whole = metadata().to_map();
    for name in
        ["batch-id", "tenant-id", "load-type", "media-type", "idempotency-key", "received-at", "trace-id"]
    {
        let mut map = whole.clone();
        map.remove(name);
        assert_eq!(PayloadMetadata::from_map(&map, "payloads"), Err(InvalidMetadata::Missing(name)));
    }
    for name in ["batch-id", "tenant-id", "load-type", "media-type", "received-at", "content-sha256"] {
        let mut map = whole.clone();
        map.insert(name.to_owned(), "something".to_owned());
        assert_eq!(PayloadMetadata::from_map(&map, "payloads"), Err(InvalidMetadata::Malformed(name)));
    }
}

#[test]
fn types_are_read_as_they_are_written() {
    for load_type in [LoadType::Delta, LoadType::Full] {
        assert_eq!(load_type.as_str().parse(), Ok(load_type));
        assert_eq!(serde_json::to_value(load_type).unwrap(), load_type.as_str());
    }
    for media_type in [MediaType::Json, MediaType::NdJson] {
        assert_eq!(media_type.as_str().parse(), Ok(media_type));
        assert_eq!(serde_json::to_value(media_type).unwrap(), media_type.as_str());
    }
    let unknown = "Full".parse::<LoadType>().unwrap_err();
    assert_eq!(unknown.to_string(), "must be delta or full");
    let unknown = "processing".parse::<BatchStatus>().unwrap_err().to_string();
    assert!(unknown.starts_with("must be one of AWAITING_UPLOAD, RECEIVED, "), "{unknown}");
}

#[test]
fn an_upload_waits_until_its_time_is_over() {
    let expires_at = at("2026-11-22T00:15:00Z");
    let batch = |upload_expires_at| AcceptedBatch {
        metadata: metadata(),
        payload_bytes: None,
        cnpjs: CnpjAccess::Any,
        upload_expires_at,
    };
    assert_eq!(batch(None).status(expires_at), BatchStatus::Received);
    assert_eq!(batch(Some(expires_at)).status(at("2026-11-22T00:14:59Z")), BatchStatus::AwaitingUpload);
    assert_eq!(batch(Some(expires_at)).status(expires_at), BatchStatus::Expired);
}

#[test]
fn a_payload_s_key_tells_its_batch_and_its_hour() {
    let metadata = metadata();
    let key = metadata.key();
    assert_eq!(key, payload_key(metadata.received_at, metadata.batch_id));
    assert!(key.starts_with(&payload_prefix(metadata.received_at)));
    assert_eq!(batch_of_payload(&key), Some(metadata.batch_id));
    assert_eq!(payload_key_of(metadata.batch_id), Some(key.clone()));
    assert_eq!(payload_key_of(Uuid::nil()), None);
    let upper = key.rsplit_once('/').map(|(folder, id)| format!("{folder}/{}", id.to_uppercase()));
    for other in [
        "",
        "incoming/",
        "incoming/2026/11/21/23/x",
        "chunks/019aa8ec-98d3-7e83-98f2-17f2d7e0e6d7/1/000000",
        &upper.unwrap(),
        &format!("incoming/x/{}", metadata.batch_id),
        &format!("incoming/2020/01/01/00/{}", metadata.batch_id),
    ] {
        assert_eq!(batch_of_payload(other), None, "{other}");
    }
}

proptest! {
    #[test]
    fn metadata_survives_its_object(
        batch: u128, tenant: u128, full: bool, lines: bool, micros in 0_i64..4_000_000_000_000_000,
        checksum in prop::option::of("[0-9a-f]{64}"), trace_id in "[!-~]{1,128}",
        is_dropped: bool, refuses: bool, name in "\\PC{0,60}",
    ) {
        let metadata = PayloadMetadata {
            batch_id: Uuid::from_u128(batch),
            tenant_id: Uuid::from_u128(tenant),
            load_type: if full { LoadType::Full } else { LoadType::Delta },
            media_type: if lines { MediaType::NdJson } else { MediaType::Json },
            partial: if refuses { PartialPolicy::Refuse } else { PartialPolicy::Warn },
            idempotency_key: KEY.to_owned(),
            received_at: Timestamp::from_microsecond(micros).unwrap(),
            checksum,
            trace_id,
            source: is_dropped.then(|| Source {
                bucket: "drops".to_owned(),
                key: format!("drop/{name}"),
                etag: "\"ab\"".to_owned(),
                version_id: None,
            }),
        };
        prop_assert_eq!(PayloadMetadata::from_map(&metadata.to_map(), "payloads"), Ok(metadata));
    }

    #[test]
    fn foreign_metadata_is_an_error_and_no_panic(map in prop::collection::btree_map("[a-z-]{1,16}", "\\PC{0,20}", 0..8)) {
        let map: BTreeMap<String, String> = map;
        prop_assert!(PayloadMetadata::from_map(&map, "payloads").is_err());
    }
}
