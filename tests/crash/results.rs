//! Tests of results in S3 that cannot be read. The response is an error, and nothing is executed
//! again.

use end_to_end::variable;
use reqwest::Method;

use crate::crash::journey::{Journey, Load, other_body, told};
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::{Asked, Operation, Record, Reply, Stand};

/// Sends an HTTP request for the S3 object of a record's result, and returns the response's body.
async fn object(record: &Record, method: Method, body: Vec<u8>) -> Vec<u8> {
    let (endpoint, bucket) = (variable("AWS_ENDPOINT_URL"), variable("RESULTS_BUCKET"));
    let url = format!("{endpoint}/{bucket}/{}", record["responseLocation"].as_s().unwrap());
    let answer = reqwest::Client::new().request(method, url).body(body).send().await.unwrap();
    answer.error_for_status().unwrap().bytes().await.unwrap().to_vec()
}

pub(crate) async fn read(record: &Record) -> Vec<u8> {
    object(record, Method::GET, Vec::new()).await
}

/// Executes a consume whose result is stored in S3. Returns it with its response and its record.
async fn done(stand: &Stand) -> (Journey, Reply, Record) {
    let mut random = fastrand::Rng::with_seed(7);
    let mut journey = Journey::begin(stand, Operation::Consume, Load::Large, &mut random).await;
    let done = stand.ask(&journey.asked).await;
    assert_eq!(told(&done.answer), "200");
    journey.replies.push(done.clone());
    let record = stand.record(&journey.asked).await.unwrap();
    (journey, done, record)
}

/// Checks that a retry is refused because the result cannot be read, and that it changes nothing.
async fn is_refused(stand: &Stand, asked: &Asked) {
    let before = (stand.record(asked).await, stand.faults.seen(Op::Invoke));
    for _ in 0..2 {
        let refused = stand.ask(asked).await;
        assert_eq!(told(&refused.answer), "503 STORE_UNAVAILABLE");
        println!("{}", refused.answer.json()["detail"]);
    }
    let conflict = stand.ask(&other_body(asked)).await.answer;
    conflict.expect_problem(409, "CONFLICTING_IDEMPOTENT_REQUEST");
    assert_eq!((stand.record(asked).await, stand.faults.seen(Op::Invoke)), before);
}

#[tokio::test]
async fn while_the_bucket_cannot_be_reached_a_retry_is_refused() {
    let mut stand = Stand::start().await;
    let (journey, reply, _) = done(&stand).await;
    for blow in [Blow::DropRequest, Blow::Status(500), Blow::SwallowRequest] {
        stand.faults.every(Op::GetObject, blow);
        is_refused(&stand, &journey.asked).await;
        stand.heal().await;
    }
    journey.check(&stand, &reply).await;
}

#[tokio::test]
async fn a_missing_or_altered_result_is_never_made_again() {
    let stand = Stand::start().await;
    let (journey, reply, record) = done(&stand).await;
    let intact = read(&record).await;
    let mut altered = intact.clone();
    let middle = altered.len() / 2;
    altered[middle] ^= 1;
    let other = end_to_end::variable("API").into_bytes();
    for damaged in [altered, intact[..middle].to_vec(), other, Vec::new()] {
        object(&record, Method::PUT, damaged).await;
        is_refused(&stand, &journey.asked).await;
    }
    object(&record, Method::DELETE, Vec::new()).await;
    is_refused(&stand, &journey.asked).await;
    // It was the object alone: with it, everything is as before.
    object(&record, Method::PUT, intact).await;
    journey.check(&stand, &reply).await;
}

/// Checks that a consume whose commit is in doubt is not executed again if its stored result is
/// missing.
#[tokio::test]
async fn a_prepared_result_that_is_missing_is_not_got_again() {
    let mut stand = Stand::start().await;
    let mut random = fastrand::Rng::with_seed(8);
    let mut journey = Journey::begin(&stand, Operation::Consume, Load::Large, &mut random).await;
    journey.suffer(&mut stand, crate::crash::fault::Fault::KilledBeforeCompletion, &mut random).await;
    stand.heal().await;
    let record = stand.record(&journey.asked).await.unwrap();
    let intact = read(&record).await;
    object(&record, Method::DELETE, Vec::new()).await;
    let before = stand.faults.seen(Op::Invoke);
    for _ in 0..2 {
        stand.age(&journey.asked).await;
        assert_eq!(told(&stand.ask(&journey.asked).await.answer), "503 STORE_UNAVAILABLE");
    }
    assert_eq!(stand.faults.seen(Op::Invoke), before, "it was executed again");
    object(&record, Method::PUT, intact).await;
    let done = journey.until_done(&mut stand).await;
    assert_eq!(done.answer.json()["deliveryInDoubt"], true);
    journey.check(&stand, &done).await;
}
