//! Access table of the stack: tests create API keys, tenants and target profiles there.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Client by which tests write and read items of the stack's access table.
#[derive(Debug)]
pub struct Access {
    dynamodb: Client,
    table: String,
}

impl Access {
    pub async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
        Self { dynamodb: Client::new(&sdk), table: crate::variable("ACCESS_TABLE") }
    }

    /// Creates an API key of a tenant with these scopes and further members, for example
    /// `{"cnpjs": […]}`. Returns the key.
    pub async fn key(&self, tenant: &str, scopes: &[&str], members: Value) -> String {
        let api_key = format!("test-{}", Uuid::new_v4());
        crate::leaks::note(&api_key);
        let hash = hex::encode(Sha256::digest(api_key.as_bytes()));
        let mut item =
            json!({"pk": format!("KEY#{hash}"), "tenantId": tenant, "scopes": scopes, "name": "test"});
        let Value::Object(members) = members else { panic!("members are an object") };
        item.as_object_mut().unwrap().extend(members);
        self.put(&item).await;
        api_key
    }

    /// Returns the item of an API key in the access table.
    pub async fn key_item(&self, api_key: &str) -> Value {
        let pk = AttributeValue::S(format!("KEY#{}", hex::encode(Sha256::digest(api_key.as_bytes()))));
        let get = self.dynamodb.get_item().table_name(&self.table).key("pk", pk).consistent_read(true);
        serde_dynamo::from_item(get.send().await.unwrap().item.unwrap()).unwrap()
    }

    /// Returns the day on which an API key was last used, such as `2026-11-21`. Returns `None` if
    /// no use is recorded.
    pub async fn last_used_on(&self, api_key: &str) -> Option<String> {
        let pk = AttributeValue::S(format!("USED#{}", hex::encode(Sha256::digest(api_key.as_bytes()))));
        let get = self.dynamodb.get_item().table_name(&self.table).key("pk", pk).consistent_read(true);
        let item = get.send().await.unwrap().item?;
        Some(item["lastUsedOn"].as_s().unwrap().clone())
    }

    /// Stores the item of a tenant with these members.
    pub async fn tenant(&self, tenant: &str, members: Value) {
        let mut item = json!({"pk": format!("TENANT#{tenant}")});
        let Value::Object(members) = members else { panic!("members are an object") };
        item.as_object_mut().unwrap().extend(members);
        self.put(&item).await;
    }

    /// Stores these entries as a tenant's own allow-list of inline targets.
    pub async fn targets(&self, tenant: &str, entries: &[&str]) {
        self.put(&json!({"pk": format!("TARGETS#{tenant}"), "entries": entries})).await;
    }

    /// Stores the item with a tenant's limits, which has these members.
    pub async fn limits(&self, tenant: &str, members: Value) {
        let mut item = json!({"pk": format!("LIMITS#{tenant}")});
        let Value::Object(members) = members else { panic!("members are an object") };
        item.as_object_mut().unwrap().extend(members);
        self.put(&item).await;
    }

    /// Records that a tenant has spent its budget of a month, such as `2026-11`, and that its
    /// requests are refused.
    pub async fn spent(&self, tenant: &str, month: &str) {
        self.put(&json!({"pk": format!("SPENT#{tenant}"), "month": month, "amount": "1.000000",
            "exceeded": true, "refuse": true, "told": 100}))
            .await;
    }

    /// Copies the tenant's profile `local-rabbit` under a new name, and returns the name.
    pub async fn profile(&self, tenant: &str) -> String {
        let pk = AttributeValue::S(format!("PROFILE#{tenant}#local-rabbit"));
        let get = self.dynamodb.get_item().table_name(&self.table).key("pk", pk);
        let mut item = get.send().await.unwrap().item.unwrap();
        let name = format!("test-{}", Uuid::new_v4());
        item.insert("pk".to_owned(), AttributeValue::S(format!("PROFILE#{tenant}#{name}")));
        self.dynamodb.put_item().table_name(&self.table).set_item(Some(item)).send().await.unwrap();
        name
    }

    /// Copies the tenant's profile `local-rabbit` under a new name, with these queues only. Spells
    /// the broker's host differently from the allow-list, which would allow any queue. Returns the
    /// name.
    pub async fn limited_profile(&self, tenant: &str, queues: &[&str]) -> String {
        let name = self.profile(tenant).await;
        let pk = AttributeValue::S(format!("PROFILE#{tenant}#{name}"));
        let patterns = queues.iter().map(|queue| AttributeValue::S((*queue).to_owned())).collect();
        let update = self.dynamodb.update_item().table_name(&self.table).key("pk", pk);
        let update = update.update_expression("SET #queues = :queues, #target.connName = :connName");
        let update = update.expression_attribute_names("#queues", "queues");
        let update = update.expression_attribute_names("#target", "target");
        let conn_name = crate::variable("RABBIT_CONN_NAME").replace("127.0.0.1", "127.1");
        let update = update.expression_attribute_values(":connName", AttributeValue::S(conn_name));
        update.expression_attribute_values(":queues", AttributeValue::L(patterns)).send().await.unwrap();
        name
    }

    /// Creates a profile of the tenant with this target, and returns its name.
    pub async fn profile_of(&self, tenant: &str, target: &Value) -> String {
        self.profile_with(tenant, target, json!({})).await
    }

    /// Creates a profile of the tenant with this target and further members beside it. Returns its
    /// name.
    pub async fn profile_with(&self, tenant: &str, target: &Value, members: Value) -> String {
        let name = format!("test-{}", Uuid::new_v4());
        let mut item = json!({"pk": format!("PROFILE#{tenant}#{name}"), "target": target});
        let Value::Object(members) = members else { panic!("members are an object") };
        item.as_object_mut().unwrap().extend(members);
        self.put(&item).await;
        name
    }

    /// Stores any item in the access table.
    pub async fn put(&self, item: &Value) {
        let item = item.as_object().unwrap().iter().map(|(name, value)| (name.clone(), attribute(value)));
        let put = self.dynamodb.put_item().table_name(&self.table).set_item(Some(item.collect()));
        put.send().await.unwrap();
    }
}

fn attribute(value: &Value) -> AttributeValue {
    match value {
        Value::String(text) => AttributeValue::S(text.clone()),
        Value::Bool(value) => AttributeValue::Bool(*value),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Array(values) => AttributeValue::L(values.iter().map(attribute).collect()),
        Value::Object(members) => {
            AttributeValue::M(members.iter().map(|(name, value)| (name.clone(), attribute(value))).collect())
        }
        Value::Null => AttributeValue::Null(true),
    }
}
