//! Tests of stored responses, from small to too large.

use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::primitives::ByteStream;
use idempotency::{AuditEvent, Outcome, Prepared, Store, StoreError, WriteOutcome};
use serde_json::json;

use crate::support::{Asked, TestStore, prepared, response};

/// Generates text that gzip cannot compress to less than half of its length.
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

async fn done(test: &TestStore, asked: &Asked, prepared: &Prepared) {
    let execution = test.execution(asked).await;
    test.store.prepare(&execution, prepared).await.unwrap();
    test.store.end(&execution, &Outcome::AsPrepared).await.unwrap();
}

#[tokio::test]
async fn every_size_is_replayed_byte_for_byte() {
    let test = TestStore::make().await;
    for (bytes, attribute) in [
        (0, "responsePayload"),
        (6_000, "responsePayload"),
        (100_000, "responseLocation"),
        (5_900_000, "responseLocation"),
    ] {
        let asked = Asked::new(&json!({ "bytes": bytes }));
        let sent = prepared(noise(bytes));
        done(&test, &asked, &sent).await;
        assert!(test.replayed(&asked).await == *sent.response(), "{bytes} bytes came back otherwise");
        assert!(test.attribute(&asked, attribute).await.is_some(), "{bytes} bytes");
        let digest = test.attribute(&asked, "responseDigest").await;
        assert_eq!(digest, Some(AttributeValue::S(sent.response().content_digest())));
    }
    let objects = test.objects().await;
    assert!(objects.iter().all(|key| key.starts_with("results/1d/CONSUME/tenant/")), "{objects:?}");
    assert_eq!(objects.len(), 2);
    test.remove().await;
}

#[tokio::test]
async fn a_response_that_is_gone_or_altered_is_an_error_and_never_a_second_execution() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    done(&test, &asked, &prepared(noise(1_000_000))).await;
    let key = test.objects().await.remove(0);
    let put = test.s3.put_object().bucket(&test.name).key(&key);
    put.body(ByteStream::from_static(b"something else")).send().await.unwrap();
    for _ in 0..2 {
        let error = test.store.claim(&asked.request()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
        test.s3.delete_object().bucket(&test.name).key(&key).send().await.unwrap();
    }
    assert_eq!(test.heard(), [AuditEvent::Claimed, AuditEvent::Unreadable, AuditEvent::Unreadable]);
    test.remove().await;
}

#[tokio::test]
async fn a_record_of_another_form_is_an_error_that_is_counted() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    done(&test, &asked, &prepared("done")).await;
    test.set(&asked, "attempt", AttributeValue::S("hunter2".to_owned())).await;
    let error = test.store.claim(&asked.request()).await.unwrap_err();
    let StoreError::Unreadable(cause) = error else { panic!("{error}") };
    assert_eq!(cause.to_string(), "/attempt: the value has the wrong type");
    assert_eq!(test.heard(), [AuditEvent::Claimed, AuditEvent::Unreadable]);
    test.remove().await;
}

#[tokio::test]
async fn without_a_bucket_what_no_record_can_hold_is_refused_before_anything_is_stored() {
    let test = TestStore::make().await;
    let store = Store::new(test.dynamodb.clone(), test.name.clone());
    let asked = Asked::new(&json!({}));
    let execution = test.execution(&asked).await;
    let error = store.prepare(&execution, &prepared(noise(1_000_000))).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { bytes: 1_000_000.. }), "{error}");
    let status = test.attribute(&asked, "status").await;
    assert_eq!(status, Some(AttributeValue::S("IN_PROGRESS".to_owned())));
    test.remove().await;
}

/// Checks that the uncompressed length of a body is limited, even if it compresses well. A longer
/// body would be refused as altered when it is read, and so be lost.
#[tokio::test]
async fn a_response_that_could_not_be_read_again_is_not_stored() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let execution = test.execution(&asked).await;
    let most = 8 * 1024 * 1024;
    let too_large = Outcome::Completed(response("a".repeat(most + 1)));
    let error = test.store.end(&execution, &too_large).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { bytes } if bytes == most + 1), "{error}");
    let done = Outcome::Completed(response("a".repeat(most)));
    assert_eq!(test.store.end(&execution, &done).await.unwrap(), WriteOutcome::Applied);
    assert_eq!(test.replayed(&asked).await.body.len(), most);
    test.remove().await;
}
