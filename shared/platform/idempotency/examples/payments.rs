//! Example: makes payments once although requests are retried. The idempotency records are in
//! DynamoDB at `AWS_ENDPOINT_URL`, or in the AWS account if the variable is not set.
//!
//! Creates a table, plays six requests and three deliveries of an event against it, and deletes it.

#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use events::{Attributes, Event};
use idempotency::{
    ClaimRequest, Claimed, Delivery, Execution, Fingerprint, IdempotencyKey, KeyForm, OperationType, Outcome,
    Reply, Store,
};
use serde_json::{Value, json};
use uuid::Uuid;

type Failure = Box<dyn Error>;

/// Operation type under which payment requests claim their idempotency keys.
const PAY: OperationType = OperationType::named("PAY");
const EVENT: OperationType = OperationType::named("EVENT").per_target();

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let sdk = runtime::Sdk::from_environment().await;
    let dynamodb = Client::new(sdk.standard());
    let table = format!("payments-{}", Uuid::now_v7());
    create(&dynamodb, &table).await?;
    let played = play(&Store::new(dynamodb.clone(), table.clone())).await;
    dynamodb.delete_table().table_name(&table).send().await?;
    played
}

async fn play(store: &Store) -> Result<(), Failure> {
    let key = Uuid::new_v4().to_string();
    let order = json!({"order": 17, "amount": 49.90});
    println!("\na payment, its retry (in another spelling), and another payment under its key");
    pay(store, &key, &order, Bank::Up).await?;
    pay(store, &key, &serde_json::from_str(r#"{"amount": 4.99e1, "order": 17.0}"#)?, Bank::Up).await?;
    pay(store, &key, &json!({"order": 17, "amount": 4990}), Bank::Up).await?;

    println!("\nfive payments in one request; the bank goes away after the second");
    let key = Uuid::new_v4().to_string();
    let orders = json!({"orders": [1, 2, 3, 4, 5]});
    pay(store, &key, &orders, Bank::DownAfter(2)).await?;
    pay(store, &key, &orders, Bank::Up).await?;
    pay(store, &key, &orders, Bank::Up).await?;

    println!("\nan event that is delivered twice, and the same thing announced again");
    let paid = Uuid::now_v7().to_string();
    for id in ["publication-1", "publication-1", "publication-2"] {
        let event = Event::new(attributes(id, &paid, &key)?, json!({"order": 17}))?;
        let delivered = serde_json::to_vec(&event)?;
        handle(store, &delivered).await?;
    }
    Ok(())
}

/// State of the simulated bank during a payment request: always available, or unavailable after the
/// given number of payments.
#[derive(Clone, Copy)]
enum Bank {
    Up,
    DownAfter(u64),
}

/// Handles a payment request as an HTTP handler would: claims its idempotency key, makes the
/// payments or replays the stored response, and prints the answer.
async fn pay(store: &Store, key: &str, body: &Value, bank: Bank) -> Result<(), Failure> {
    let key = IdempotencyKey::parse(key, KeyForm::Uuid)?;
    let fingerprint = Fingerprint::of(body)?;
    let request = ClaimRequest {
        operation: PAY,
        tenant: "shop",
        key: &key,
        fingerprint: &fingerprint,
        rights: None,
        target: "bank",
        key_name: "till 1",
        trace_id: "trace",
        retention: DAY,
    };
    let answer = match store.claim(&request).await? {
        Claimed::Execute(execution) => execute(store, &execution, body, bank).await?,
        Claimed::Replay { response, .. } => format!("{} {} (replayed)", response.status, response.body),
        Claimed::Conflict | Claimed::OtherRights => "409 the key was used for another payment".to_owned(),
        Claimed::InProgress { retry_after } => {
            format!("409 in progress, Retry-After: {}", retry_after.as_secs())
        }
        Claimed::ReusedTooOften { retry_after } => format!("429 Retry-After: {}", retry_after.as_secs()),
        // Only after `prepare`, which this program has no need of.
        Claimed::InDoubt { response, .. } => format!("{} {} (in doubt)", response.status, response.body),
    };
    println!("  {body} -> {answer}");
    Ok(())
}

/// Makes the payments of a request one by one, with a checkpoint after each, so that a takeover
/// does not repeat them. Returns the text of the answer. If the bank is unavailable, the execution
/// ends as failed.
async fn execute(store: &Store, execution: &Execution, body: &Value, bank: Bank) -> Result<String, Failure> {
    let orders = body["orders"].as_array().map_or(1, |orders| orders.len().try_into().unwrap_or(0));
    let mut progress = execution.progress;
    if progress.done > 0 {
        println!("    attempt resumes after {} payments", progress.done);
    }
    while progress.done < orders {
        if matches!(bank, Bank::DownAfter(paid) if progress.done >= paid) {
            let failed =
                Outcome::Failed { error: "the bank does not answer".to_owned(), progress, in_doubt: 0 };
            store.end(execution, &failed).await?;
            return Ok(format!("503 {} of {orders} paid, the rest on a retry", progress.done));
        }
        progress = progress.advanced(progress.done + 1, 0);
        println!("    the bank pays number {}", progress.done);
        store.checkpoint(execution, progress).await?;
    }
    let body = json!({"paid": orders, "receipt": Uuid::new_v4()}).to_string();
    let response = Reply { status: 201, body, ..Reply::default() };
    let answer = format!("{} {}", response.status, response.body);
    store.end(execution, &Outcome::Completed(response)).await?;
    Ok(answer)
}

/// Handles an event message as a consumer of a queue would: pretends to send a mail at the first
/// delivery of the event, and only acknowledges later ones.
async fn handle(store: &Store, message: &[u8]) -> Result<(), Failure> {
    let event: Event = Event::read(message)?;
    let mail = async |_: &Execution| {
        println!("    a mail is sent for {}", event.data());
        Ok::<_, String>(())
    };
    let attributes = event.attributes();
    let claim = ClaimRequest {
        operation: EVENT,
        tenant: &attributes.tenant,
        key: &attributes.idempotency_key,
        fingerprint: event.fingerprint(),
        rights: None,
        target: "mailer",
        key_name: "",
        trace_id: &attributes.trace_id,
        retention: DAY,
    };
    let what = match store.once(&claim, mail).await? {
        Delivery::Executed => "handled",
        Delivery::Duplicate => "was handled before, acknowledged",
    };
    println!("  {} of {}: {what}", attributes.id, attributes.event_type);
    Ok(())
}

fn attributes(id: &str, key: &str, source_key: &str) -> Result<Attributes, Failure> {
    Ok(Attributes {
        id: id.to_owned(),
        source: "/payments".to_owned(),
        event_type: "com.example.payment.made".to_owned(),
        subject: None,
        time: jiff::Timestamp::now(),
        idempotency_key: IdempotencyKey::parse(key, KeyForm::Uuid)?,
        source_idempotency_key: Some(IdempotencyKey::parse(source_key, KeyForm::Uuid)?),
        tenant: "shop".to_owned(),
        trace_id: "trace".to_owned(),
        traceparent: None,
    })
}

async fn create(dynamodb: &Client, table: &str) -> Result<(), Failure> {
    let pk = AttributeDefinition::builder().attribute_name("pk").attribute_type(ScalarAttributeType::S);
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash);
    let create = dynamodb.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    create.attribute_definitions(pk.build()?).key_schema(key.build()?).send().await?;
    Ok(())
}
