use ingestion::payload::{AcceptedBatch, MediaType, PayloadMetadata};
use ingestion::product::CnpjAccess;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A batch with a number for its id; the greater, the newer.
fn batch(id: u128, load_type: LoadType, waits: bool) -> BatchView {
    let expires_at = "2026-11-21T10:15:00Z".parse().unwrap();
    let batch = AcceptedBatch {
        metadata: PayloadMetadata {
            batch_id: Uuid::from_u128(id),
            tenant_id: Uuid::nil(),
            load_type,
            media_type: MediaType::Json,
            idempotency_key: String::new(),
            received_at: NOW,
            checksum: None,
            trace_id: String::new(),
        },
        payload_bytes: None,
        cnpjs: CnpjAccess::Any,
        upload_expires_at: waits.then_some(expires_at),
    };
    view::of(&batch, NOW)
}

fn full(id: u128) -> BatchView {
    batch(id, LoadType::Full, false)
}

fn ids(batches: &[BatchView]) -> Vec<u128> {
    batches.iter().map(|batch| batch.batch_id.as_u128()).collect()
}

#[test]
fn an_accepted_batch_has_the_contract_s_form() {
    let json = serde_json::to_value(full(7)).unwrap();
    assert_eq!(json["status"], "RECEIVED");
    assert_eq!(json["load_type"], "full");
    assert_eq!(
        json["deactivation"],
        serde_json::json!({"state": "pending", "would_deactivate": 0, "reason": null})
    );
    assert_eq!(json["chunks"], serde_json::json!({"total": 0, "done": 0, "failed": 0, "pending": 0}));
    assert_eq!((&json["generation"], &json["error"]), (&1.into(), &serde_json::Value::Null));
}

#[test]
fn what_is_known_and_what_is_not_are_one_list() {
    let (batches, last) = merge(vec![full(5), full(3), full(1)], vec![full(6), full(4), full(3)], 4);
    assert_eq!((ids(&batches), last), (vec![6, 5, 4, 3], Some(Uuid::from_u128(3))));
    let (batches, last) = merge(vec![full(1)], vec![full(2)], 2);
    assert_eq!((ids(&batches), last), (vec![2, 1], None));
    assert_eq!(merge(Vec::new(), Vec::new(), 2), (Vec::new(), None));
}

#[test]
fn only_what_is_certainly_unknown_is_added() {
    let known = [full(8), full(6), full(4)];
    let items = || vec![full(9), full(8), batch(7, LoadType::Delta, true), full(3)];
    let none = BatchFilter::default();
    assert_eq!(ids(&not_among(&known, items(), &none, 3)), [9, 7], "3 may be known on the next page");
    assert_eq!(ids(&not_among(&known, items(), &none, 4)), [9, 7, 3], "there is no next page");
    let waiting = BatchFilter { status: Some(BatchStatus::AwaitingUpload), ..none };
    assert_eq!(ids(&not_among(&known, items(), &waiting, 3)), [7]);
    let delta = BatchFilter { load_type: Some(LoadType::Full), ..none };
    assert_eq!(ids(&not_among(&known, items(), &delta, 3)), [9]);
    assert!(!may_be_unknown(Some(BatchStatus::Completed)) && may_be_unknown(Some(BatchStatus::Expired)));
}
