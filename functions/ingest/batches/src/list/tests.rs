use ingestion::payload::{AcceptedBatch, MediaType, PayloadMetadata};
use ingestion::product::CnpjAccess;

use crate::view;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Builds a full load's batch with a number as its id; a greater number is a newer batch.
pub(crate) fn full(id: u128) -> BatchView {
    let batch = AcceptedBatch {
        metadata: PayloadMetadata {
            batch_id: Uuid::from_u128(id),
            tenant_id: Uuid::nil(),
            load_type: LoadType::Full,
            media_type: MediaType::Json,
            idempotency_key: String::new(),
            received_at: NOW,
            checksum: None,
            trace_id: String::new(),
            partial: ingestion::product::PartialPolicy::Warn,
            source: None,
        },
        payload_bytes: None,
        cnpjs: CnpjAccess::Any,
        upload_expires_at: None,
    };
    view::of(&batch, NOW)
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
    let (batches, last) = merge(vec![full(5), full(3), full(1)], vec![full(6), full(4), full(3)], None, 4);
    assert_eq!((ids(&batches), last), (vec![6, 5, 4, 3], Some(Uuid::from_u128(3))));
    let (batches, last) = merge(vec![full(1)], vec![full(2)], None, 2);
    assert_eq!((ids(&batches), last), (vec![2, 1], None));
    assert_eq!(merge(Vec::new(), Vec::new(), None, 2), (Vec::new(), None));
}

#[test]
fn a_page_ends_where_nothing_was_looked_at_any_more_and_says_where_to_look_further() {
    let to = |id| Some(Uuid::from_u128(id));
    let (batches, last) = merge(vec![full(8), full(3)], vec![full(9)], to(4), 5);
    assert_eq!((ids(&batches), last), (vec![9, 8], to(4)), "an item between 4 and 3 may be unknown");
    assert_eq!(merge(vec![full(3)], Vec::new(), to(4), 5), (Vec::new(), to(4)));
    let (batches, last) = merge(vec![full(8), full(7), full(6)], Vec::new(), to(6), 2);
    assert_eq!((ids(&batches), last), (vec![8, 7], to(7)));
}

#[test]
fn only_some_states_are_those_of_batches_that_are_not_known() {
    assert!(!may_be_unknown(Some(BatchStatus::Completed)));
    assert!(may_be_unknown(Some(BatchStatus::Expired)) && may_be_unknown(None));
}
