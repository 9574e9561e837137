//! Tests of claims and takeovers, and of late writes by executions that no longer own the record.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency::{
    AuditEvent, ClaimRequest, Claimed, Fingerprint, Outcome, Progress, ReuseLimits, StoreError, Volume,
    WriteOutcome,
};
use serde_json::json;

use crate::support::{Asked, TestStore, prepared, response};

#[tokio::test]
async fn what_is_done_is_replayed_and_another_body_is_refused_in_every_state() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({"a": 1}));
    let other = asked.with_body(&json!({"a": 2}));
    let execution = test.execution(&asked).await;
    assert_eq!(test.store.claim(&other.request()).await.unwrap(), Claimed::Conflict);
    assert!(matches!(test.store.claim(&asked.request()).await.unwrap(), Claimed::InProgress { .. }));
    test.store.prepare(&execution, &prepared("done")).await.unwrap();
    assert_eq!(test.store.claim(&other.request()).await.unwrap(), Claimed::Conflict);
    test.store.end(&execution, &Outcome::AsPrepared).await.unwrap();
    assert_eq!(test.replayed(&asked).await, prepared("done").into_response());
    assert_eq!(test.store.claim(&other.request()).await.unwrap(), Claimed::Conflict);
    let expected = [
        AuditEvent::Claimed,
        AuditEvent::Conflict,
        AuditEvent::InProgress,
        AuditEvent::Conflict,
        AuditEvent::Replayed,
        AuditEvent::Conflict,
    ];
    assert_eq!(test.heard(), expected);
    test.remove().await;
}

#[tokio::test]
async fn a_look_finds_what_a_claim_would_find_and_writes_nothing() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({"a": 1}));
    let other = asked.with_body(&json!({"a": 2}));
    let look = async |asked: &Asked| test.store.look(&asked.request()).await.unwrap();
    assert_eq!(look(&asked).await, None);
    assert_eq!(test.attribute(&asked, "pk").await, None, "a look makes no record");

    let execution = test.execution(&asked).await;
    assert!(matches!(look(&asked).await, Some(Claimed::InProgress { .. })));
    assert_eq!(look(&other).await, Some(Claimed::Conflict));
    test.end_lease(&asked).await;
    assert_eq!(look(&asked).await, None, "a claim would take it over");
    assert_eq!(test.attribute(&asked, "attempt").await, Some(AttributeValue::N("1".to_owned())));

    test.store.end(&execution, &Outcome::Completed(response("done"))).await.unwrap();
    assert_eq!(look(&other).await, Some(Claimed::Conflict));
    let Some(Claimed::Replay { response: replayed, .. }) = look(&asked).await else { panic!() };
    assert_eq!(replayed, response("done"));
    let limits = ReuseLimits { per_key: 1, ..ReuseLimits::default() };
    let strict = test.store.clone().with_reuse_limits(limits);
    let claimed = strict.claim(&other.request()).await.unwrap();
    assert_eq!(claimed, Claimed::Conflict, "a look counts no conflict");

    // The retention has passed: the key may be used again.
    let past = AttributeValue::S("2020-01-01T00:00:00.000Z".to_owned());
    test.set(&asked, "expiresAt", past).await;
    assert_eq!((look(&asked).await, look(&other).await), (None, None));
    test.remove().await;
}

#[tokio::test]
async fn a_look_of_a_caller_with_other_rights_sees_no_response() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({"a": 1}));
    let [mine, others] = ["mine", "others"].map(|rights| Fingerprint::of(&json!(rights)).unwrap());
    let with = |rights| ClaimRequest { rights, ..asked.request() };
    let Claimed::Execute(execution) = test.store.claim(&with(Some(&mine))).await.unwrap() else { panic!() };
    test.store.end(&execution, &Outcome::Completed(response("done"))).await.unwrap();
    for rights in [Some(&others), None] {
        assert_eq!(test.store.look(&with(rights)).await.unwrap(), Some(Claimed::OtherRights));
    }
    let own = test.store.look(&with(Some(&mine))).await.unwrap();
    assert!(matches!(own, Some(Claimed::Replay { .. })));
    test.remove().await;
}

#[tokio::test]
async fn a_caller_with_other_rights_is_refused_in_every_state() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({"a": 1}));
    let [mine, others] = ["mine", "others"].map(|rights| Fingerprint::of(&json!(rights)).unwrap());
    let with = |rights| ClaimRequest { rights, ..asked.request() };
    let Claimed::Execute(execution) = test.store.claim(&with(Some(&mine))).await.unwrap() else { panic!() };
    let other_body = asked.with_body(&json!({"a": 2}));
    let other_body = ClaimRequest { rights: Some(&others), ..other_body.request() };
    let refuses_others = async || {
        for rights in [Some(&others), None] {
            assert_eq!(test.store.claim(&with(rights)).await.unwrap(), Claimed::OtherRights);
        }
        assert_eq!(test.store.claim(&other_body).await.unwrap(), Claimed::Conflict, "it outranks the rights");
    };
    refuses_others().await;
    test.store.prepare(&execution, &prepared("done")).await.unwrap();
    refuses_others().await;
    test.store.end(&execution, &Outcome::AsPrepared).await.unwrap();
    refuses_others().await;
    assert!(matches!(test.store.claim(&with(Some(&mine))).await.unwrap(), Claimed::Replay { .. }));
    test.remove().await;
}

#[tokio::test]
async fn a_takeover_keeps_whose_record_it_is() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let [mine, others] = ["mine", "others"].map(|rights| Fingerprint::of(&json!(rights)).unwrap());
    let with = |rights| ClaimRequest { rights, ..asked.request() };
    let claimed = async |rights| test.store.claim(&with(rights)).await.unwrap();
    let Claimed::Execute(first) = claimed(Some(&mine)).await else { panic!() };
    let failed = Outcome::Failed { error: String::new(), progress: Progress::default(), in_doubt: 0 };
    test.store.end(&first, &failed).await.unwrap();
    assert_eq!(claimed(Some(&others)).await, Claimed::OtherRights);
    assert!(matches!(claimed(Some(&mine)).await, Claimed::Execute(second) if second.earlier_attempts() == 1));
    assert_eq!(claimed(Some(&others)).await, Claimed::OtherRights);
    test.remove().await;
}

#[tokio::test]
async fn a_record_that_names_no_rights_answers_every_caller() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let execution = test.execution(&asked).await;
    test.store.end(&execution, &Outcome::Completed(response("done"))).await.unwrap();
    let rights = Fingerprint::of(&json!("mine")).unwrap();
    for rights in [None, Some(&rights)] {
        let claimed = test.store.claim(&ClaimRequest { rights, ..asked.request() }).await.unwrap();
        assert!(matches!(claimed, Claimed::Replay { .. }), "{rights:?}");
    }
    test.remove().await;
}

#[tokio::test]
async fn an_execution_that_was_taken_over_writes_nothing_more() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let first = test.execution(&asked).await;
    let progress = Progress { done: 3, in_doubt: 0, repeated: 0 };
    assert_eq!(test.store.checkpoint(&first, progress).await.unwrap(), WriteOutcome::Applied);
    test.end_lease(&asked).await;
    let second = test.execution(&asked).await;
    assert_eq!(second.progress, Progress { done: 3, in_doubt: u64::MAX, repeated: 0 });
    assert_eq!(second.created_at, first.created_at);
    let late = Progress { done: 9, in_doubt: 0, repeated: 0 };
    let failed = Outcome::Failed { error: "late".to_owned(), progress: late, in_doubt: 0 };
    assert_eq!(test.store.checkpoint(&first, late).await.unwrap(), WriteOutcome::Fenced);
    assert_eq!(test.store.prepare(&first, &prepared("late")).await.unwrap(), WriteOutcome::Fenced);
    assert_eq!(test.store.end(&first, &failed).await.unwrap(), WriteOutcome::Fenced);
    let done = Outcome::Completed(response("late"));
    assert_eq!(test.store.end(&first, &done).await.unwrap(), WriteOutcome::Fenced);
    let done = Outcome::Completed(response("in time"));
    assert_eq!(test.store.end(&second, &done).await.unwrap(), WriteOutcome::Applied);
    assert_eq!(test.replayed(&asked).await, response("in time"));
    let heard = test.heard();
    assert_eq!(heard.iter().filter(|event| **event == AuditEvent::Fenced).count(), 4, "{heard:?}");
    test.remove().await;
}

/// Covers a checkpoint with more possible duplicates, but without more units done. An attempt to
/// move messages writes such a checkpoint if a queue refuses messages before any is moved.
#[tokio::test]
async fn a_checkpoint_that_counts_more_is_noted_though_nothing_more_is_done() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let first = test.execution(&asked).await;
    for repeated in [2, 5] {
        let counted = Progress { repeated, ..first.progress };
        assert_eq!(test.store.checkpoint(&first, counted).await.unwrap(), WriteOutcome::Applied);
    }
    test.end_lease(&asked).await;
    let second = test.execution(&asked).await;
    assert_eq!(second.progress, Progress { done: 0, in_doubt: u64::MAX, repeated: 5 });
    test.remove().await;
}

#[tokio::test]
async fn a_write_that_is_sent_twice_is_one_write() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let execution = test.execution(&asked).await;
    for _ in 0..2 {
        assert_eq!(test.store.prepare(&execution, &prepared("done")).await.unwrap(), WriteOutcome::Applied);
    }
    for _ in 0..2 {
        assert_eq!(test.store.end(&execution, &Outcome::AsPrepared).await.unwrap(), WriteOutcome::Applied);
    }
    test.remove().await;
}

#[tokio::test]
async fn a_failure_keeps_the_checkpoint_and_what_is_in_doubt() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let first = test.execution(&asked).await;
    let progress = Progress { done: 4, in_doubt: 2, repeated: 1 };
    test.store
        .end(&first, &Outcome::Failed { error: "cut".to_owned(), progress, in_doubt: 2 })
        .await
        .unwrap();
    assert_eq!(test.execution(&asked).await.progress, progress);
    test.remove().await;
}

#[tokio::test]
async fn a_record_names_the_first_caller_and_the_last_volume_that_is_known() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let first = test.execution(&asked).await;
    let failed = Outcome::Failed { error: "cut".to_owned(), progress: Progress::default(), in_doubt: 0 };
    let volume = Some(Volume { messages: 3, bytes: 42 });
    test.store.end_measured(&first, &failed, volume).await.unwrap();
    let claim = ClaimRequest { key_name: "till 2", ..asked.request() };
    let Claimed::Execute(second) = test.store.claim(&claim).await.unwrap() else { panic!() };
    test.store.end(&second, &Outcome::Completed(response("done"))).await.unwrap();
    let number = |n: &str| Some(AttributeValue::N(n.to_owned()));
    assert_eq!(test.attribute(&asked, "messages").await, number("3"), "the retry knew none");
    assert_eq!(test.attribute(&asked, "bytes").await, number("42"));
    assert_eq!(test.attribute(&asked, "keyName").await, Some(AttributeValue::S("till 1".to_owned())));
    test.remove().await;
}

#[tokio::test]
async fn a_prepared_response_is_answered_after_its_lease_and_not_executed() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let first = test.execution(&asked).await;
    test.store.prepare(&first, &prepared("stored")).await.unwrap();
    test.end_lease(&asked).await;
    let Claimed::InDoubt { execution, response: stored } = test.store.claim(&asked.request()).await.unwrap()
    else {
        panic!("not in doubt");
    };
    assert_eq!(stored.body, r#"{"deliveryInDoubt":true,"text":"stored"}"#);
    test.store.end(&execution, &Outcome::Completed(response("in doubt"))).await.unwrap();
    assert_eq!(test.store.end(&first, &Outcome::AsPrepared).await.unwrap(), WriteOutcome::Fenced);
    assert_eq!(test.replayed(&asked).await, response("in doubt"));
    test.remove().await;
}

/// Checks that a prepared response without the member `deliveryInDoubt` is an error, because it
/// cannot be labelled as in doubt. The test alters the record by hand.
#[tokio::test]
async fn a_prepared_response_without_a_label_is_an_error_and_stays_as_it_is() {
    let test = TestStore::make().await;
    let asked = Asked::new(&json!({}));
    let execution = test.execution(&asked).await;
    let done = Outcome::Completed(response(r#"{"text":"stored","deliveryInDoubt":false}"#));
    test.store.end(&execution, &done).await.unwrap();
    for _ in 0..2 {
        test.set(&asked, "status", AttributeValue::S("PREPARED".to_owned())).await;
        test.end_lease(&asked).await;
        let error = test.store.claim(&asked.request()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unlabelled(_)), "{error}");
    }
    let status = test.attribute(&asked, "status").await;
    assert_eq!(status, Some(AttributeValue::S("PREPARED".to_owned())));
    let heard = test.heard();
    assert_eq!(heard.iter().filter(|event| **event == AuditEvent::Unreadable).count(), 2, "{heard:?}");
    test.remove().await;
}

#[tokio::test]
async fn a_record_that_is_kept_for_a_second_does_not_expire_before_its_lease() {
    let test = TestStore::make().await;
    let asked = Asked { retention: Duration::from_secs(1), ..Asked::new(&json!({})) };
    let first = test.execution(&asked).await;
    does_not_expire_in_its_lease(&test, &asked).await;
    let failed = Outcome::Failed { error: String::new(), progress: Progress::default(), in_doubt: 0 };
    test.store.end(&first, &failed).await.unwrap();
    test.execution(&asked).await;
    does_not_expire_in_its_lease(&test, &asked).await;
    test.remove().await;
}

async fn does_not_expire_in_its_lease(test: &TestStore, asked: &Asked) {
    let number = async |name| match test.attribute(asked, name).await {
        Some(AttributeValue::N(number)) => number.parse::<i64>().unwrap(),
        other => panic!("{name}: {other:?}"),
    };
    let lease = number("leaseExpiresAt").await;
    assert!(number("ttl").await * 1000 >= lease);
    let Some(AttributeValue::S(expires_at)) = test.attribute(asked, "expiresAt").await else {
        panic!("no expiresAt")
    };
    assert!(expires_at.parse::<jiff::Timestamp>().unwrap().as_millisecond() >= lease);
}
