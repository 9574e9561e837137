//! Test of the corrections of hours on a DynamoDB table.

#![allow(clippy::unwrap_used, reason = "a test fails where it finds itself wrong")]

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use usage::{Counts, Hour, Line, UsageTable};

/// Creates a usage table, and returns the client for it and its name.
async fn table() -> (Client, String) {
    let dynamodb = Client::new(runtime::Sdk::from_environment().await.standard());
    let name = format!("usage-{}", uuid::Uuid::now_v7());
    let mut create = dynamodb.create_table().table_name(&name).billing_mode(BillingMode::PayPerRequest);
    for (attribute, kind) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
        let definition = AttributeDefinition::builder().attribute_name(attribute);
        let definition = definition.attribute_type(ScalarAttributeType::S).build().unwrap();
        let key = KeySchemaElement::builder().attribute_name(attribute).key_type(kind).build().unwrap();
        create = create.attribute_definitions(definition).key_schema(key);
    }
    create.send().await.unwrap();
    (dynamodb, name)
}

fn line(hour: Hour, key_name: &str, requests: u64) -> Line {
    Line {
        tenant: "acme#1".to_owned(),
        day: hour.day(),
        operation: "produce".to_owned(),
        key_name: key_name.to_owned(),
        counts: Counts { requests, ..Counts::default() },
    }
}

#[tokio::test]
async fn a_correction_is_kept_until_it_is_published() {
    let (dynamodb, name) = table().await;
    let usage = UsageTable::new(dynamodb.clone(), name.clone());
    let [early, late]: [Hour; 2] = ["2026-11-27T02", "2026-11-27T10"].map(|hour| hour.parse().unwrap());
    let correct = async |hour: Hour, lines: &[Line], publishes| usage.correct(hour, lines, publishes).await;

    assert_eq!(correct(late, &[line(late, "till 1", 5)], true).await.unwrap(), [line(late, "till 1", 5)]);
    assert_eq!(correct(early, &[line(early, "till 2", 3)], true).await.unwrap().len(), 1);
    assert_eq!(correct(early, &[line(early, "till 2", 3)], true).await.unwrap(), [], "it is counted");
    // The event of this hour is still to come, and has it.
    assert_eq!(correct(early, &[line(early, "till 3", 1)], false).await.unwrap().len(), 1);
    // Found later, before the first is published.
    assert_eq!(correct(late, &[line(late, "till 1", 7)], true).await.unwrap(), [line(late, "till 1", 2)]);

    let pending = [(early, line(early, "till 2", 3)), (late, line(late, "till 1", 7))];
    assert_eq!(usage.corrections().await.unwrap(), pending);
    usage.corrections_published(early, &[line(early, "till 2", 3)]).await.unwrap();
    assert_eq!(usage.corrections().await.unwrap(), pending[1..]);
    let counted = usage.hour(late).await.unwrap();
    assert_eq!(counted, [line(late, "till 1", 7)], "a published correction stays counted");
    let day = usage.days(early.day(), early.day(), None).await.unwrap();
    assert_eq!(day.iter().map(|line| line.counts.requests).sum::<u64>(), 11);
    dynamodb.delete_table().table_name(&name).send().await.unwrap();
}
