//! Tests of the gateway's and the ingest's real programs under faults: processes are killed,
//! stopped and late, requests and responses between them and their stores are lost, and connections
//! to the broker are cut. After each fault a client repeats its request with the same key until it
//! is done, and an independent client counts the messages on the queue.
//!
//! The programs contain no code for these tests. To kill a process at a certain point, a proxy in
//! front of the store holds the process's request meanwhile. `CRASH_SEEDS=n` tests every fault with
//! `n` seeds, and ten times as many sequences of faults.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "these are tests")]

mod batches;
mod clocks;
mod dead_letter;
mod drops;
mod fault;
mod ibm_mq;
mod ingest;
mod journey;
mod labels;
mod moves;
mod named;
mod places;
mod replays;
mod results;
mod sequences;
mod stand;
mod states;
mod storm;
mod time_outs;
mod unacknowledged;
mod uploads;
mod zombies;

use std::cell::RefCell;

use end_to_end::On;
use stand::Stand;

/// Returns the number of seeds with which each fault is tested: `CRASH_SEEDS`, or 1.
fn seeds() -> u64 {
    std::env::var("CRASH_SEEDS").map_or(1, |seeds| seeds.parse().expect("CRASH_SEEDS is a number"))
}

/// Calls `each` once for each piece of work, in three stands with RabbitMQ at a time, since most of
/// it is waiting.
async fn in_parallel<T>(work: impl IntoIterator<Item = T>, each: impl AsyncFn(&mut Stand, T)) {
    in_parallel_on(On::RabbitMq, work, each).await;
}

async fn in_parallel_on<T>(on: On, work: impl IntoIterator<Item = T>, each: impl AsyncFn(&mut Stand, T)) {
    let work = RefCell::new(work.into_iter());
    let worker = async || {
        let mut stand = Stand::start_on(on).await;
        loop {
            let Some(piece) = work.borrow_mut().next() else { break };
            each(&mut stand, piece).await;
        }
    };
    tokio::join!(worker(), worker(), worker());
}
