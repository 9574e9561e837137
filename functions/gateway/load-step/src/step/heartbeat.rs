//! What a step does once a second, beside its load: it stores its tally, and reads whether to go
//! on. The two do not wait for each other, and the load waits for neither.

use std::time::Duration;

use load_test_store::Stored;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::Shift;
use super::board::Order;
use crate::store::log;

/// Time between two tallies, and between two looks at the test.
const EVERY: Duration = Duration::from_secs(1);

/// Stores the tally until the worker has ended. What is being stored then is waited for, so that
/// the last tally comes after it.
pub(super) async fn store_tallies(shift: &Shift<'_>) {
    let (board, mut ticks) = (&shift.board, ticks());
    loop {
        let due = async {
            tokio::select! {
                _ = ticks.tick() => {}
                () = board.wanted_now() => {}
            }
        };
        if board.unless_ended(due).await.is_err() {
            return;
        }
        let tally = board.snapshot();
        match shift.store.store_tally(shift.of.test_id, shift.of.run, &tally).await {
            Ok(Stored::Kept) => {}
            Ok(Stored::Superseded) => {
                tracing::warn!(
                    event_type = "load_step.superseded",
                    "another attempt works on window {} of lane {}",
                    shift.step.window.number(),
                    shift.step.lane
                );
                board.order(Order::Abandon);
            }
            Err(error) => log(&error),
        }
    }
}

/// Reads until the worker has ended whether the test goes on. It does if the store does not answer.
pub(super) async fn watch_test(shift: &Shift<'_>) {
    let (board, mut ticks) = (&shift.board, ticks());
    let of = shift.of;
    while board.unless_ended(ticks.tick()).await.is_ok() {
        let read = shift.store.watch(&of.tenant, of.test_id, of.run);
        match board.unless_ended(read).await {
            Ok(Ok(Some((control, attendance)))) => {
                board.learn(attendance);
                if control.is_over() {
                    board.order(Order::Stop);
                }
            }
            // Only a test that is final can be deleted: nobody waits for this step.
            Ok(Ok(None)) => board.order(Order::Abandon),
            Ok(Err(error)) => log(&error),
            Err(_) => return,
        }
    }
}

fn ticks() -> Interval {
    let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
