//! Work of each second beside the load of a step: it stores its tally, a large one less often, and
//! reads whether to go on. The two do not wait for each other, and the load waits for neither.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::Shift;
use super::board::Order;
use crate::store::log;

/// Interval at which the worker reads the test's state, and stores its tally (its counts in this
/// minute) if the tally is small.
const EVERY: Duration = Duration::from_secs(1);

/// Maximum bytes of a tally (the worker's counts in one minute) that is stored each second, because
/// DynamoDB charges a write unit for each KB. A larger tally is stored less often in proportion,
/// but at least every [`LONGEST`].
const SMALL: u128 = 16 * 1024;
const LONGEST: Duration = Duration::from_secs(10);

/// Stores the worker's tally (its counts in this minute) repeatedly until the worker has ended.
/// Then waits for a write that is under way, so that this write cannot overtake the last tally.
pub(super) async fn store_tallies(shift: &Shift<'_>) {
    let (board, mut every) = (&shift.board, EVERY);
    let mut next = Instant::now() + every;
    loop {
        let due = async {
            tokio::select! {
                () = sleep_until(next) => {}
                () = board.wanted.notified() => {}
            }
        };
        if board.unless_ended(due).await.is_err() {
            return;
        }
        let tally = board.snapshot();
        next = Instant::now() + every;
        match shift.store.store_tally(shift.of.test_id, shift.of.run, &tally).await {
            Ok(Some(bytes)) => every = interval_of(bytes),
            Ok(None) => {
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

/// Reads once a second, until the worker has ended, whether the test continues. If the store does
/// not respond, the worker continues.
pub(super) async fn watch_test(shift: &Shift<'_>) {
    let (board, mut ticks) = (&shift.board, ticks());
    let of = shift.of;
    while board.unless_ended(ticks.tick()).await.is_ok() {
        let read = shift.store.watch(of);
        match board.unless_ended(read).await {
            Ok(Ok(Some((control, attendance)))) => {
                board.attendance.send_replace(attendance);
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

/// Returns the time after which a worker stores its tally (its counts) again, if the tally has this
/// size in bytes.
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
