//! Tests of attachments: S3 objects beside a stored response, which are available as long as the
//! response.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency::{AttachmentId, OperationType, Outcome, Store, StoreError};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{Asked, TestStore, prepared};

const CONSUME: OperationType = OperationType::named("CONSUME");
const SOON: Duration = Duration::from_secs(5);

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

async fn url(test: &TestStore, tenant: &str, id: &AttachmentId) -> Option<String> {
    test.store.attachment_url(CONSUME, tenant, id, SOON).await.unwrap()
}

#[tokio::test]
async fn it_can_be_had_from_the_stored_response_on_and_by_its_tenant_alone() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let execution = test.execution(&asked).await;
    let bytes = vec![7; 9_000_000];
    let id = test.store.attach(&execution, bytes.clone(), digest(&bytes), SOON).await.unwrap();
    assert_eq!(url(&test, "tenant", &id).await, None, "no response names it yet");
    test.store.prepare(&execution, &prepared("done")).await.unwrap();
    assert!(url(&test, "tenant", &id).await.is_some());
    test.store.end(&execution, &Outcome::AsPrepared).await.unwrap();
    let signed = url(&test, "tenant", &id.to_string().parse().unwrap()).await.unwrap();
    assert!(signed.contains("X-Amz-Expires=5&"), "{signed}");
    assert_eq!(url(&test, "another", &id).await, None);
    assert_eq!(
        test.objects().await,
        [format!("results/1d/CONSUME/tenant/{}.attachment", {
            let text = id.to_string();
            let mut parts = text.split('.');
            format!("{}/{}", parts.next().unwrap(), parts.next().unwrap())
        })]
    );
    test.set(&asked, "expiresAt", AttributeValue::S("2026-01-01T00:00:00.000Z".to_owned())).await;
    assert_eq!(url(&test, "tenant", &id).await, None, "it has expired");
    test.remove().await;
}

/// Checks that two attempts at a request have different attachments. The second attempt stores its
/// own after the first has outlived its lease.
#[tokio::test]
async fn attempts_do_not_replace_what_others_stored() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let first = test.execution(&asked).await;
    let one = test.store.attach(&first, b"one".to_vec(), digest(b"one"), SOON).await.unwrap();
    test.end_lease(&asked).await;
    let second = test.execution(&asked).await;
    let two = test.store.attach(&second, b"two".to_vec(), digest(b"two"), SOON).await.unwrap();
    assert_ne!(one, two);
    assert_eq!(test.objects().await.len(), 2);
    test.remove().await;
}

/// Builds two forged ids from the id of an attachment: one with the owner token of another
/// execution claimed at the same time, and one with another retention class.
fn altered(id: &AttachmentId) -> [AttachmentId; 2] {
    let text = id.to_string();
    let [key, owner, days] = text.split('.').collect::<Vec<_>>()[..] else { panic!("{text}") };
    let last = if owner.ends_with('0') { '1' } else { '0' };
    let other = format!("{}{last}", &owner[..owner.len() - 1]);
    [format!("{key}.{other}.{days}"), format!("{key}.{owner}.{days}0")].map(|text| text.parse().unwrap())
}

#[tokio::test]
async fn what_is_gone_is_an_error_as_long_as_the_record_lives() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let execution = test.execution(&asked).await;
    let id = test.store.attach(&execution, b"bytes".to_vec(), digest(b"bytes"), SOON).await.unwrap();
    test.store.prepare(&execution, &prepared(format!("/messages/bodies/{id}"))).await.unwrap();
    for altered in altered(&id) {
        assert_eq!(url(&test, "tenant", &altered).await, None, "{altered}");
    }
    let key = test.objects().await.remove(0);
    test.s3.delete_object().bucket(&test.name).key(key).send().await.unwrap();
    for altered in altered(&id) {
        assert_eq!(url(&test, "tenant", &altered).await, None, "{altered}");
    }
    let error = test.store.attachment_url(CONSUME, "tenant", &id, SOON).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
    test.remove().await;
}

#[tokio::test]
async fn without_a_bucket_nothing_can_be_attached() {
    let test = TestStore::make().await;
    let store = Store::new(test.dynamodb.clone(), test.name.clone());
    let execution = test.execution(&Asked::new(&json!({}))).await;
    let error = store.attach(&execution, vec![7], digest(&[7]), SOON).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { bytes: 1 }), "{error}");
    test.remove().await;
}
