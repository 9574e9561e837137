//! What is stored beside a response can be had as long as the response.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency::{AttachmentId, OperationType, Outcome, Store, StoreError};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{Asked, Place, prepared};

const CONSUME: OperationType = OperationType::named("CONSUME");
const SOON: Duration = Duration::from_secs(5);

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

async fn url(place: &Place, tenant: &str, id: &AttachmentId) -> Option<String> {
    place.store.attachment_url(CONSUME, tenant, id, SOON).await.unwrap()
}

#[tokio::test]
async fn it_can_be_had_from_the_stored_response_on_and_by_its_tenant_alone() {
    let place = Place::make().await;
    let asked = Asked::new(&json!({}));
    let execution = place.execution(&asked).await;
    let bytes = vec![7; 9_000_000];
    let id = place.store.attach(&execution, bytes.clone(), digest(&bytes), SOON).await.unwrap();
    assert_eq!(url(&place, "tenant", &id).await, None, "no response names it yet");
    place.store.prepare(&execution, &prepared("done")).await.unwrap();
    assert!(url(&place, "tenant", &id).await.is_some());
    place.store.end(&execution, &Outcome::AsPrepared).await.unwrap();
    let signed = url(&place, "tenant", &id.to_string().parse().unwrap()).await.unwrap();
    assert!(signed.contains("X-Amz-Expires=5&"), "{signed}");
    assert_eq!(url(&place, "another", &id).await, None);
    assert_eq!(
        place.objects().await,
        [format!("results/1d/CONSUME/tenant/{}.attachment", {
            let text = id.to_string();
            let mut parts = text.split('.');
            format!("{}/{}", parts.next().unwrap(), parts.next().unwrap())
        })]
    );
    place.set(&asked, "expiresAt", AttributeValue::S("2026-01-01T00:00:00.000Z".to_owned())).await;
    assert_eq!(url(&place, "tenant", &id).await, None, "it has expired");
    place.remove().await;
}

/// The first attempt stored something and ended; the second one answered.
#[tokio::test]
async fn attempts_do_not_replace_what_others_stored() {
    let place = Place::make().await;
    let asked = Asked::new(&json!({}));
    let first = place.execution(&asked).await;
    let one = place.store.attach(&first, b"one".to_vec(), digest(b"one"), SOON).await.unwrap();
    place.end_lease(&asked).await;
    let second = place.execution(&asked).await;
    let two = place.store.attach(&second, b"two".to_vec(), digest(b"two"), SOON).await.unwrap();
    assert_ne!(one, two);
    assert_eq!(place.objects().await.len(), 2);
    place.remove().await;
}

/// Makes ids of the same record that were never issued: one of another execution, claimed at the
/// same time, and one of another life.
fn altered(id: &AttachmentId) -> [AttachmentId; 2] {
    let text = id.to_string();
    let [key, owner, days] = text.split('.').collect::<Vec<_>>()[..] else { panic!("{text}") };
    let last = if owner.ends_with('0') { '1' } else { '0' };
    let other = format!("{}{last}", &owner[..owner.len() - 1]);
    [format!("{key}.{other}.{days}"), format!("{key}.{owner}.{days}0")].map(|text| text.parse().unwrap())
}

#[tokio::test]
async fn what_is_gone_is_an_error_as_long_as_the_record_lives() {
    let place = Place::make().await;
    let asked = Asked::new(&json!({}));
    let execution = place.execution(&asked).await;
    let id = place.store.attach(&execution, b"bytes".to_vec(), digest(b"bytes"), SOON).await.unwrap();
    place.store.prepare(&execution, &prepared(format!("/messages/bodies/{id}"))).await.unwrap();
    for altered in altered(&id) {
        assert_eq!(url(&place, "tenant", &altered).await, None, "{altered}");
    }
    let key = place.objects().await.remove(0);
    place.s3.delete_object().bucket(&place.name).key(key).send().await.unwrap();
    for altered in altered(&id) {
        assert_eq!(url(&place, "tenant", &altered).await, None, "{altered}");
    }
    let error = place.store.attachment_url(CONSUME, "tenant", &id, SOON).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
    place.remove().await;
}

#[tokio::test]
async fn without_a_bucket_nothing_can_be_attached() {
    let place = Place::make().await;
    let store = Store::new(place.dynamodb.clone(), place.name.clone());
    let execution = place.execution(&Asked::new(&json!({}))).await;
    let error = store.attach(&execution, vec![7], digest(&[7]), SOON).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { bytes: 1 }), "{error}");
    place.remove().await;
}
