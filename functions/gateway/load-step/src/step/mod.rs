//! The work of one worker in one window, from the claim of the step to its last tally.
//!
//! The parts of a step run side by side on one thread: the worker itself, the tally of each second,
//! the look at the test of each second, and for one worker the measuring of the queues. They share
//! a [`Board`]. A part that has to wait listens for the order to end, so a stop takes effect within
//! two seconds, whatever the broker does.

mod board;
mod breath;
mod consumer;
mod depth;
mod drain;
mod heartbeat;
mod pace;
mod patience;
mod producer;
mod quota;

use std::cell::Cell;

use broker::Deadline;
use jiff::Timestamp;
use load_test::store::{Handled, TestRecord, TestRun, TestStore};
use load_test::{Lane, LoadTest, Micros, Plan, Role, Search, Step, Tally, Window};

use self::board::{Board, Interrupt, Order, Used};
use self::quota::Quota;
use crate::close::Occasion;
use crate::event::{NextTurn, Turn};
use crate::place::Place;
use crate::runs::Begun;
use crate::store::{fail, insist};
use crate::test_clock::TestClock;
use crate::{LoadStep, LoadStepError};

/// Shift of a worker: its part of one window (minute of the test), with everything that the work
/// needs.
#[derive(Debug)]
struct Shift<'a> {
    store: &'a TestStore,
    of: &'a TestRun,
    record: &'a TestRecord,
    /// Definition of the load test that the run executes.
    test: &'a LoadTest,
    /// Start of the load test's run.
    start: Timestamp,
    plan: Plan,
    clock: TestClock,
    place: Place<'a>,
    step: Step,
    /// Limit on the number of messages of the worker; `None` if only time limits it.
    quota: Option<Quota>,
    /// Start of the shift, as time since the run's start. Messages that are due earlier do not
    /// belong to the shift.
    from: Micros,
    /// End of the shift, as time since the run's start. Messages that are due then or later do not
    /// belong to the shift.
    end: Micros,
    board: Board,
}

/// Invocation that works as one worker in one minute of the load test, with the records of the test
/// that were read for it.
#[derive(Clone, Copy, Debug)]
struct Call<'a> {
    turn: &'a Turn,
    record: &'a TestRecord,
    begun: &'a Begun<'a>,
    plan: Plan,
    clock: TestClock,
    used: Used,
}

/// Continuation of a lane (a worker's series of invocations) after one of its invocations.
#[derive(Debug, PartialEq, Eq)]
enum After {
    /// The lane continues with its next window (minute of the test).
    Next,
    /// The worker has nothing left to do, so its series of invocations ends.
    Nothing,
    /// Another attempt does the work of this minute, or the test was deleted. The turn records
    /// nothing.
    Superseded,
}

impl LoadStep {
    /// Works as one worker until its minute of the test ends, its work is done, or the test ends.
    /// An invocation that starts late does the rest of its minute. A repeated one, or one that
    /// starts after its minute, does no work.
    pub(crate) async fn step(&self, turn: &Turn, deadline: Deadline) -> Result<NextTurn, LoadStepError> {
        let used = Used::from_now();
        let span = tracing::Span::current();
        span.record("lane", tracing::field::display(turn.lane));
        span.record("window", turn.window.number());
        let record = self.record(&turn.of, deadline).await?;
        // Nothing is left to do for a test that is over, or gone.
        let Some(record) = record.filter(|record| !record.status.is_final()) else { return Ok(turn.done()) };
        let begun = Begun::of(&record, turn.of.run)?;
        let (plan, clock) = (Plan::of(&begun.test), TestClock::of(begun.run.started_at));
        let call = Call { turn, record: &record, begun: &begun, plan, clock, used };
        call.check()?;
        let after = if record.control().is_over() {
            After::Nothing
        } else if call.end() <= clock.now() {
            after_closed(&plan, turn.lane, clock.now())
        } else {
            self.work(&call, deadline).await?
        };
        self.go_on(&call, after, deadline).await
    }

    /// Works in a window (minute of the test) that has begun or begins within seconds.
    async fn work(&self, call: &Call<'_>, deadline: Deadline) -> Result<After, LoadStepError> {
        let (of, step) = (&call.turn.of, call.turn.step());
        let came_at = call.clock.at(call.used.since);
        let known = insist(deadline, async || self.store.watch(of).await).await?;
        let Some((control, attendance)) = known else { return Ok(After::Superseded) };
        if control.is_over() || attendance.has_ended(step.lane.worker, call.clock.now()) {
            return Ok(After::Nothing);
        }
        let Some(sent) = self.claim(call, deadline).await? else { return Ok(After::Superseded) };
        insist(deadline, async || self.store.begin_work(of, step).await).await?;
        let claimed_at = call.clock.now();
        // A first attempt answers for all that is due from when it came. An attempt before a later
        // one may have worked until it was superseded, and what it did then is not stored.
        let from = step.window.opens().max(if step.attempt == 0 { came_at } else { claimed_at });
        let quota = quota::of_worker(&call.begun.test, step.lane.worker.role);
        let quota = quota.map(|schedule| Quota::new(schedule, step, sent, claimed_at));
        let test: &LoadTest = &call.begun.test;
        let tally = Tally::new(step, from, test.producer_count(), test.measured_from());
        let shift = Shift {
            store: &self.store,
            of,
            record: call.record,
            test,
            start: call.begun.run.started_at,
            plan: call.plan,
            clock: call.clock,
            place: Place::of(&self.brokers, call.record),
            step,
            quota,
            from,
            end: call.end(),
            board: Board::new(call.clock, call.end(), tally, call.used),
        };
        shift.board.attendance.send_replace(attendance);
        let outcome = Box::pin(shift.run()).await;
        self.conclude(&shift, outcome, deadline).await
    }

    /// Claims the worker's minute of the test for this invocation, and returns the number of
    /// messages that the worker sent or took before; `None` if another invocation has claimed it.
    async fn claim(&self, call: &Call<'_>, deadline: Deadline) -> Result<Option<Handled>, LoadStepError> {
        let (of, step) = (&call.turn.of, call.turn.step());
        let attempts = Cell::new(0_u32);
        let claim = insist(deadline, async || {
            attempts.set(attempts.get().saturating_add(1));
            self.store.claim(of.test_id, of.run, step).await
        });
        match claim.await? {
            // The claim before may have been this one's, with its answer lost. The next attempt
            // supersedes it.
            None if attempts.get() > 1 => {
                Err(LoadStepError::ClaimInDoubt { lane: step.lane, window: step.window })
            }
            claimed => Ok(claimed),
        }
    }

    /// Stores the worker's last counts of its minute, and returns how the lane (the worker's series
    /// of invocations) continues.
    async fn conclude(
        &self,
        shift: &Shift<'_>,
        outcome: Result<bool, Interrupt>,
        deadline: Deadline,
    ) -> Result<After, LoadStepError> {
        let (role, now) = (shift.step.lane.worker.role, shift.clock.now().min(shift.end));
        let (until, is_last) = match outcome {
            // Its messages are put, and no other is due until the window closes.
            Ok(is_last) if role == Role::Producer => (shift.end, is_last),
            Ok(is_last) => (now, is_last),
            Err(Interrupt::Superseded) => return Ok(After::Superseded),
            Err(Interrupt::Stopped) => (now, true),
            Err(Interrupt::Failed(detail)) => {
                fail(&self.store, shift.of, &detail, deadline).await?;
                (now, true)
            }
        };
        shift.board.pending.set(None);
        shift.board.count(|tally| {
            tally.worked_until(until);
            if is_last {
                tally.was_last();
            }
        });
        let TestRun { test_id, run, .. } = *shift.of;
        let stored =
            insist(deadline, async || self.store.store_tally(test_id, run, &shift.board.snapshot()).await);
        let stored = stored.await?;
        tracing::info!(
            event_type = "load_step.ended",
            handled = shift.board.count(|tally| tally.handled_count()),
            is_last,
            "worker {} has ended its work in window {} of the load test {test_id}",
            shift.step.lane.worker,
            shift.step.window.number()
        );
        Ok(match (stored, is_last) {
            (None, _) => After::Superseded,
            (Some(_), true) => After::Nothing,
            (Some(_), false) => After::Next,
        })
    }

    /// Records the end of a turn (an attempt to work in one minute), and returns the next turn of
    /// its lane (the worker's series of invocations). The worker that ends last also closes the
    /// run, because the state machine would wait for other lanes, which may sleep for most of a
    /// minute. In a search, it closes the run only if the test was stopped or has failed; otherwise
    /// the state machine does, because another probe may follow.
    async fn go_on(
        &self,
        call: &Call<'_>,
        after: After,
        deadline: Deadline,
    ) -> Result<NextTurn, LoadStepError> {
        let (of, step) = (&call.turn.of, call.turn.step());
        let next = next_open(&call.plan, call.turn, call.clock.now());
        let next_turn = call.turn.then(next, call.begun.run.started_at);
        let is_last = match after {
            After::Superseded => return Ok(next_turn),
            After::Next => false,
            After::Nothing => true,
        };
        let attendance = insist(deadline, async || self.store.end_work(of, step, is_last).await).await?;
        if !is_last {
            return Ok(next_turn);
        }
        let is_search = Search::of(&call.record.test).is_some();
        if attendance.have_ended(call.plan.workers(), call.clock.now())
            && (!is_search || self.is_over(of).await)
            && let Err(error) = Box::pin(self.close(of, Occasion::LastWorker, deadline)).await
        {
            let cause: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "load_step.not_closed",
                error = cause,
                "the load test {} is left for the state machine to close: {cause}",
                of.test_id
            );
        }
        Ok(call.turn.done())
    }

    /// Returns true if the test is known to be stopped, failed or ended.
    async fn is_over(&self, of: &TestRun) -> bool {
        let control = self.store.control(&of.tenant, of.test_id).await;
        matches!(control, Ok(Some(control)) if control.is_over())
    }
}

impl Call<'_> {
    fn lane(&self) -> Lane {
        self.turn.lane
    }

    /// Returns the time at which the worker ends in this window (minute of the test).
    fn end(&self) -> Micros {
        self.plan.end_of(self.lane().worker.role, self.turn.window)
    }

    /// Checks that the run's plan has this worker, and that this lane (one of the worker's two
    /// series of invocations) works in this minute of the test.
    fn check(&self) -> Result<(), LoadStepError> {
        let (lane, window) = (self.lane(), self.turn.window);
        let is_of_the_plan = self.plan.workers().any(|worker| worker == lane.worker)
            && window.half() == lane.half
            && window.number() < self.plan.windows(lane.worker.role);
        if is_of_the_plan { Ok(()) } else { Err(LoadStepError::NoWindow { lane, window }) }
    }
}

impl Shift<'_> {
    /// Runs the worker, and beside it the tasks of each second. Returns true if the worker has
    /// nothing left to do in later minutes of the test.
    async fn run(&self) -> Result<bool, Interrupt> {
        let work = async {
            let outcome = Box::pin(self.role()).await;
            self.board.order(Order::End);
            outcome
        };
        let (outcome, (), (), (), ()) = tokio::join!(
            work,
            Box::pin(heartbeat::store_tallies(self)),
            Box::pin(heartbeat::watch_test(self)),
            Box::pin(depth::measure(self)),
            Box::pin(quota::look_again(self)),
        );
        outcome
    }

    async fn role(&self) -> Result<bool, Interrupt> {
        match (self.step.lane.worker.role, &self.test.producers, &self.test.consumers) {
            (Role::Producer, Some(producers), _) => Box::pin(producer::produce(self, producers)).await,
            (Role::Consumer, _, Some(consumers)) => Box::pin(consumer::consume(self, consumers)).await,
            // The plan has no worker of a role that the test does not have.
            (Role::Producer, None, _) | (Role::Consumer, _, None) => Ok(true),
        }
    }

    /// True if the plan has no later minute of the test for the worker.
    fn is_last_window(&self) -> bool {
        self.step.window.number().saturating_add(1) >= self.plan.windows(self.step.lane.worker.role)
    }
}

/// Returns the continuation of a lane (a worker's series of invocations) after a turn that started
/// when its minute of the test had ended. If the worker has no later minute, the turn reports the
/// worker as ended, in place of the attempt that was lost: consumers wait for this report of the
/// producers.
fn after_closed(plan: &Plan, lane: Lane, now: Micros) -> After {
    if now < plan.until(lane.worker.role) { After::Next } else { After::Nothing }
}

/// Returns the next minute of the test in which the turn's lane (series of invocations) works and
/// which has not ended at `now`; `None` if no such minute is left.
fn next_open(plan: &Plan, turn: &Turn, now: Micros) -> Option<Window> {
    let has_closed = |window: &Window| plan.end_of(turn.lane.worker.role, *window) <= now;
    let mut next = plan.next(turn.lane, Some(turn.window));
    while let Some(closed) = next.filter(has_closed) {
        next = plan.next(turn.lane, Some(closed));
    }
    next
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::samples::test;

    #[test]
    fn a_lane_goes_on_with_the_first_window_that_has_not_closed() {
        let plan = Plan::of(&test(json!({"producers": {"ratePerSec": 1}, "durationSeconds": 330})));
        let of = TestRun { tenant: "t".to_owned(), test_id: Uuid::nil(), run: 0 };
        let turn = Turn { of, lane: "p0b".parse().unwrap(), window: Window::new(1), attempt: 0 };
        let next = |second| next_open(&plan, &turn, Micros::from_seconds(second)).map(Window::number);
        assert_eq!([90, 120, 239].map(next), [Some(3); 3]);
        assert_eq!([240, 329].map(next), [Some(5); 2]);
        assert_eq!([330, 400].map(next), [None; 2]);
    }

    #[test]
    fn a_worker_ends_with_its_last_window_also_if_its_step_died_in_it() {
        let members = json!({"producers": {"ratePerSec": 1}, "consumers": {}, "durationSeconds": 90});
        let plan = Plan::of(&test(members));
        let after =
            |lane: &str, second| after_closed(&plan, lane.parse().unwrap(), Micros::from_seconds(second));
        assert_eq!([60, 89].map(|second| after("p0a", second)), [After::Next, After::Next]);
        assert_eq!(["p0a", "p0b"].map(|lane| after(lane, 90)), [After::Nothing, After::Nothing]);
        assert_eq!(after("c0b", 120), After::Next, "consumers have time to drain the queues");
    }
}
