//! Tests that S3's notifications are passed on in the message groups of their tenants.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails where it finds itself wrong"
)]

use std::time::{Duration, SystemTime};

use dispatch::Dispatch;
use ingestion::payload::{LoadType, MediaType, PayloadMetadata};
use ingestion::product::PartialPolicy;
use objects::Objects;
use runtime::Sdk;
use serde_json::{Value, json};
use test_support::http_server::{Server, response};
use test_support::sqs::{Call, FakeSqs};
use transport::NotificationQueue;
use uuid::Uuid;
use worker::Visibility;

const TENANT: Uuid = Uuid::from_u128(0x2222_2222_2222_4222_8222_2222_2222_2222);
/// Id of the tenant in the S3 key of the dropped file.
const OF_FILE: &str = "11111111-1111-4111-8111-111111111111";

struct Stand {
    /// Fake S3 that gives every request one response: a payload of [`TENANT`], or the response that
    /// a test needs.
    s3: Server,
    batches: FakeSqs,
    drops: FakeSqs,
    own: FakeSqs,
}

impl Stand {
    async fn of(status: u16, metadata: Vec<(String, String)>) -> Self {
        let s3 = Server::start(move |_| {
            let mut answer = response(status, "");
            for (name, value) in &metadata {
                let name = http::HeaderName::try_from(format!("x-amz-meta-{name}")).unwrap();
                answer.headers_mut().insert(name, value.parse().unwrap());
            }
            async move { Some(answer) }
        });
        Self {
            s3: s3.await,
            batches: FakeSqs::accepting().await,
            drops: FakeSqs::accepting().await,
            own: FakeSqs::accepting().await,
        }
    }

    async fn with_payloads() -> Self {
        let metadata = PayloadMetadata {
            batch_id: Uuid::from_u128(7),
            tenant_id: TENANT,
            load_type: LoadType::Full,
            media_type: MediaType::Json,
            idempotency_key: "a key".to_owned(),
            received_at: "2026-11-21T10:00:00.195Z".parse().unwrap(),
            checksum: None,
            trace_id: "trace-1".to_owned(),
            partial: PartialPolicy::Warn,
            source: None,
        };
        Self::of(200, metadata.to_map().into_iter().collect()).await
    }

    async fn handle(&self, sample: &str) -> Vec<String> {
        self.handle_event(event(sample)).await
    }

    async fn handle_event(&self, event: Value) -> Vec<String> {
        let sdk = async |endpoint: &str| Sdk::at(endpoint, "us-east-1", "key", "secret").await;
        let queue = async |sqs: &FakeSqs| aws_sdk_sqs::Client::new(sdk(&sqs.endpoint()).await.standard());
        let s3 =
            aws_sdk_s3::config::Builder::from(sdk(&self.s3.url()).await.standard()).force_path_style(true);
        let dispatch = Dispatch {
            objects: Objects::new(aws_sdk_s3::Client::from_conf(s3.build()), "payloads".to_owned()),
            payloads: NotificationQueue::new(queue(&self.batches).await, self.batches.queue_url()),
            drops: NotificationQueue::new(queue(&self.drops).await, self.drops.queue_url()),
            visibility: Visibility::new(queue(&self.own).await, self.own.queue_url(), Duration::from_secs(1)),
        };
        let ends_at = SystemTime::now() + Duration::from_secs(30);
        let response = worker::serve(&dispatch, event, ends_at).await.unwrap();
        response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect()
    }
}

fn event(sample: &str) -> Value {
    let path = format!("{}/../../../events/ingest/dispatch/{sample}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns the message group and the body of each message sent to a queue.
async fn sent(sqs: &FakeSqs) -> Vec<(Value, Value)> {
    let of = |Call { body, .. }: Call| (body["MessageGroupId"].clone(), body["MessageBody"].clone());
    sqs.calls().await.into_iter().map(of).collect()
}

#[tokio::test]
async fn a_payload_and_a_file_go_to_their_queues_as_they_came_each_in_its_tenant_s_group() {
    let stand = Stand::with_payloads().await;
    assert!(stand.handle("two-messages").await.is_empty());
    let records = &event("two-messages")["Records"];
    assert_eq!(sent(&stand.batches).await, [(json!(TENANT), records[0]["body"].clone())]);
    assert_eq!(sent(&stand.drops).await, [(json!(OF_FILE), records[1]["body"].clone())]);
}

#[tokio::test]
async fn what_lies_in_another_bucket_is_never_a_payload() {
    let stand = Stand::with_payloads().await;
    let mut elsewhere = event("payload");
    let body = elsewhere["Records"][0]["body"].as_str().unwrap();
    let body = body.replace(r#"{"name":"payloads""#, r#"{"name":"partner-files""#);
    elsewhere["Records"][0]["body"] = json!(body);
    assert!(stand.handle_event(elsewhere).await.is_empty());
    assert_eq!(sent(&stand.drops).await, [(Value::Null, json!(body))]);
    assert_eq!(sent(&stand.batches).await, []);
}

#[tokio::test]
async fn an_object_that_is_gone_or_no_payload_goes_without_a_group() {
    for (status, metadata) in [(404, Vec::new()), (200, vec![("a".to_owned(), "b".to_owned())])] {
        let stand = Stand::of(status, metadata).await;
        assert!(stand.handle("payload").await.is_empty());
        assert_eq!(
            sent(&stand.batches).await,
            [(Value::Null, event("payload")["Records"][0]["body"].clone())]
        );
    }
}

#[tokio::test]
async fn a_message_is_tried_again_where_s3_does_not_answer_and_no_other_is() {
    let stand = Stand::of(503, Vec::new()).await;
    let records = &event("two-messages")["Records"];
    assert_eq!(stand.handle("two-messages").await, [records[0]["messageId"].as_str().unwrap()]);
    assert_eq!(sent(&stand.batches).await, []);
    assert_eq!(sent(&stand.drops).await.len(), 1);
    assert_eq!(stand.own.calls().await.len(), 1, "its visibility timeout");
}

#[tokio::test]
async fn a_test_event_is_acknowledged() {
    let stand = Stand::with_payloads().await;
    assert!(stand.handle("test-event").await.is_empty());
    assert_eq!(sent(&stand.batches).await, []);
}

/// Checks that a malformed message goes to the queue of payloads, whose function fails it and moves
/// it to the unhandled queue with a reason. This function's own queue would retry it a thousand
/// times.
#[tokio::test]
async fn what_is_no_notification_is_passed_on_and_not_tried_again() {
    let stand = Stand::with_payloads().await;
    let mut unnamed = event("malformed");
    unnamed["Records"][0]["body"] = json!(r#"{"Records":[{"eventName":"ObjectCreated:Put","s3":{}}]}"#);
    for message in [event("malformed"), unnamed] {
        let body = message["Records"][0]["body"].clone();
        assert!(stand.handle_event(message).await.is_empty());
        assert_eq!(sent(&stand.batches).await.pop(), Some((Value::Null, body)));
    }
    assert_eq!((sent(&stand.drops).await, stand.own.calls().await.len()), (Vec::new(), 0));
}
