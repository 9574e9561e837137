//! Tests of rate limits on a DynamoDB table. Several limiters stand for several environments.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use access::{DefaultLimits, LimitedTarget, LimitsItem, Rate, TargetLimits};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use endpoint::limits::{Cost, Limiter, Policies};
use uuid::Uuid;

const SECOND: u128 = 1_000_000_000;
const TARGET: LimitedTarget<'_> = LimitedTarget { target_ref: Some("orders"), queue_manager: "QM1" };

/// DynamoDB table of buckets, with the tenant's limits, for several limiters.
struct Stand {
    dynamodb: Client,
    table: String,
    item: LimitsItem,
}

impl Stand {
    async fn make(item: LimitsItem) -> Self {
        let dynamodb = Client::new(runtime::Sdk::from_environment().await.standard());
        let table = format!("limits-{}", Uuid::new_v4());
        let attribute = AttributeDefinition::builder().attribute_name("pk");
        let attribute = attribute.attribute_type(ScalarAttributeType::S).build().unwrap();
        let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build().unwrap();
        let create = dynamodb.create_table().table_name(&table).billing_mode(BillingMode::PayPerRequest);
        create.attribute_definitions(attribute).key_schema(key).send().await.unwrap();
        Self { dynamodb, table, item }
    }

    fn environment(&self) -> (Limiter, Policies) {
        let limiter = Limiter::new(self.dynamodb.clone(), self.table.clone(), DefaultLimits::default());
        let policies = limiter.policies(&self.item, "acme", Some(&TARGET));
        (limiter, policies)
    }

    async fn put(&self, pk: &str, tat: u128, win: u128) {
        let places = || AttributeValue::Ns(vec!["1".to_owned(), "2".to_owned()]);
        let number = |number: u128| AttributeValue::N(number.to_string());
        let members = [
            ("pk", AttributeValue::S(pk.to_owned())),
            ("tat", number(tat)),
            ("win", number(win)),
            ("envs", places()),
            ("lastWin", number(win - 1)),
            ("lastEnvs", places()),
        ];
        let item: HashMap<_, _> = members.map(|(name, value)| (name.to_owned(), value)).into();
        self.dynamodb.put_item().table_name(&self.table).set_item(Some(item)).send().await.unwrap();
    }

    async fn get(&self, pk: &str) -> HashMap<String, AttributeValue> {
        let get = self.dynamodb.get_item().table_name(&self.table).consistent_read(true);
        get.key("pk", AttributeValue::S(pk.to_owned())).send().await.unwrap().item.unwrap()
    }

    async fn remaining(&self) -> Vec<Option<u64>> {
        let (limiter, _) = self.environment();
        limiter.standing("acme", &self.item).await.iter().map(|limit| limit.remaining).collect()
    }

    async fn remove(self) {
        self.dynamodb.delete_table().table_name(&self.table).send().await.unwrap();
    }
}

/// Returns limits with these bursts, whose buckets regain nothing while a test runs.
fn slow(requests: u64, messages: u64) -> LimitsItem {
    let messages =
        TargetLimits { messages: Rate::new(0.001, Some(messages)).ok(), ..TargetLimits::default() };
    LimitsItem {
        requests: Rate::new(0.001, Some(requests)).ok(),
        targets: [("orders".to_owned(), messages)].into(),
        ..LimitsItem::default()
    }
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

fn number(item: &HashMap<String, AttributeValue>, name: &str) -> u128 {
    item[name].as_n().unwrap().parse().unwrap()
}

#[tokio::test]
async fn environments_share_a_limit() {
    let stand = Stand::make(slow(5, 10)).await;
    let environments = [stand.environment(), stand.environment(), stand.environment()];
    let mut admitted = 0;
    for _ in 0..5 {
        for (limiter, policies) in &environments {
            if let Ok(ticket) = limiter.admit(policies, Cost { messages: 1, bytes: 10 }).await {
                ticket.renew().await;
                admitted += 1;
            }
        }
    }
    assert_eq!(admitted, 5);
    // Of the messages, an environment may hold one that it gave back when its request was refused.
    let remaining = stand.remaining().await;
    assert_eq!(remaining[0], Some(0));
    assert!((2..=5).contains(&remaining[1].unwrap()), "{remaining:?}");
    let item = stand.get("acme#requests").await;
    assert!((1..=3).contains(&item["envs"].as_ns().unwrap().len()), "{item:?}");
    assert!(number(&item, "expiresAt") * SECOND > number(&item, "tat"), "it stays until it is full");
    stand.remove().await;
}

#[tokio::test]
async fn a_draw_finds_the_form_that_the_bucket_is_in() {
    // The buckets are running and full, in a window of long ago, in this one, and in one far ahead.
    let second = now() / SECOND;
    let window = second / 10;
    for (tat, win, left) in [
        (second + 1_000, window, 3),
        (second + 1_000, window - 1_000, 3),
        (second - 1_000, window, 4),
        (second - 1_000, window - 1_000, 4),
        (second * 2, window * 2, 4),
    ] {
        let stand = Stand::make(slow(5, 1)).await;
        stand.put("acme#requests", tat * SECOND, win).await;
        let (limiter, policies) = stand.environment();
        limiter.admit(&policies, Cost::default()).await.unwrap().renew().await;
        assert_eq!(stand.remaining().await[0], Some(left), "{tat} {win}");
        let found = number(&stand.get("acme#requests").await, "win");
        assert!((window..=window + 6).contains(&found), "{found} is not about {window}");
        stand.remove().await;
    }
}

#[tokio::test]
async fn a_debt_of_one_environment_is_everybody_s() {
    let stand = Stand::make(slow(1_000, 100)).await;
    let (limiter, policies) = stand.environment();
    let expected = Cost { messages: 10, bytes: 0 };
    limiter.admit(&policies, expected).await.unwrap().settle(Cost { messages: 95, bytes: 0 });
    let refused = limiter.admit(&policies, expected).await.unwrap_err().problem();
    assert_eq!(refused.reason, api::Reason::TargetRateLimit);
    assert_eq!(stand.remaining().await[1], Some(5), "the debt is charged");
    limiter.admit(&policies, Cost { messages: 5, bytes: 0 }).await.unwrap();
    let (other, policies) = stand.environment();
    assert!(other.admit(&policies, expected).await.is_err());
    stand.remove().await;
}

#[tokio::test]
async fn without_its_table_an_environment_has_a_share() {
    let stand = Stand::make(slow(1_000, 1_000)).await;
    let (limiter, policies) = stand.environment();
    limiter.admit(&policies, Cost::default()).await.unwrap();
    stand.dynamodb.delete_table().table_name(&stand.table).send().await.unwrap();
    let mut admitted = 0;
    while limiter.admit(&policies, Cost::default()).await.is_ok() {
        admitted += 1;
    }
    assert_eq!(admitted, 66, "a chunk of one environment");
    assert_eq!(limiter.standing("acme", &stand.item).await[0].remaining, None);
}
