//! Tasks of each second beside the work of a worker: its counts are stored, large ones less often,
//! and the test's state is read. The two tasks do not wait for each other, and the worker waits for
//! neither.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::WorkerMinute;
use super::state::Order;
use crate::store::log;

/// Interval at which a worker's invocation reads the test's state. Small counts of the worker are
/// stored at the same interval.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum bytes of a tally (the worker's counts in one minute) that is stored each second, because
/// DynamoDB charges a write unit for each KB. A larger tally is stored less often in proportion to
/// its size, but at least every [`LONGEST`].
const SMALL: u128 = 16 * 1024;
const LONGEST: Duration = Duration::from_secs(10);

/// Stores the worker's tally (its counts in this minute) repeatedly until the worker has ended. A
/// write that is under way then is finished first, so that it cannot overtake the last tally.
pub(super) async fn store_tallies(minute: &WorkerMinute<'_>) {
    let (state, mut every) = (&minute.state, EVERY);
    let mut next = Instant::now() + every;
    loop {
        let due = async {
            tokio::select! {
                () = sleep_until(next) => {}
                () = state.store_now.notified() => {}
            }
        };
        if state.unless_ended(due).await.is_err() {
            return;
        }
        let tally = state.snapshot();
        next = Instant::now() + every;
        match minute.store.store_tally(minute.of.test_id, minute.of.run, &tally).await {
            Ok(Some(bytes)) => every = interval_of(bytes),
            Ok(None) => {
                tracing::warn!(
                    event_type = "load_step.superseded",
                    "another attempt works on window {} of lane {}",
                    minute.step.window.number(),
                    minute.step.lane
                );
                state.order(Order::Abandon);
            }
            Err(error) => log(&error),
        }
    }
}

/// Reads the test's state once a second until the worker has ended, and orders the invocation to
/// end if the test is over or was deleted. If the store does not respond, the worker continues.
pub(super) async fn watch_test(minute: &WorkerMinute<'_>) {
    let (state, mut ticks) = (&minute.state, ticks());
    let of = minute.of;
    while state.unless_ended(ticks.tick()).await.is_ok() {
        let read = minute.store.watch(of);
        match state.unless_ended(read).await {
            Ok(Ok(Some((control, states)))) => {
                state.worker_states.send_replace(states);
                if control.is_over() {
                    state.order(Order::Stop);
                }
            }
            // Only a test that is final can be deleted: nobody waits for this step.
            Ok(Ok(None)) => state.order(Order::Abandon),
            Ok(Err(error)) => log(&error),
            Err(_) => return,
        }
    }
}

/// Returns the time after which a worker's tally (its counts) of `bytes` bytes is stored again.
fn interval_of(bytes: usize) -> Duration {
    let bytes = u128::try_from(bytes).unwrap_or(u128::MAX);
    let in_proportion = EVERY.as_millis().saturating_mul(bytes) / SMALL;
    Duration::from_millis(u64::try_from(in_proportion).unwrap_or(u64::MAX)).clamp(EVERY, LONGEST)
}

/// Creates the ticks at which the test's state is read. They fall halfway between the ticks at
/// which the worker's counts are stored, because the thread that puts and takes messages sends both
/// requests.
fn ticks() -> Interval {
    let mut ticks = interval_at(Instant::now() + EVERY / 2, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_tally_is_stored_less_often() {
        for (bytes, milliseconds) in
            [(0, 1_000), (16_384, 1_000), (24_576, 1_500), (81_920, 5_000), (3_500_000, 10_000)]
        {
            assert_eq!(interval_of(bytes), Duration::from_millis(milliseconds), "{bytes}");
        }
    }
}
