//! Access to the ingest's functions behind the API, which tests invoke as their triggers do, and to
//! the stores that they use.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_lambda::primitives::Blob;
use batch_items::BatchItems;
use catalog::{BatchRow, BatchView, Database, DatabaseConfig};
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

/// Maximum time until a batch is final, even on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Clients of the local stack: Lambda for the ingest's functions, and the stores that these use.
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

    /// Invokes the function that the environment variable `function` names. Returns its result, or
    /// the message of its error.
    pub(crate) async fn invoke(&self, function: &str, event: &Value) -> Result<Value, String> {
        let payload = Blob::new(event.to_string());
        let invoke = self.lambda.invoke().function_name(variable(function)).payload(payload);
        let answer = invoke.send().await.unwrap();
        let said: Value = serde_json::from_slice(answer.payload.unwrap().as_ref()).unwrap();
        if answer.function_error.is_some() { Err(said["errorMessage"].to_string()) } else { Ok(said) }
    }

    /// Stores a batch's item and payload as the functions of the API do, so that the ingest begins.
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

    /// Leaves a batch as an earlier version of the chunker does that began to cut the payload and
    /// died. The column `planner`, the version of the rules for cutting, is 1.
    pub(crate) async fn begun_by_an_older_planner(&self, metadata: &PayloadMetadata) {
        let payload_uri = format!("s3://{}/{}", self.bucket, metadata.key());
        let batch =
            BatchRow { metadata: metadata.clone(), payload_uri, payload_bytes: None, cnpjs: CnpjAccess::Any };
        self.database.begin_chunking(&batch, Plan::default()).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&variable("DATABASE_URL"), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let older = "UPDATE batches SET planner = 1 WHERE batch_id = $1";
        assert_eq!(client.execute(older, &[&metadata.batch_id]).await.unwrap(), 1);
        drop(client);
        connection.await.unwrap().unwrap();
    }

    /// Stores a batch's payload in S3, which notifies the ingest.
    pub(crate) async fn store(&self, metadata: &PayloadMetadata, payload: Vec<u8>) {
        let put = self.s3.put_object().bucket(&self.bucket).key(metadata.key());
        let put = put.set_metadata(Some(metadata.to_map().into_iter().collect()));
        put.body(payload.into()).send().await.unwrap();
    }

    /// Deletes the batch's item from DynamoDB, as if its time to live were over.
    pub(crate) async fn forget(&self, metadata: &PayloadMetadata) {
        let text = |value: Uuid| AttributeValue::S(value.to_string());
        let delete = self.dynamodb.delete_item().table_name(variable("BATCHES_TABLE"));
        let delete = delete.key("tenantId", text(metadata.tenant_id)).key("batchId", text(metadata.batch_id));
        delete.send().await.unwrap();
    }

    /// Waits until a batch of tenant A is final, and returns it. Panics after [`PATIENCE`].
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

    /// Returns the S3 key and the ETag of each chunk of a batch.
    pub(crate) async fn chunks(&self, batch_id: Uuid) -> Vec<(String, String)> {
        let list = self.s3.list_objects_v2().bucket(&self.bucket).prefix(format!("chunks/{batch_id}/"));
        let objects = list.send().await.unwrap().contents.unwrap_or_default();
        objects.into_iter().map(|object| (object.key.unwrap(), object.e_tag.unwrap())).collect()
    }
}

/// Returns the metadata of a new batch of tenant A, a delta that was received now.
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

/// Returns S3's notification that the object `key` was created in `bucket`.
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
