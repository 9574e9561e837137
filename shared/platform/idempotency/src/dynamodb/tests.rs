//! Tests that DynamoDB's conditional writes follow the protocol, with random records and writes.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::protocol::{
    Body, Place, PlaceHistory, Progress, ProgressLeftBehind, Status, StoredResponse, Token,
};

fn at() -> impl Strategy<Value = Timestamp> {
    (0..200i64).prop_map(|second| Timestamp::from_second(1_800_000_000 + second).unwrap())
}

fn retention() -> impl Strategy<Value = Duration> {
    (1..100u64).prop_map(Duration::from_secs)
}

fn owner() -> impl Strategy<Value = String> {
    prop_oneof!["first", "second"]
}

fn token() -> impl Strategy<Value = Token> {
    (owner(), 1..3u32).prop_map(|(owner, attempt)| Token { owner, attempt })
}

fn status() -> impl Strategy<Value = Status> {
    prop::sample::select(Status::ALL.to_vec())
}

fn progress() -> impl Strategy<Value = Progress> {
    (1..5u64, prop_oneof![0..5u64, Just(u64::MAX)], 0..5u64).prop_map(|(done, in_doubt, repeated)| Progress {
        done,
        in_doubt,
        repeated,
    })
}

/// Generates the progress that a takeover expects in the record, whose own progress may differ.
fn progress_seen() -> impl Strategy<Value = Progress> {
    (0..3u64, prop_oneof![0..5u64, Just(u64::MAX)], 0..2u64).prop_map(|(done, in_doubt, repeated)| Progress {
        done,
        in_doubt,
        repeated,
    })
}

/// Generates the progress of a failed attempt, in a quarter of the cases without any unit done or
/// in doubt.
fn failed_with() -> impl Strategy<Value = Progress> {
    let nothing = (0..5u64).prop_map(|repeated| Progress { done: 0, in_doubt: 0, repeated });
    prop_oneof![3 => progress(), 1 => nothing]
}

fn place_history() -> impl Strategy<Value = PlaceHistory> {
    let place = ("[ab]", "[ab]").prop_map(|(id, name)| Place { id, name });
    let left = (prop::option::of("[ab]"), 0..5u64, prop_oneof![0..5u64, Just(u64::MAX)])
        .prop_map(|(name, done, in_doubt)| ProgressLeftBehind { name, done, in_doubt });
    (prop::option::weighted(0.8, place), prop::collection::vec(left, 0..3))
        .prop_map(|(place, left_behind)| PlaceHistory { place, left_behind })
}

fn response() -> impl Strategy<Value = StoredResponse> {
    let body = prop_oneof![
        "[a-z]{0,5}".prop_map(Body::Text),
        prop::collection::vec(any::<u8>(), 1..5).prop_map(Body::Gzip),
        "[a-z/]{1,5}".prop_map(Body::Object),
    ];
    (200..210u16, body).prop_map(|(status, body)| StoredResponse {
        status,
        headers: BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]),
        digest: "sha-256=:0:".to_owned(),
        body,
    })
}

fn transition() -> impl Strategy<Value = Transition> {
    prop_oneof![
        (owner(), at(), retention()).prop_map(|(owner, now, retention)| Transition::Claim {
            request_hash: "aa".to_owned(),
            owner,
            now,
            retention
        }),
        (token(), status(), owner(), at(), retention(), progress_seen(), place_history()).prop_map(
            |(seen, seen_status, owner, now, retention, progress, place_history)| Transition::TakeOver {
                seen,
                seen_status,
                owner,
                now,
                retention,
                progress,
                place_history,
                first_trace_id: None
            }
        ),
        (token(), progress(), place_history(), at()).prop_map(|(token, progress, place_history, now)| {
            Transition::Checkpoint { token, progress, place_history, now }
        }),
        (token(), response(), at()).prop_map(|(token, response, now)| Transition::Prepare {
            token,
            response,
            now
        }),
        (token(), prop::option::of(response()), at(), retention()).prop_map(
            |(token, response, now, retention)| Transition::Complete { token, response, now, retention }
        ),
        (token(), failed_with(), place_history(), at(), retention()).prop_map(
            |(token, progress, place_history, now, retention)| Transition::Fail {
                token,
                progress,
                place_history,
                now,
                retention
            }
        ),
    ]
}

async fn table() -> (Client, String) {
    let sdk = runtime::Sdk::from_environment().await;
    let dynamodb = Client::new(sdk.standard());
    let name = format!("protocol-{}", uuid::Uuid::new_v4());
    let attribute = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::S)
        .build()
        .unwrap();
    let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build().unwrap();
    let create = dynamodb.create_table().table_name(&name).billing_mode(BillingMode::PayPerRequest);
    create.attribute_definitions(attribute).key_schema(key).send().await.unwrap();
    (dynamodb, name)
}

/// Applies each transition to the table and to the protocol, and asserts that both accept or refuse
/// it and hold the same record afterwards.
async fn compare(dynamodb: &Client, table: &str, transitions: Vec<Transition>) -> Result<(), TestCaseError> {
    let pk = uuid::Uuid::new_v4().to_string();
    let mut expected: Option<Record> = None;
    for transition in transitions {
        let after = transition.apply(expected.as_ref());
        let written = match write(dynamodb, table, &pk, &transition, Detail::None).await {
            Err(StoreError::Unreadable(_)) if expected.is_none() => Err(None),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
            Ok(written) => written.map_err(Some),
        };
        match after {
            Some(after) => {
                prop_assert_eq!(written, Ok(()), "{:?} on {:?}", transition, expected);
                expected = Some(after);
            }
            None => prop_assert_eq!(written, Err(expected.clone()), "{:?}", transition),
        }
        let item =
            dynamodb.get_item().table_name(table).key("pk", text(&pk)).consistent_read(true).send().await;
        let found = item.unwrap().item.map(record).transpose().unwrap();
        prop_assert_eq!(&found, &expected, "after {:?}", transition);
    }
    Ok(())
}

#[test]
fn an_update_has_a_placeholder_for_each_name_of_one_word_and_for_no_other() {
    let (token, now) = (Token { owner: "first".to_owned(), attempt: 1 }, Timestamp::UNIX_EPOCH);
    let to = doubt_noted(&token, now);
    assert_eq!(to.update(), "SET doubtNotedAt = :doubtNotedAt");
    let complete = Transition::Complete { token, response: None, now, retention: Duration::ZERO };
    let to = expression(&complete, Detail::Took { took: Duration::ZERO, volume: None });
    let mut names: Vec<_> = to.names.iter().map(|(mark, name)| (mark.as_str(), name.as_str())).collect();
    names.sort_unstable();
    let expected = [("#attempt", "attempt"), ("#owner", "owner"), ("#status", "status"), ("#ttl", "ttl")];
    assert_eq!(names, expected);
    assert!(to.update().contains("#ttl = :ttl, leaseExpiresAt = :leaseExpiresAt"), "{}", to.update());
}

#[test]
fn an_end_notes_its_volume_and_one_without_leaves_that_of_an_earlier_attempt() {
    let (token, now) = (Token { owner: "first".to_owned(), attempt: 1 }, Timestamp::UNIX_EPOCH);
    let (took, retention) = (Duration::ZERO, Duration::ZERO);
    let complete = Transition::Complete { token, response: None, now, retention };
    let volume = Some(Volume { messages: 3, bytes: 42 });
    for detail in
        [Detail::Took { took, volume }, Detail::Failed { took, volume, error: "no broker", in_doubt: 0 }]
    {
        let to = expression(&complete, detail);
        assert!(to.update().contains("#messages = :messages, #bytes = :bytes"), "{}", to.update());
        assert_eq!((&to.values[":messages"], &to.values[":bytes"]), (&number(3), &number(42)));
    }
    let to = expression(&complete, Detail::Took { took, volume: None });
    assert!(!to.update().contains("messages"), "{}", to.update());
}

#[test]
fn the_table_does_what_the_protocol_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (dynamodb, table) = runtime.block_on(table());
    let mut runner = TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    // A claim first, or nearly nothing would ever be written.
    let claim = transition().prop_filter("a claim", |first| matches!(first, Transition::Claim { .. }));
    let cases = (prop::option::weighted(0.9, claim), prop::collection::vec(transition(), 1..8));
    let outcome = runner.run(&cases, |(claim, rest)| {
        runtime.block_on(compare(&dynamodb, &table, claim.into_iter().chain(rest).collect()))
    });
    runtime.block_on(dynamodb.delete_table().table_name(&table).send()).unwrap();
    outcome.unwrap();
}
