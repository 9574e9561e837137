//! Tests of a produce of uploaded bodies that was killed. Its retry puts the same bytes or nothing,
//! even if the bodies' objects in S3 were changed in between.

use std::collections::BTreeMap;

use end_to_end::{KEY_A, TENANT_A, variable};
use reqwest::Method;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::crash::journey::{settled, told};
use crate::crash::places::killed_after_a_checkpoint;
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::{Operation, Stand, answer, http_event};

/// Number of messages of a produce. At [`PACE`] messages per second it takes long enough to record
/// its progress.
const COUNT: usize = 60;
const PACE: usize = 40;

/// Changes the S3 object of an uploaded body by an HTTP request, as a program that may write to the
/// bucket can.
async fn object(body: &[u8], method: Method, content: Vec<u8>) {
    let (endpoint, bucket) = (variable("AWS_ENDPOINT_URL"), variable("RESULTS_BUCKET"));
    let url = format!("{endpoint}/{bucket}/uploads/{TENANT_A}/{}", digest(body));
    let answer = reqwest::Client::new().request(method, url).body(content).send().await.unwrap();
    answer.error_for_status().unwrap();
}

fn digest(body: &[u8]) -> String {
    hex::encode(Sha256::digest(body))
}

#[tokio::test]
async fn a_killed_produce_goes_on_with_the_same_bytes_or_not_at_all() {
    let mut stand = Stand::start().await;
    let mut random = fastrand::Rng::new();
    let uploaded: [Vec<u8>; 3] = std::array::from_fn(|_| (0..50_000).map(|_| random.u8(..)).collect());
    for body in &uploaded {
        object(body, Method::PUT, body.clone()).await;
    }
    let expected = |index: usize| &uploaded[index % uploaded.len()];
    let messages: Vec<_> = (0..COUNT).map(|index| json!({"bodyRef": digest(expected(index))})).collect();
    let queue = stand.broker.queue().await;
    let members = json!({"batch": {"rateLimitPerSec": PACE}, "messages": messages});
    let asked = stand.request(Operation::Produce, &queue, members);
    let there = killed_after_a_checkpoint(&mut stand, &asked, &queue).await;
    assert!(there > 0);

    let mut other = uploaded[1].clone();
    other[25_000] ^= 1;
    object(&uploaded[1], Method::PUT, other).await;
    for _ in 0..2 {
        let refused = stand.ask(&asked).await.answer;
        let refused = refused.expect_problem(404, "BODY_NOT_FOUND").json();
        assert_eq!(refused["errors"][0]["pointer"], "/messages/1/bodyRef", "{refused}");
        let known = refused["elsewhere"][0]["enqueued"].as_u64().unwrap();
        assert!((1..=there).contains(&known), "{refused}");
        object(&uploaded[1], Method::DELETE, Vec::new()).await;
    }
    object(&uploaded[1], Method::PUT, uploaded[1].clone()).await;
    for blow in [Blow::Status(500), Blow::DropRequest, Blow::SwallowRequest] {
        stand.faults.every(Op::GetObject, blow);
        assert_eq!(told(&stand.ask(&asked).await.answer), "503 STORE_UNAVAILABLE", "{blow:?}");
        stand.heal().await;
    }
    assert_eq!(u64::try_from(stand.broker.ready(&queue).await).unwrap(), there, "a refused attempt put some");

    let done = stand.ask(&asked).await.answer.expect(201).json();
    let (from, twice) = (&done["resumedFrom"], done["possibleDuplicates"].as_u64().unwrap());
    assert!(from.as_u64().unwrap() > 0 && done["enqueued"] == COUNT, "{done}");
    let mut copies = BTreeMap::<usize, u64>::new();
    for message in settled(&stand, &queue).await {
        let index = usize::try_from(message.sequence().unwrap()).unwrap();
        assert!(message.body == *expected(index), "message {index} has another body");
        *copies.entry(index).or_default() += 1;
    }
    assert!(copies.keys().copied().eq(0..COUNT), "{} of {COUNT} messages", copies.len());
    let repeated: u64 = copies.values().map(|copies| copies - 1).sum();
    assert!(repeated <= twice, "{repeated} are there twice, and the answer says {twice}");
    stand.broker.delete(&queue).await;
}

#[tokio::test]
async fn no_upload_is_signed_for_a_caller_who_cannot_be_looked_up() {
    let stand = Stand::start().await;
    // A process remembers callers.
    stand.produce.end_idle();
    stand.faults.every(Op::Access, Blow::Status(500));
    let headers =
        json!({"content-type": "application/json", "x-api-key": KEY_A, "x-forwarded-proto": "http"});
    let body = json!({"size": 4, "sha256": digest(b"body")});
    let event = http_event("POST", "/messages/bodies", headers, body.to_string().as_bytes());
    let refused = answer(&event, &stand.produce.invoke(event.to_string().into()).await);
    refused.expect_problem(503, "STORE_UNAVAILABLE");
}
