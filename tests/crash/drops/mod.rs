//! Tests of `drop-intake` that dies at each step of taking an object into a batch, or whose object
//! is replaced meanwhile. Each version that is announced again always ends as one batch: one id,
//! one batch item, one payload.

mod intake;

use end_to_end::TENANT_A;
use serde_json::{Value, json};
use uuid::Uuid;

use self::intake::Intake;
use crate::crash::stand::faults::Op;
use crate::crash::stand::function::Invoked;

/// Writes for one object, in order: claim, batch item, result, tags, copy of the content, end of
/// the record. The number counts the earlier writes of the same kind.
const STEPS: [(Op, usize); 6] = [
    (Op::Claim, 0),
    (Op::PutBatch, 0),
    (Op::PutObject, 0),
    (Op::PutObject, 1),
    (Op::PutObject, 2),
    (Op::Complete, 0),
];
const COPY: (Op, usize) = STEPS[4];

fn key(name: &str) -> String {
    format!("drop/{TENANT_A}/delta/{name}.json")
}

#[tokio::test]
async fn an_object_survives_a_crash_at_every_step() {
    let intake = Intake::start().await;
    for (index, (op, nth)) in STEPS.into_iter().enumerate() {
        for before in [true, false] {
            let what = format!("{} {op:?} {nth}", if before { "before" } else { "after" });
            let (key, content) = (key(&format!("{index}-{before}")), format!("[{index}]"));
            let idempotency_key = intake.put(&key, &content).await;
            let held = if before {
                intake.faults.hold_nth_request(op, nth)
            } else {
                intake.faults.hold_nth_answer(op, nth)
            };
            intake.die(&key, held).await;
            intake.age(&idempotency_key).await;
            assert!(intake.announce(&key).await, "{what}");
            intake.is_one_batch(&key, &idempotency_key, &content, &what).await;
            assert!(intake.announce(&key).await, "{what}");
            intake.is_one_batch(&key, &idempotency_key, &content, &what).await;
        }
    }
}

#[tokio::test]
async fn an_object_that_is_replaced_while_it_is_taken_is_another_batch_and_no_mixture() {
    let intake = Intake::start().await;
    let key = key("replaced");
    let first = intake.put(&key, "[1]").await;
    let (op, nth) = COPY;
    let mut held = intake.faults.hold_nth_request(op, nth);
    let (function, event) = (intake.function.clone(), intake.event(&key));
    let sent = tokio::spawn(async move { function.invoke(event.into()).await });
    held.reached().await;
    let second = intake.put(&key, "[1,2]").await;
    assert_ne!(first, second);
    held.release();
    let Invoked::Answered(answer) = sent.await.unwrap() else { panic!() };
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["batchItemFailures"], json!([{"itemIdentifier": "m-1"}]));
    // Nobody will ever put the first version's payload.
    let batches = intake.batches(&first).await;
    assert_eq!(batches[0]["status"].as_s().unwrap(), "AWAITING_UPLOAD");
    assert!(intake.payloads(batches[0]["batchId"].as_s().unwrap()).await.is_empty());
    assert!(intake.announce(&key).await);
    intake.is_one_batch(&key, &second, "[1,2]", "the second version").await;
}

#[tokio::test]
async fn what_a_tenant_may_do_later_changes_no_decision_about_a_version() {
    let (intake, tenant) = (Intake::start().await, Uuid::new_v4().to_string());
    let key = |name: &str| format!("drop/{tenant}/delta/{name}.json");
    let said = async |key: &str| (intake.result(key).await, intake.tags(key).await);

    intake.grant(&tenant, true).await;
    intake.put(&key("accepted"), "[1]").await;
    assert!(intake.announce(&key("accepted")).await);
    let accepted = said(&key("accepted")).await;
    assert_eq!((&accepted.0["status"], accepted.1["drop"].as_str()), (&json!("RECEIVED"), "accepted"));
    // An attempt that died has decided, too.
    let unfinished = intake.put(&key("unfinished"), "[1]").await;
    intake.die(&key("unfinished"), intake.faults.hold_nth_answer(Op::PutBatch, 0)).await;

    intake.grant(&tenant, false).await;
    assert!(intake.announce(&key("accepted")).await);
    assert_eq!(said(&key("accepted")).await, accepted);
    intake.end_lease(&tenant, &unfinished).await;
    assert!(intake.announce(&key("unfinished")).await);
    assert_eq!(said(&key("unfinished")).await.1["drop"], "accepted");
    intake.put(&key("refused"), "[1]").await;
    assert!(intake.announce(&key("refused")).await);
    let refused = said(&key("refused")).await;
    assert_eq!((&refused.0["status"], refused.1["drop"].as_str()), (&json!("REFUSED"), "refused"));

    intake.grant(&tenant, true).await;
    assert!(intake.announce(&key("refused")).await);
    assert_eq!(said(&key("refused")).await, refused);
    intake.put(&key("refused"), "[1,2]").await;
    assert!(intake.announce(&key("refused")).await);
    assert_eq!(said(&key("refused")).await.0["status"], "RECEIVED");
    intake.grant(&tenant, false).await;
}

/// Checks that an older version which is announced late becomes a batch, but gets no result, and
/// that its batch counts as received earlier. Otherwise it would replace products and result of the
/// newer version.
#[tokio::test]
async fn a_version_that_is_announced_after_its_successor_is_an_earlier_batch_without_a_result() {
    let intake = Intake::start().await;
    intake.keep_versions().await;
    let key = key("versions");
    let (older, older_key) = intake.put_version(&key, "[1]").await;
    let (newer, newer_key) = intake.put_version(&key, "[1,2]").await;
    assert!(intake.is_done(intake.event_of(&key, Some(&newer))).await);
    let newest = intake.batch_of(&newer_key).await;
    let result = intake.result(&key).await;
    assert_eq!((&result["batch_id"], &result["object"]["version_id"]), (&json!(newest), &json!(newer)));

    let late = intake.event_of(&key, Some(&older));
    for (op, nth) in [(Op::PutBatch, 0), COPY] {
        let held = intake.faults.hold_nth_answer(op, nth.saturating_sub(1));
        intake.die_of(late.clone(), held).await;
        intake.age(&older_key).await;
    }
    assert!(intake.is_done(late.clone()).await);
    assert!(intake.is_done(late).await);
    let earlier = intake.batch_of(&older_key).await;
    // Ids of batches are in the order of their receipt.
    assert!(earlier < newest, "{earlier} {newest}");
    let payloads = intake.payloads(&earlier).await;
    assert_eq!((payloads.len(), intake.get(&payloads[0]).await), (1, b"[1]".to_vec()));
    assert_eq!(intake.result(&key).await, result);
    assert_eq!(intake.tags(&key).await["batch"], newest);

    // A later version that is deleted leaves the attempt's decision as it was.
    let (third, third_key) = intake.put_version(&key, "[3]").await;
    let (fourth, _) = intake.put_version(&key, "[4]").await;
    let event = intake.event_of(&key, Some(&third));
    intake.die_of(event.clone(), intake.faults.hold_nth_answer(Op::PutBatch, 0)).await;
    intake.age(&third_key).await;
    intake.s3.delete_object().bucket(&intake.bucket).key(&key).version_id(fourth).send().await.unwrap();
    assert!(intake.is_done(event).await);
    intake.batch_of(&third_key).await;
}

/// Checks that an older version which is refused gets tags, and that the object's result stays that
/// of the newer version.
#[tokio::test]
async fn an_older_version_that_is_refused_has_tags_and_no_result() {
    let intake = Intake::start().await;
    intake.keep_versions().await;
    let key = format!("drop/{TENANT_A}/all/versions.json");
    let (older, _) = intake.put_version(&key, "[1]").await;
    let (newer, _) = intake.put_version(&key, "[2]").await;
    for version in [&newer, &older] {
        assert!(intake.is_done(intake.event_of(&key, Some(version))).await);
        assert_eq!(intake.result(&key).await["object"]["version_id"], json!(newer));
        let tags = intake.s3.get_object_tagging().bucket(&intake.bucket).key(&key).version_id(version);
        assert!(tags.send().await.unwrap().tag_set.iter().any(|tag| tag.value == "KEY_UNKNOWN"));
    }
}

#[tokio::test]
async fn deliveries_side_by_side_make_one_batch() {
    let intake = Intake::start().await;
    let key = key("twice");
    let idempotency_key = intake.put(&key, "[]").await;
    let both = tokio::join!(intake.announce(&key), intake.announce(&key), intake.announce(&key));
    assert!(both.0 || both.1 || both.2, "one of them took it");
    assert!(intake.announce(&key).await);
    intake.is_one_batch(&key, &idempotency_key, "[]", "announced four times").await;
}

#[tokio::test]
async fn a_refusal_is_published_at_least_once_and_tagged_when_it_was() {
    let intake = Intake::start().await;
    let key = format!("drop/{TENANT_A}/all/refused.json");
    intake.put(&key, "[]").await;
    intake.bus.go_away(true);
    assert!(!intake.announce(&key).await);
    assert_eq!(intake.result(&key).await["status"], "REFUSED");
    assert!(intake.tags(&key).await.is_empty(), "reconcile would announce it again");

    intake.bus.go_away(false);
    let held = intake.faults.hold_nth_request(Op::PutObject, 1);
    intake.die(&key, held).await;
    assert!(intake.announce(&key).await);
    assert_eq!(intake.tags(&key).await["reason"], "KEY_UNKNOWN");
    let events = intake.bus.on_the_bus();
    let [first, second] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&first["id"], &first["data"]), (&second["id"], &second["data"]));
    assert_eq!((&first["type"], &first["tenant"]), (&json!("integrahub.drop.refused"), &json!(TENANT_A)));
}
