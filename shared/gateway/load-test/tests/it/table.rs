//! DynamoDB table and S3 bucket for one integration test. The tests of `load-step` use this file,
//! too.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use load_test::store::TestStore;
use uuid::Uuid;

/// DynamoDB table and S3 bucket of one integration test, with the store of load tests on them.
pub(crate) struct TestTable {
    pub(crate) store: TestStore,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) s3: aws_sdk_s3::Client,
    /// Name of the DynamoDB table and of the S3 bucket.
    pub(crate) name: String,
}

impl TestTable {
    pub(crate) async fn make() -> Self {
        // The stand-in may take longer than AWS on a busy machine.
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(30));
        let dynamodb = aws_sdk_dynamodb::Client::new(&sdk);
        let s3 = aws_sdk_s3::Client::new(&sdk);
        let name = format!("load-tests-{}", Uuid::new_v4());
        create_table(&dynamodb, &name).await;
        s3.create_bucket().bucket(&name).send().await.unwrap();
        let store = TestStore::new(dynamodb.clone(), name.clone(), s3.clone(), name.clone());
        Self { store, dynamodb, s3, name }
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

/// Creates a DynamoDB table with the keys `pk` and `sk`.
pub(crate) async fn create_table(dynamodb: &aws_sdk_dynamodb::Client, name: &str) {
    let attribute = |name: &str| {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        attribute.attribute_type(ScalarAttributeType::S).build().unwrap()
    };
    let key =
        |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let create = dynamodb
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("pk"))
        .attribute_definitions(attribute("sk"))
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range));
    create.send().await.unwrap();
}
