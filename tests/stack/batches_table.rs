//! Tables of batch items for tests that do not use the stack's own.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{BillingMode, GlobalSecondaryIndex};

/// Creates a table of batch items with the keys and indexes of the stack's.
pub async fn create_batches_table(dynamodb: &Client, name: &str) {
    let described = dynamodb.describe_table().table_name(crate::variable("BATCHES_TABLE")).send().await;
    let table = described.unwrap().table.unwrap();
    let mut create = dynamodb
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(table.attribute_definitions)
        .set_key_schema(table.key_schema);
    for index in table.global_secondary_indexes.unwrap_or_default() {
        let index = GlobalSecondaryIndex::builder()
            .set_index_name(index.index_name)
            .set_key_schema(index.key_schema)
            .set_projection(index.projection)
            .build();
        create = create.global_secondary_indexes(index.unwrap());
    }
    create.send().await.unwrap();
}
