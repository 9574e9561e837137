//! Responses of any size.

use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::primitives::ByteStream;
use idempotency::{AuditEvent, Outcome, Prepared, Store, StoreError, WriteOutcome};
use serde_json::json;

use crate::support::{Asked, Place, prepared, response};

/// Text that does not compress to less than half.
fn noise(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 32);
    let mut seed = 7_u64;
    while text.len() < bytes {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let _ = write!(text, "{seed:016x}");
    }
    text.truncate(bytes);
    text
}

async fn done(place: &Place, asked: &Asked, prepared: &Prepared) {
    let execution = place.execution(asked).await;
    place.store.prepare(&execution, prepared).await.unwrap();
    place.store.end(&execution, &Outcome::AsPrepared).await.unwrap();
}

#[tokio::test]
async fn every_size_is_replayed_byte_for_byte() {
    let place = Place::make().await;
    for (bytes, attribute) in [
        (0, "responsePayload"),
        (6_000, "responsePayload"),
        (100_000, "responseLocation"),
        (5_900_000, "responseLocation"),
    ] {
        let asked = Asked::new(&json!({ "bytes": bytes }));
        let sent = prepared(noise(bytes));
        done(&place, &asked, &sent).await;
        assert!(place.replayed(&asked).await == *sent.response(), "{bytes} bytes came back otherwise");
        assert!(place.attribute(&asked, attribute).await.is_some(), "{bytes} bytes");
        let digest = place.attribute(&asked, "responseDigest").await;
        assert_eq!(digest, Some(AttributeValue::S(sent.response().content_digest())));
    }
    let objects = place.objects().await;
    assert!(objects.iter().all(|key| key.starts_with("results/1d/CONSUME/tenant/")), "{objects:?}");
    assert_eq!(objects.len(), 2);
    place.remove().await;
}

#[tokio::test]
async fn a_response_that_is_gone_or_altered_is_an_error_and_never_a_second_execution() {
    let place = Place::make().await;
    let asked = Asked::new(&json!({}));
    done(&place, &asked, &prepared(noise(1_000_000))).await;
    let key = place.objects().await.remove(0);
    let put = place.s3.put_object().bucket(&place.name).key(&key);
    put.body(ByteStream::from_static(b"something else")).send().await.unwrap();
    for _ in 0..2 {
        let error = place.store.claim(&asked.request()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
        place.s3.delete_object().bucket(&place.name).key(&key).send().await.unwrap();
    }
    assert_eq!(place.heard(), [AuditEvent::Claimed, AuditEvent::Unreadable, AuditEvent::Unreadable]);
    place.remove().await;
}

#[tokio::test]
async fn a_record_of_another_form_is_an_error_that_is_counted() {
    let place = Place::make().await;
    let asked = Asked::new(&json!({}));
    done(&place, &asked, &prepared("done")).await;
    place.set(&asked, "attempt", AttributeValue::S("hunter2".to_owned())).await;
    let error = place.store.claim(&asked.request()).await.unwrap_err();
    let StoreError::Unreadable(cause) = error else { panic!("{error}") };
    assert_eq!(cause.to_string(), "/attempt: the value has the wrong type");
    assert_eq!(place.heard(), [AuditEvent::Claimed, AuditEvent::Unreadable]);
    place.remove().await;
}

#[tokio::test]
async fn without_a_bucket_what_no_record_can_hold_is_refused_before_anything_is_stored() {
    let place = Place::make().await;
    let store = Store::new(place.dynamodb.clone(), place.name.clone());
    let asked = Asked::new(&json!({}));
    let execution = place.execution(&asked).await;
    let error = store.prepare(&execution, &prepared(noise(1_000_000))).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { bytes: 1_000_000.. }), "{error}");
    let status = place.attribute(&asked, "status").await;
    assert_eq!(status, Some(AttributeValue::S("IN_PROGRESS".to_owned())));
    place.remove().await;
}

/// However well it compresses: what inflates to more is taken for altered when it is read, so
/// storing it would lose it.
#[tokio::test]
async fn a_response_that_could_not_be_read_again_is_not_stored() {
    let place = Place::make().await;
    let asked = Asked::new(&json!({}));
    let execution = place.execution(&asked).await;
    let most = 8 * 1024 * 1024;
    let too_large = Outcome::Completed(response("a".repeat(most + 1)));
    let error = place.store.end(&execution, &too_large).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { bytes } if bytes == most + 1), "{error}");
    let done = Outcome::Completed(response("a".repeat(most)));
    assert_eq!(place.store.end(&execution, &done).await.unwrap(), WriteOutcome::Applied);
    assert_eq!(place.replayed(&asked).await.body.len(), most);
    place.remove().await;
}
