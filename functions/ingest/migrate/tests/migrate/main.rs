//! Tests of the responses to CloudFormation and to direct invocations. A fake server listens at the
//! response URL.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod database;
mod listener;
mod topic;

use std::time::{Duration, SystemTime};

use catalog::{Database, DatabaseConfig, DatabaseError};
use database::Fresh;
use listener::Listener;
use migrate::{InvocationError, Migrate};
use runtime::Environment;
use serde_json::{Value, json};

const PASSWORD: &str = "3c1f0d9e-never-to-be-shown";

fn sample(name: &str, url: &str) -> Value {
    let path = format!("{}/../../../events/ingest/migrate/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let mut event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    if event.get("ResponseURL").is_some() {
        event["ResponseURL"] = json!(url);
    }
    event
}

fn deadline() -> SystemTime {
    SystemTime::now() + Duration::from_secs(60)
}

fn at(url: &str) -> Result<Database, DatabaseError> {
    Ok(Database::new(DatabaseConfig::from_url(url)?))
}

/// Returns a database at an address where nothing listens.
fn nowhere() -> Result<Database, DatabaseError> {
    at(&format!("postgres://integrahub:{PASSWORD}@127.0.0.1:1/integrahub?sslmode=disable"))
}

#[tokio::test]
async fn creation_applies_everything_and_an_update_finds_nothing_left() {
    let (fresh, listener) = (Fresh::create().await, Listener::start(&[]).await);
    let migrate = Migrate::new(Ok(()), async || at(&fresh.url));
    migrate.handle(sample("create", &listener.url), deadline()).await.unwrap();
    migrate.handle(sample("update", &listener.url), deadline()).await.unwrap();

    let answers = listener.answers();
    let version = &answers[0]["Data"]["Version"];
    assert!(version.as_str().unwrap().parse::<i32>().unwrap() > 0, "{answers:?}");
    for (answer, name) in answers.iter().zip(["create", "update"]) {
        let asked = sample(name, "");
        assert_eq!(answer["Status"], "SUCCESS", "{answer}");
        assert_eq!(answer["PhysicalResourceId"], "database-schema");
        assert_eq!(&answer["Data"]["Version"], version);
        for member in ["StackId", "RequestId", "LogicalResourceId"] {
            assert_eq!(answer[member], asked[member], "{member}");
        }
    }
    assert_eq!(answers.len(), 2);
    fresh.drop().await;
}

#[tokio::test]
async fn a_person_is_told_what_was_applied() {
    let fresh = Fresh::create().await;
    let migrate = Migrate::new(Ok(()), async || at(&fresh.url));
    let first = migrate.handle(sample("direct", ""), deadline()).await.unwrap();
    let second = migrate.handle(sample("direct", ""), deadline()).await.unwrap();
    assert!(!first["applied"].as_array().unwrap().is_empty(), "{first}");
    assert_eq!(second, json!({"applied": [], "version": first["version"]}));
    fresh.drop().await;
}

#[tokio::test]
async fn two_at_once_apply_each_migration_once() {
    let fresh = Fresh::create().await;
    let migrate = Migrate::new(Ok(()), async || at(&fresh.url));
    let one = || migrate.handle(json!({}), deadline());
    let (first, second) = tokio::join!(one(), one());
    let applied = [first.unwrap(), second.unwrap()].map(|answer| answer["applied"].as_array().unwrap().len());
    assert!(applied.contains(&0) && applied.iter().sum::<usize>() > 0, "{applied:?}");
    fresh.drop().await;
}

/// Checks that a migration succeeds on a schema newer than itself: a deployment that fails after
/// its migrations returns to the earlier code, which must start.
#[tokio::test]
async fn a_rollback_leaves_a_schema_that_is_ahead_as_it_is() {
    let (fresh, listener) = (Fresh::create().await, Listener::start(&[]).await);
    let migrate = Migrate::new(Ok(()), async || at(&fresh.url));
    migrate.handle(json!({}), deadline()).await.unwrap();
    fresh.pretend_a_later_migration(10_000).await;
    migrate.handle(sample("update", &listener.url), deadline()).await.unwrap();
    assert_eq!(listener.answers()[0]["Status"], "SUCCESS");
    assert_eq!(listener.answers()[0]["Data"]["Version"], "10000");

    // One that is missing in between is no rollback.
    fresh.pretend_a_later_migration(0).await;
    migrate.handle(sample("update", &listener.url), deadline()).await.unwrap();
    assert_eq!(listener.answers()[1]["Status"], "FAILED");
    fresh.drop().await;
}

#[tokio::test]
async fn deletion_is_answered_without_a_database() {
    let listener = Listener::start(&[]).await;
    let migrate = Migrate::new(Ok(()), async || panic!("a deletion needs no database"));
    migrate.handle(sample("delete", &listener.url), deadline()).await.unwrap();
    assert_eq!(listener.answers()[0]["Status"], "SUCCESS");
    assert_eq!(listener.answers()[0]["PhysicalResourceId"], "database-schema");
}

#[tokio::test]
async fn every_failure_is_answered_and_shows_no_secret() {
    let listener = Listener::start(&[]).await;
    let unreachable = Migrate::new(Ok(()), async || nowhere());
    unreachable.handle(sample("create", &listener.url), deadline()).await.unwrap();
    let unusable = Migrate::new(Ok(()), async || at(&format!("mysql://integrahub:{PASSWORD}@127.0.0.1/x")));
    unusable.handle(sample("update", &listener.url), deadline()).await.unwrap();
    let crashing = Migrate::new(Ok(()), async || panic!("{PASSWORD}"));
    crashing.handle(sample("create", &listener.url), deadline()).await.unwrap();
    let late = Migrate::new(Ok(()), async || {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        nowhere()
    });
    let soon = SystemTime::now() + Duration::from_secs(10);
    late.handle(sample("create", &listener.url), soon).await.unwrap();

    let reasons = ["cannot be reached", "configuration", "crashed", "in time"];
    let answers = listener.answers();
    assert_eq!(answers.len(), reasons.len());
    for (answer, reason) in answers.iter().zip(reasons) {
        assert_eq!(answer["Status"], "FAILED");
        assert_eq!(answer["PhysicalResourceId"], "database-schema");
        assert!(answer["Reason"].as_str().unwrap().contains(reason), "{answer}");
        assert!(!answer.to_string().contains(PASSWORD), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_is_refused_is_sent_again_and_then_reported_without_its_address() {
    let listener = Listener::start(&[503, 500]).await;
    let migrate = Migrate::new(Ok(()), async || nowhere());
    migrate.handle(sample("delete", &listener.url), deadline()).await.unwrap();
    assert_eq!(listener.answers().len(), 3);

    let closed = Listener::start(&[403, 403, 403]).await;
    let failure = migrate.handle(sample("delete", &closed.url), deadline()).await.unwrap_err();
    assert!(matches!(failure, InvocationError::Response(_)), "{failure}");
    assert!(!format!("{failure:?}").contains("127.0.0.1"), "{failure:?}");
}

#[tokio::test]
async fn a_person_is_told_of_a_failure() {
    let migrate = Migrate::new(Ok(()), async || nowhere());
    let failure = migrate.handle(json!({}), deadline()).await.unwrap_err();
    assert_eq!(failure.to_string(), "the schema is not up to date");
    let cause = std::error::Error::source(&failure).unwrap();
    assert_eq!(cause.to_string(), "the database cannot be reached");
}

#[tokio::test]
async fn a_setting_that_no_function_starts_with_fails_the_deployment() {
    let listener = Listener::start(&[]).await;
    let mut environment = Environment::of(|_| Some("many".to_owned()));
    let _: u16 = environment.required("KAFKA_CHUNKS_PARTITIONS");
    let migrate = Migrate::new(environment.check(), async || panic!("nothing is migrated"));
    migrate.handle(sample("create", &listener.url), deadline()).await.unwrap();
    let answer = &listener.answers()[0];
    assert_eq!(answer["Status"], "FAILED");
    let reason = answer["Reason"].as_str().unwrap();
    assert!(reason.contains("KAFKA_CHUNKS_PARTITIONS: invalid digit"), "{reason}");
}

#[tokio::test]
async fn an_event_that_nobody_sends_migrates_nothing() {
    let migrate = Migrate::new(Ok(()), async || panic!("nothing is migrated"));
    for event in [json!([]), json!(7), json!(null), json!({"requestType": "Create"})] {
        let failure = migrate.handle(event, deadline()).await.unwrap_err();
        assert!(matches!(failure, InvocationError::UnknownEvent), "{failure}");
    }
}
