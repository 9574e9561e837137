//! Tests of several faults in a row under one idempotency key.

use serde_json::json;

use crate::crash::fault::{AT_ANY_MOMENT, Fault};
use crate::crash::journey::{Journey, Load};
use crate::crash::stand::{Operation, Stand};
use crate::crash::{in_parallel, seeds};

const PER_SEED: u64 = 10;
const LONGEST: usize = 4;

#[tokio::test]
async fn a_produce_ends_well_after_sequences_of_faults() {
    sequences(Operation::Produce).await;
}

#[tokio::test]
async fn a_consume_ends_well_after_sequences_of_faults() {
    sequences(Operation::Consume).await;
}

#[tokio::test]
async fn a_move_ends_well_after_sequences_of_faults() {
    sequences(Operation::Move).await;
}

async fn sequences(operation: Operation) {
    // Those come up as often as a dozen others.
    let any_moment = AT_ANY_MOMENT.repeat(4);
    let faults = [Fault::of(operation), any_moment].concat();
    in_parallel(0..seeds() * PER_SEED, async |stand, seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let chosen: Vec<_> =
            (0..random.usize(2..=LONGEST)).map(|_| faults[random.usize(0..faults.len())]).collect();
        println!("{operation:?}, seed {seed}");
        let journey = Journey::begin(stand, operation, Load::Usual, &mut random).await;
        run(stand, journey, &chosen, random).await;
    })
    .await;
}

/// Checks that `possibleDuplicates` includes the doubts of all attempts. Here two attempts lose
/// their confirms, and the first one put messages beyond the point where the second one began.
#[tokio::test]
async fn the_doubts_of_several_attempts_add_up() {
    let mut stand = Stand::start().await;
    for seed in 0..seeds() {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut journey = Journey::begin(&stand, Operation::Produce, Load::Usual, &mut random).await;
        journey.asked.body["batch"]["transaction"] = json!({"enabled": false});
        run(&mut stand, journey, &[Fault::ConfirmsLost; 2], random).await;
    }
}

/// Checks each operation while every request to the store and to `mq-access` may fail at random,
/// also those of retries.
#[tokio::test]
async fn everything_ends_well_in_bad_weather() {
    in_parallel(0..seeds() * PER_SEED, async |stand, seed| {
        for operation in [Operation::Produce, Operation::Consume, Operation::Move] {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut journey = Journey::begin(stand, operation, Load::Usual, &mut random).await;
            for _ in 0..3 {
                stand.faults.weather(random.f64() / 2.0, random.fork());
                let reply = stand.ask(&journey.asked).await;
                journey.replies.push(reply);
                stand.heal().await;
                stand.age(&journey.asked).await;
            }
            println!("{operation:?}, seed {seed}: {} messages, {}", journey.count, journey.told());
            let done = journey.until_done(stand).await;
            journey.check(stand, &done).await;
        }
    })
    .await;
}

async fn run(stand: &mut Stand, mut journey: Journey, faults: &[Fault], mut random: fastrand::Rng) {
    println!("{}: {} messages, {faults:?}", journey.asked.key, journey.count);
    for fault in faults {
        journey.suffer(stand, *fault, &mut random).await;
        stand.heal().await;
        stand.age(&journey.asked).await;
    }
    let done = journey.until_done(stand).await;
    println!("{}: {}", journey.asked.key, journey.told());
    journey.check(stand, &done).await;
}
