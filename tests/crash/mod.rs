//! The real programs of the gateway under faults: processes killed, frozen and late, requests and
//! answers lost between them and their stores, connections cut on the way to the broker. After each
//! fault a client asks again with the same key until it has its answer, and an independent client
//! counts what is on the queue.
//!
//! Nothing in the programs helps with this. A crash point is a request that the proxy in front of
//! the store holds while the process that sent it is killed. `CRASH_SEEDS=n` tries every fault with
//! so many seeds, and ten times as many sequences of faults.

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

/// Returns the number of times that every fault is tried.
fn seeds() -> u64 {
    std::env::var("CRASH_SEEDS").map_or(1, |seeds| seeds.parse().expect("CRASH_SEEDS is a number"))
}

/// Does each piece of work once, in a few stands at a time: most of it is waiting.
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
