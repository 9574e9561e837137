//! Tests of produces whose retry goes to another place than the first attempt: to another queue, or
//! to another cluster behind the same address.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{Access, Answer, Queue, TENANT_A};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::crash::journey::{settled, told};
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::{Asked, Operation, Stand};

const COUNT: u64 = 60;
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the body of a produce that takes 1.5 s, long enough to record its progress.
fn paced() -> Value {
    json!({"batch": {"count": COUNT, "rateLimitPerSec": 40}})
}

/// Produce through a target profile, whose queue an operator changes between two attempts.
struct Moving {
    asked: Asked,
    profile: String,
}

impl Moving {
    async fn new(stand: &Stand, queue: &Queue) -> Self {
        let profile = format!("moving-{}", Uuid::new_v4());
        let mut asked = stand.request(Operation::Produce, queue, paced());
        let target = asked.body.as_object_mut().unwrap().remove("target").unwrap();
        asked.body["targetRef"] = json!(profile);
        let this = Self { asked, profile };
        this.write(&target).await;
        this
    }

    async fn point_at(&self, stand: &Stand, queue: &Queue) {
        let mut target = stand.request(Operation::Produce, queue, json!({})).body;
        self.write(&target["target"].take()).await;
        // What a function remembers of a profile ends with its process.
        stand.front(Operation::Produce).end_idle();
    }

    async fn write(&self, target: &Value) {
        let pk = format!("PROFILE#{TENANT_A}#{}", self.profile);
        Access::open().await.put(&json!({"pk": pk, "target": target})).await;
    }
}

/// Sends a produce, and kills `mq-access` once the record shows progress on `queue`. Returns the
/// number of messages on the queue then.
pub(crate) async fn killed_after_a_checkpoint(stand: &mut Stand, asked: &Asked, queue: &Queue) -> u64 {
    let name = AttributeValue::S(format!("/:{}", queue.name));
    let owner = stand.record(asked).await.and_then(|record| record.get("owner").cloned());
    let reply = stand.ask_later(asked);
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < PATIENCE && !reply.is_finished(), "no checkpoint is noted");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let record = stand.record(asked).await.unwrap_or_default();
        let some = record.get("checkpoint").is_some_and(|done| *done != AttributeValue::N("0".to_owned()));
        if some && record.get("placeName") == Some(&name) && record.get("owner") != owner.as_ref() {
            break;
        }
    }
    stand.mq_access.kill();
    assert_eq!(told(&reply.await.unwrap().answer), "502 OUTCOME_IN_DOUBT");
    stand.heal().await;
    stand.age(asked).await;
    // What was under way when the function died may still arrive.
    let mut there = stand.broker.ready(queue).await;
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = stand.broker.ready(queue).await;
        if now == there {
            return u64::try_from(there).unwrap();
        }
        there = now;
    }
}

async fn checkpoint(stand: &Stand, asked: &Asked) -> u64 {
    stand.record(asked).await.unwrap()["checkpoint"].as_n().unwrap().parse().unwrap()
}

/// Checks that the response reports all messages as put on `queue` from the beginning. Returns its
/// member `elsewhere`, which lists messages of earlier attempts at other places.
fn assert_begun_again(answer: &Answer, queue: &Queue) -> Vec<Value> {
    assert_eq!(told(answer), "201");
    let answer = answer.json();
    assert_eq!(answer["target"], format!("/:{}", queue.name));
    let numbers =
        ["enqueued", "resumedFrom", "possibleDuplicates"].map(|name| answer[name].as_u64().unwrap());
    assert_eq!(numbers, [COUNT, 0, COUNT], "{answer}");
    let elsewhere = answer["elsewhere"].as_array().unwrap().clone();
    for left in &elsewhere {
        let said = format!(
            "put {} messages, and perhaps {} more, on `{}`",
            left["enqueued"],
            left["inDoubt"],
            left["target"].as_str().unwrap()
        );
        assert!(answer["warnings"].to_string().contains(&said), "{said}: {}", answer["warnings"]);
    }
    elsewhere
}

async fn assert_whole(stand: &Stand, queue: &Queue, more: u64) {
    let messages = settled(stand, queue).await;
    let sequences: BTreeSet<_> =
        messages.iter().map(|found| u64::try_from(found.sequence().unwrap()).unwrap()).collect();
    assert_eq!(sequences, (0..COUNT).collect(), "messages are missing on {}", queue.name);
    assert_eq!(u64::try_from(messages.len()).unwrap(), COUNT + more);
}

#[tokio::test]
async fn a_retry_on_another_queue_begins_again_and_says_what_is_where() {
    let mut stand = Stand::start().await;
    let (a, b) = (stand.broker.queue().await, stand.broker.queue().await);
    let moving = Moving::new(&stand, &a).await;
    let on_a = killed_after_a_checkpoint(&mut stand, &moving.asked, &a).await;
    let noted_on_a = checkpoint(&stand, &moving.asked).await;
    assert!(noted_on_a > 0 && noted_on_a <= on_a && on_a < COUNT, "{noted_on_a} of {on_a}");

    // An attempt that reaches no broker says where the messages are, and claims none on the new
    // queue.
    moving.point_at(&stand, &b).await;
    stand.stop_broker().await;
    let failed = stand.ask(&moving.asked).await.answer;
    assert_eq!(
        (told(&failed).as_str(), failed.json()["enqueued"].as_u64()),
        ("503 BROKER_UNREACHABLE", Some(0))
    );
    let left_on_a = json!({"target": format!("/:{}", a.name), "enqueued": noted_on_a, "inDoubt": COUNT});
    assert_eq!(failed.json()["elsewhere"], json!([left_on_a]));
    stand.heal().await;

    // One that dies on the new queue leaves that behind too.
    let on_b = killed_after_a_checkpoint(&mut stand, &moving.asked, &b).await;
    let noted_on_b = checkpoint(&stand, &moving.asked).await;
    assert!(noted_on_b > 0 && noted_on_b <= on_b);

    moving.point_at(&stand, &a).await;
    let done = stand.ask(&moving.asked).await.answer;
    let elsewhere = assert_begun_again(&done, &a);
    let left_on_b = json!({"target": format!("/:{}", b.name), "enqueued": noted_on_b, "inDoubt": COUNT});
    assert_eq!(elsewhere, [left_on_a, left_on_b]);
    let replay = stand.ask(&moving.asked).await.answer;
    assert_eq!((replay.header("idempotent-replay"), &replay.bytes), (Some("true"), &done.bytes));
    assert_whole(&stand, &a, on_a).await;
    assert_eq!(u64::try_from(settled(&stand, &b).await.len()).unwrap(), on_b);
    for queue in [a, b] {
        stand.broker.delete(&queue).await;
    }
}

/// Checks retries of a produce whose earlier attempt connected to another broker of the same
/// `connName`, although the two brokers are no cluster.
#[tokio::test]
async fn a_retry_at_another_cluster_begins_again_and_at_the_same_one_goes_on() {
    let mut stand = Stand::start().await;
    let queue = stand.broker.queue().await;
    let asked = stand.request(Operation::Produce, &queue, paced());
    let before = killed_after_a_checkpoint(&mut stand, &asked, &queue).await;
    let noted = checkpoint(&stand, &asked).await;
    stand.network.name_cluster(Some(b'!'));
    let done = stand.ask(&asked).await.answer;
    let left = json!({"target": format!("/:{}", queue.name), "enqueued": noted, "inDoubt": COUNT});
    assert_eq!(assert_begun_again(&done, &queue), [left]);
    assert_whole(&stand, &queue, before).await;

    stand.network.name_cluster(None);
    stand.mq_access.end_idle();
    stand.mq_access.warm().await;
    let again = stand.request(Operation::Produce, &queue, paced());
    killed_after_a_checkpoint(&mut stand, &again, &queue).await;
    let done = stand.ask(&again).await.answer;
    assert_eq!((told(&done).as_str(), &done.json()["elsewhere"]), ("201", &json!([])));
    assert!(done.json()["resumedFrom"].as_u64().unwrap() > 0);
    stand.broker.delete(&queue).await;
}

/// Checks that a retry puts nothing at another place before the record names that place. Otherwise,
/// after a crash there, a third attempt would take the old place for the last one.
#[tokio::test]
async fn nothing_is_put_at_another_place_before_the_record_says_so() {
    let mut stand = Stand::start().await;
    let queue = stand.broker.queue().await;
    let asked = stand.request(Operation::Produce, &queue, paced());
    let before = killed_after_a_checkpoint(&mut stand, &asked, &queue).await;
    let recorded = stand.record(&asked).await.unwrap();
    stand.network.name_cluster(Some(b'!'));
    stand.faults.every(Op::Checkpoint, Blow::DropRequest);
    let refused = stand.ask(&asked).await.answer;
    assert_eq!(told(&refused), "503 STORE_UNAVAILABLE");
    assert_eq!(u64::try_from(stand.broker.ready(&queue).await).unwrap(), before);
    let failed = stand.record(&asked).await.unwrap();
    for name in ["placeId", "checkpoint"] {
        assert_eq!(failed.get(name), recorded.get(name), "{name}");
    }
    stand.heal().await;
    stand.broker.delete(&queue).await;
}

/// Checks the response if an attempt crashed before it recorded its place. A later attempt that
/// puts nothing at another place must not report its place as holding messages of the first one.
#[tokio::test]
async fn what_a_crash_left_at_a_place_that_nobody_noted_is_told_of_no_other() {
    let mut stand = Stand::start().await;
    let (a, b) = (stand.broker.queue().await, stand.broker.queue().await);
    let moving = Moving::new(&stand, &a).await;
    stand.faults.every(Op::Checkpoint, Blow::DropRequest);
    let reply = stand.ask_later(&moving.asked);
    let started = Instant::now();
    while stand.broker.ready(&a).await == 0 {
        assert!(started.elapsed() < PATIENCE && !reply.is_finished(), "nothing is put");
    }
    stand.mq_access.kill();
    assert_eq!(told(&reply.await.unwrap().answer), "502 OUTCOME_IN_DOUBT");
    stand.heal().await;
    stand.age(&moving.asked).await;
    let on_a = u64::try_from(stand.broker.ready(&a).await).unwrap();

    moving.point_at(&stand, &b).await;
    stand.broker.delete(&b).await;
    let failed = stand.ask(&moving.asked).await.answer;
    assert_eq!((told(&failed).as_str(), failed.json().get("elsewhere")), ("404 QUEUE_NOT_FOUND", None));
    assert_eq!(stand.record(&moving.asked).await.unwrap().get("placeId"), None);
    stand.stop_broker().await;
    let failed = stand.ask(&moving.asked).await.answer;
    assert_eq!((told(&failed).as_str(), failed.json().get("elsewhere")), ("503 BROKER_UNREACHABLE", None));
    stand.heal().await;

    moving.point_at(&stand, &a).await;
    let done = stand.ask(&moving.asked).await.answer;
    assert_eq!(assert_begun_again(&done, &a), [] as [Value; 0]);
    assert_whole(&stand, &a, on_a).await;
    stand.broker.delete(&a).await;
}

/// Checks that a produce begins again if the record has progress without a place, as records of
/// earlier versions do.
#[tokio::test]
async fn progress_at_a_place_that_nobody_noted_is_not_continued() {
    let mut stand = Stand::start().await;
    let queue = stand.broker.queue().await;
    let asked = stand.request(Operation::Produce, &queue, paced());
    let before = killed_after_a_checkpoint(&mut stand, &asked, &queue).await;
    stand.forget(&asked, &["placeId", "placeName"]).await;
    let done = stand.ask(&asked).await.answer;
    assert_eq!(told(&done), "201");
    let answer = done.json();
    assert_eq!(
        (answer["resumedFrom"].as_u64(), answer["possibleDuplicates"].as_u64()),
        (Some(0), Some(COUNT))
    );
    assert!(
        answer["elsewhere"][0]["target"].is_null() && answer["elsewhere"][0]["enqueued"].as_u64() > Some(0)
    );
    assert_whole(&stand, &queue, before).await;
    stand.broker.delete(&queue).await;
}

#[tokio::test]
async fn a_produce_that_does_not_move_takes_no_write_more() {
    let stand = Stand::start().await;
    let queue = stand.broker.queue().await;
    let asked = stand.request(Operation::Produce, &queue, json!({"batch": {"count": 3}}));
    assert_eq!(told(&stand.ask(&asked).await.answer), "201");
    let writes = [Op::Claim, Op::TakeOver, Op::Checkpoint, Op::Prepare, Op::Complete, Op::Fail];
    assert_eq!(writes.map(|op| stand.faults.seen(op)), [1, 0, 0, 0, 1, 0]);
    stand.broker.delete(&queue).await;
}
