//! The functions behind the API, called as their triggers call them.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_lambda::primitives::Blob;
use batch_items::BatchItems;
use catalog::{BatchView, Database, DatabaseConfig, NewBatch};
use end_to_end::{Pauses, Payloads, TENANT_A, variable};
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::chunk::Plan;
use ingestion::payload::{AcceptedBatch, LoadType, MediaType, PayloadMetadata};
use ingestion::product::CnpjAccess;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::NoTls;
use uuid::Uuid;

/// Time that a batch may take on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The functions, and the stores that they work with.
pub(crate) struct Functions {
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) bucket: String,
    lambda: aws_sdk_lambda::Client,
    accepted: BatchItems,
    dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) database: Database,
    pub(crate) payloads: Payloads,
}

impl Functions {
    pub(crate) async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await;
        // A test waits longer than the functions do.
        let patient = sdk.single_attempt(Duration::from_secs(60));
        let dynamodb = aws_sdk_dynamodb::Client::new(&patient);
        Self {
            s3: aws_sdk_s3::Client::new(&patient),
            bucket: variable("PAYLOAD_BUCKET"),
            lambda: aws_sdk_lambda::Client::new(&patient),
            accepted: BatchItems::new(dynamodb.clone(), variable("BATCHES_TABLE")),
            dynamodb,
            database: Database::new(DatabaseConfig::from_url(&variable("DATABASE_URL")).unwrap()),
            payloads: Payloads::open().await,
        }
    }

    /// Invokes a function and returns its answer, or the message of its error.
    pub(crate) async fn invoke(&self, function: &str, event: &Value) -> Result<Value, String> {
        let payload = Blob::new(event.to_string());
        let invoke = self.lambda.invoke().function_name(variable(function)).payload(payload);
        let answer = invoke.send().await.unwrap();
        let said: Value = serde_json::from_slice(answer.payload.unwrap().as_ref()).unwrap();
        if answer.function_error.is_some() { Err(said["errorMessage"].to_string()) } else { Ok(said) }
    }

    /// Accepts a batch and stores its payload, as the functions of the API do.
    pub(crate) async fn put(&self, metadata: &PayloadMetadata, payload: Vec<u8>) {
        let batch = AcceptedBatch {
            metadata: metadata.clone(),
            payload_bytes: None,
            cnpjs: CnpjAccess::Any,
            upload_expires_at: None,
        };
        self.accepted.put(&batch).await.unwrap();
        self.store(metadata, payload).await;
    }

    /// Leaves a batch as an earlier version does that began to cut its payload, by its planner.
    pub(crate) async fn begun_by_an_older_planner(&self, metadata: &PayloadMetadata) {
        let payload_uri = format!("s3://{}/{}", self.bucket, metadata.key());
        let batch =
            NewBatch { metadata: metadata.clone(), payload_uri, payload_bytes: None, cnpjs: CnpjAccess::Any };
        self.database.begin_chunking(&batch, Plan::default()).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&variable("DATABASE_URL"), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let older = "UPDATE batches SET planner = 1 WHERE batch_id = $1";
        assert_eq!(client.execute(older, &[&metadata.batch_id]).await.unwrap(), 1);
        drop(client);
        connection.await.unwrap().unwrap();
    }

    /// Stores a payload, and S3 sends its notification.
    pub(crate) async fn store(&self, metadata: &PayloadMetadata, payload: Vec<u8>) {
        let put = self.s3.put_object().bucket(&self.bucket).key(metadata.key());
        let put = put.set_metadata(Some(metadata.to_map().into_iter().collect()));
        put.body(payload.into()).send().await.unwrap();
    }

    /// Removes the batch's item, as its time to live does.
    pub(crate) async fn forget(&self, metadata: &PayloadMetadata) {
        let text = |value: Uuid| AttributeValue::S(value.to_string());
        let delete = self.dynamodb.delete_item().table_name(variable("BATCHES_TABLE"));
        let delete = delete.key("tenantId", text(metadata.tenant_id)).key("batchId", text(metadata.batch_id));
        delete.send().await.unwrap();
    }

    /// The batch once it is final.
    pub(crate) async fn settled(&self, batch_id: Uuid) -> BatchView {
        let tenant = TENANT_A.parse().unwrap();
        let (began, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let batch = self.database.batch(&Viewer::whole(tenant), batch_id).await.unwrap();
            match batch {
                Some(batch) if batch.status.is_final() => return batch,
                batch if began.elapsed() > PATIENCE => panic!("the batch is not final: {batch:?}"),
                _ => pauses.wait().await,
            }
        }
    }

    /// The keys and ETags of the batch's chunks.
    pub(crate) async fn chunks(&self, batch_id: Uuid) -> Vec<(String, String)> {
        let list = self.s3.list_objects_v2().bucket(&self.bucket).prefix(format!("chunks/{batch_id}/"));
        let objects = list.send().await.unwrap().contents.unwrap_or_default();
        objects.into_iter().map(|object| (object.key.unwrap(), object.e_tag.unwrap())).collect()
    }
}

/// A batch of tenant A, received now.
pub(crate) fn batch(media_type: MediaType) -> PayloadMetadata {
    PayloadMetadata {
        batch_id: Uuid::now_v7(),
        tenant_id: TENANT_A.parse().unwrap(),
        load_type: LoadType::Delta,
        media_type,
        idempotency_key: Uuid::new_v4().to_string(),
        received_at: Timestamp::now(),
        checksum: None,
        trace_id: "end-to-end".to_owned(),
        partial: ingestion::product::PartialPolicy::Warn,
        source: None,
    }
}

/// S3's notification of an object.
pub(crate) fn notification(bucket: &str, key: &str) -> Value {
    serde_json::json!({"Records": [{
        "eventVersion": "2.2", "eventSource": "aws:s3", "awsRegion": "us-east-1", "eventTime": "2026-11-21T23:59:59.456Z",
        "eventName": "ObjectCreated:Put", "userIdentity": {"principalId": "AWS:test"},
        "requestParameters": {"sourceIPAddress": "127.0.0.1"}, "responseElements": {},
        "s3": {"s3SchemaVersion": "1.0", "configurationId": "test", "bucket": {"name": bucket}, "object": {"key": key, "size": 1}},
    }]})
}

pub(crate) const fn is_completed(batch: &BatchView) -> bool {
    matches!(batch.status, BatchStatus::Completed)
}
