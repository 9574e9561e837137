//! Number of messages that a worker may handle in its minute of the test. It limits a producer
//! without a rate, and a consumer in a test without producers that ends with a number of messages.
//!
//! An invocation claims its minute before the minute begins, while the worker's previous invocation
//! still works. So the number of messages that was handled until the claim may grow. It is read
//! again when it cannot grow any more.

use std::time::Duration;

use load_test::store::Handled;
use load_test::{Length, LoadTest, Micros, MinuteMessages, Role, Schedule, Step, Unthrottled, Window};

use super::WorkerMinute;
use super::state::Interrupt;
use crate::store::log;

/// Time after the end of a window (minute of the test) from which the stored number of messages
/// that a worker sent or took in the window is final. Most workers store it sooner.
const STORED: Micros = Micros::from_seconds(10);

/// Interval at which an invocation checks whether the worker's previous invocation has ended its
/// work.
const AGAIN: Duration = Duration::from_millis(300);

/// Number of sequence numbers that an attempt at a minute skips for each earlier attempt. They are
/// for messages that the earlier attempt put, but did not store in its counts. An attempt puts
/// fewer before it notices that a later one has replaced it.
const UNSTORED: u64 = Unthrottled::WINDOW_NUMBERS / 64;

/// Quota of a worker: the number of messages that it may send or take in the whole test, and the
/// number that it had sent or taken when its current step (attempt at a minute) was claimed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    schedule: Unthrottled,
    step: Step,
    /// Number of messages that the worker had sent or taken when the step (an attempt at a minute)
    /// was claimed.
    pub(super) claimed: Handled,
    claimed_at: Micros,
}

impl Quota {
    pub(super) const fn new(schedule: Unthrottled, step: Step, claimed: Handled, claimed_at: Micros) -> Self {
        Self { schedule, step, claimed, claimed_at }
    }

    /// True if the worker may send or take no more messages, after those of earlier invocations
    /// (`before`) and `own` messages in this one.
    pub(super) fn is_used_up(&self, before: Handled, own: u64) -> bool {
        before.before.saturating_add(own) >= self.schedule.quota(self.step.lane.worker.number)
    }

    /// True if the number of messages that the worker sent or took before this step (attempt at a
    /// minute) was already final when the step was claimed.
    pub(super) fn is_certain(&self) -> bool {
        self.step.window.number() == 0 || self.claimed_at >= settled_at(self.step.window)
    }

    /// Returns the sequence numbers that this attempt at a minute may use, as known when it was
    /// claimed.
    ///
    /// A later attempt skips the numbers that earlier attempts at the same minute may have used. A
    /// message with a number that was used before would count as doubled.
    pub(super) fn share(&self) -> MinuteMessages {
        let share = self.share_after(self.claimed);
        let skipped = self.skipped();
        let first = share.first.saturating_add(skipped.saturating_mul(share.step));
        MinuteMessages { first, count: self.count(self.claimed), ..share }
    }

    /// Returns the number of messages that this invocation may send or take if the worker sent or
    /// took `before` in earlier invocations.
    pub(super) fn count(&self, before: Handled) -> u64 {
        let numbers = Unthrottled::WINDOW_NUMBERS.saturating_sub(self.skipped());
        self.share_after(before).count.min(numbers)
    }

    /// Returns the number of messages that this invocation may put at first: all that the quota
    /// allows, or fewer while the number that the worker put in the previous minute is not final.
    /// The previous invocation still works at about the worker's average rate, and its stored count
    /// may be some seconds old. So three times the messages of that rate are left to it.
    pub(super) fn certain_count(&self) -> u64 {
        let count = self.count(self.claimed);
        if self.is_certain() {
            return count;
        }
        let (so_far, at) = (u128::from(self.claimed.before), self.claimed_at.get().max(1));
        let span = settled_at(self.step.window).since(self.claimed_at).get();
        let left = 3 * so_far * u128::from(span) / u128::from(at);
        count.saturating_sub(u64::try_from(left).unwrap_or(u64::MAX))
    }

    fn share_after(&self, handled: Handled) -> MinuteMessages {
        self.schedule.share(self.step.lane.worker.number, self.step.window, handled.before)
    }

    fn skipped(&self) -> u64 {
        let unstored = u64::from(self.step.attempt).saturating_mul(UNSTORED);
        self.claimed.in_window.saturating_add(unstored)
    }
}

/// Returns the time since the run's start from which the number of messages that a worker handled
/// before a window (minute of the test) is final, even if an invocation was lost.
fn settled_at(window: Window) -> Micros {
    window.opens().plus(STORED)
}

/// Returns the schedule that limits each worker of this role to a number of messages; `None` if the
/// test has no such limit. Producers are limited if they have no rate. Consumers are limited if the
/// test has no producers and ends with a number of messages, which the consumers share.
pub(super) fn of_worker(test: &LoadTest, role: Role) -> Option<Unthrottled> {
    match (role, test.schedule(), &test.length) {
        (Role::Producer, Some(Schedule::Unthrottled(schedule)), _) => Some(schedule),
        (Role::Consumer, None, Length::Messages(count)) => {
            Some(Unthrottled::new(test.consumer_count(), count.get()))
        }
        _ => None,
    }
}

/// Reads the number of messages that the worker sent or took in earlier invocations again, once it
/// is final. Does nothing if the number known from the claim is final, or if the worker has no
/// limit.
pub(super) async fn look_again(minute: &WorkerMinute<'_>) {
    if let Some(quota) = minute.quota.filter(|quota| !quota.is_certain()) {
        // It ends with the order to end.
        let _ = look_until_certain(minute, &quota).await;
    }
}

async fn look_until_certain(minute: &WorkerMinute<'_>, quota: &Quota) -> Result<(), Interrupt> {
    let (state, of) = (&minute.state, minute.of);
    // No lane begins to work in the window before once that has closed.
    state.unless_ended(tokio::time::sleep_until(minute.clock.instant(quota.step.window.opens()))).await?;
    loop {
        if has_settled(minute, quota).await? {
            match state.unless_ended(minute.store.handled(of.test_id, of.run, quota.step)).await? {
                Ok(handled) => {
                    state.final_handled.send_replace(Some(handled));
                    return Ok(());
                }
                Err(error) => log(&error),
            }
        }
        state.unless_ended(tokio::time::sleep(AGAIN)).await?;
    }
}

/// True if no earlier invocation of the worker still has counts to store.
async fn has_settled(minute: &WorkerMinute<'_>, quota: &Quota) -> Result<bool, Interrupt> {
    let (of, now, window) = (minute.of, minute.clock.now(), quota.step.window);
    if now >= settled_at(window) {
        return Ok(true);
    }
    let known = minute.store.watch(of);
    Ok(match minute.state.unless_ended(known).await? {
        Ok(Some((_, states))) => !states.works_before(quota.step.lane.worker, window, now),
        // The look of each second finds out that the test is gone.
        Ok(None) => false,
        Err(error) => {
            log(&error);
            false
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 1_000_000;

    fn step(window: u32, attempt: u32) -> Step {
        Step { lane: "p1a".parse().unwrap(), window: Window::new(window), attempt }
    }

    fn handled(before: u64, in_window: u64) -> Handled {
        Handled { before, in_window }
    }

    fn quota(window: u32, attempt: u32, claimed: Handled, at: u64) -> Quota {
        let schedule = Unthrottled::new(2, 2 * ALL);
        Quota::new(schedule, step(window, attempt), claimed, Micros::from_seconds(at))
    }

    #[test]
    fn the_first_window_has_the_whole_quota() {
        let quota = quota(0, 0, Handled::default(), 0);
        assert!(quota.is_certain());
        assert_eq!(quota.share(), MinuteMessages { first: 1, step: 2, count: ALL });
        assert_eq!(quota.certain_count(), ALL);
        assert!(quota.is_used_up(handled(0, 0), ALL) && !quota.is_used_up(handled(5, 0), ALL - 6));
    }

    #[test]
    fn what_the_window_before_may_still_send_is_left_to_it() {
        // 300,000 in 57 s; in the next 13 s about 68,000.
        let quota = quota(1, 0, handled(300_000, 0), 57);
        assert!(!quota.is_certain());
        assert_eq!(quota.count(quota.claimed), 700_000);
        assert_eq!(quota.certain_count(), 700_000 - 3 * 300_000 * 13 / 57);
        assert_eq!(quota.count(handled(368_000, 0)), 632_000);
        assert_eq!(quota.count(handled(ALL + 5, 0)), 0);
        let used_up = self::quota(1, 0, handled(970_000, 0), 57);
        assert_eq!(used_up.certain_count(), 0);
        assert!(!self::quota(1, 0, handled(300_000, 0), 69).is_certain());
        assert!(self::quota(1, 0, handled(300_000, 0), 70).is_certain(), "it was claimed late");
    }

    #[test]
    fn a_second_attempt_uses_no_number_of_the_first() {
        let first = quota(2, 0, handled(100, 0), 117).share();
        let second = quota(2, 1, handled(5_100, 5_000), 130).share();
        let after_lost = (5_000 + UNSTORED) * 2;
        assert_eq!((second.first - first.first, second.count), (after_lost, ALL - 5_100));
        // The second stored 300 messages, and was lost too.
        let third = quota(2, 2, handled(5_400, 5_300), 140).share();
        assert!(third.first >= second.first + 2 * (300 + UNSTORED));
        assert_eq!(third.count, ALL - 5_400);
    }

    #[test]
    fn the_numbers_of_a_window_bound_an_attempt_too() {
        let schedule = Unthrottled::new(1, u64::MAX);
        let step = Step { lane: "p0a".parse().unwrap(), ..step(0, 3) };
        let quota = Quota::new(schedule, step, handled(0, 0), Micros::from_seconds(30));
        let share = quota.share();
        assert_eq!(share.first + share.count, Unthrottled::WINDOW_NUMBERS);
    }
}
