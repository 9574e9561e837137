//! Idempotency store of a test, with its own table and bucket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use idempotency::{
    Audit, AuditEntry, AuditEvent, ClaimRequest, Claimed, Execution, Fingerprint, IdempotencyKey, KeyForm,
    OperationType, Prepared, Reply, Store,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// Audit receiver that keeps the events of a test's store in memory.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<Vec<AuditEvent>>);

impl Audit for Heard {
    fn note(&self, entry: &AuditEntry<'_>) {
        self.0.lock().unwrap().push(entry.event);
    }
}

/// Test table and bucket, with a store that uses them.
pub(crate) struct TestStore {
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub s3: aws_sdk_s3::Client,
    pub(crate) name: String,
    pub(crate) store: Store,
    heard: Arc<Heard>,
}

/// Client request that a test sends to the store, with its idempotency key.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) key: IdempotencyKey,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) retention: Duration,
}

impl Asked {
    pub(crate) fn new(body: &Value) -> Self {
        Self {
            key: IdempotencyKey::parse(&Uuid::new_v4().to_string(), KeyForm::Uuid).unwrap(),
            fingerprint: Fingerprint::of(body).unwrap(),
            retention: Duration::from_secs(7200),
        }
    }

    pub(crate) fn with_body(&self, body: &Value) -> Self {
        Self { fingerprint: Fingerprint::of(body).unwrap(), ..self.clone() }
    }

    pub(crate) fn request(&self) -> ClaimRequest<'_> {
        ClaimRequest {
            operation: OperationType::named("CONSUME"),
            tenant: "tenant",
            key: &self.key,
            fingerprint: &self.fingerprint,
            rights: None,
            target: "QM1:ORDERS",
            key_name: "till 1",
            trace_id: "trace",
            retention: self.retention,
        }
    }
}

impl TestStore {
    pub(crate) async fn make() -> Self {
        let sdk = runtime::Sdk::from_environment().await;
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        let s3 = aws_sdk_s3::Client::new(&sdk.objects());
        let name = format!("idempotency-{}", Uuid::new_v4());
        let attribute = AttributeDefinition::builder().attribute_name("pk");
        let attribute = attribute.attribute_type(ScalarAttributeType::S).build().unwrap();
        let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build().unwrap();
        let create = dynamodb.create_table().table_name(&name).billing_mode(BillingMode::PayPerRequest);
        create.attribute_definitions(attribute).key_schema(key).send().await.unwrap();
        s3.create_bucket().bucket(&name).send().await.unwrap();
        let heard = Arc::new(Heard::default());
        let store = Store::new(dynamodb.clone(), name.clone())
            .with_bucket(s3.clone(), name.clone())
            .with_audit(heard.clone());
        Self { dynamodb, s3, name, store, heard }
    }

    /// Returns the audit events since the last call.
    pub(crate) fn heard(&self) -> Vec<AuditEvent> {
        std::mem::take(&mut *self.heard.0.lock().unwrap())
    }

    pub(crate) async fn execution(&self, asked: &Asked) -> Execution {
        match self.store.claim(&asked.request()).await.unwrap() {
            Claimed::Execute(execution) => execution,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn replayed(&self, asked: &Asked) -> Reply {
        match self.store.claim(&asked.request()).await.unwrap() {
            Claimed::Replay { response, .. } => response,
            other => panic!("{other:?}"),
        }
    }

    fn pk(asked: &Asked) -> AttributeValue {
        AttributeValue::S(format!("CONSUME#tenant#{}", asked.key))
    }

    /// Reads an attribute of a request's idempotency record.
    pub(crate) async fn attribute(&self, asked: &Asked, name: &str) -> Option<AttributeValue> {
        let get = self.dynamodb.get_item().table_name(&self.name).key("pk", Self::pk(asked)).send().await;
        get.unwrap().item.and_then(|mut item| item.remove(name))
    }

    /// Sets the lease of a request's record to a time in the past.
    pub(crate) async fn end_lease(&self, asked: &Asked) {
        self.set(asked, "leaseExpiresAt", AttributeValue::N("1".to_owned())).await;
    }

    /// Sets an attribute of a request's idempotency record.
    pub(crate) async fn set(&self, asked: &Asked, name: &str, value: AttributeValue) {
        let update = self.dynamodb.update_item().table_name(&self.name).key("pk", Self::pk(asked));
        let update = update.update_expression("SET #name = :value").expression_attribute_names("#name", name);
        update.expression_attribute_values(":value", value).send().await.unwrap();
    }

    pub(crate) async fn objects(&self) -> Vec<String> {
        let listed = self.s3.list_objects_v2().bucket(&self.name).send().await.unwrap();
        listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
    }

    pub(crate) async fn remove(self) {
        for key in self.objects().await {
            self.s3.delete_object().bucket(&self.name).key(key).send().await.unwrap();
        }
        self.s3.delete_bucket().bucket(&self.name).send().await.unwrap();
        self.dynamodb.delete_table().table_name(&self.name).send().await.unwrap();
    }
}

pub(crate) fn prepared(text: impl Into<String>) -> Prepared {
    Prepared::json(200, &json!({"text": text.into()})).unwrap()
}

pub(crate) fn response(body: impl Into<String>) -> Reply {
    let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
    Reply { status: 200, headers, body: body.into() }
}
