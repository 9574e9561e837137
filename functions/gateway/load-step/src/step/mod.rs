//! Work of one worker in one minute of a load test, from the claim of the minute to the last
//! counts.
//!
//! Several tasks of the invocation run concurrently on one thread: the worker itself, the storing
//! of its counts, the reading of the test's state, and for one worker the measuring of the queues.
//! They share an [`InvocationState`]. A task that has to wait also waits for the order to end, so a
//! stop takes effect within two seconds, whatever the broker does.

mod consumer;
mod depth;
mod drain_watch;
mod heartbeat;
mod pace;
mod producer;
mod quota;
mod state;
mod target_failures;
mod yield_timer;

use std::cell::Cell;

use broker::Deadline;
use jiff::Timestamp;
use load_test::store::{Handled, TestRecord, TestRun, TestStore};
use load_test::{Lane, LoadTest, Micros, Plan, Role, Search, Step, Tally, Window};

use self::quota::Quota;
use self::state::{Interrupt, InvocationState, Order, Used};
use crate::close::ClosedBy;
use crate::event::{StepEvent, StepResponse};
use crate::runs::BegunRun;
use crate::store::{fail, insist};
use crate::test_clock::TestClock;
use crate::test_target::TestTarget;
use crate::{LoadStep, LoadStepError};

/// Work of one worker in one window (minute of the test), with everything that the concurrent tasks
/// of the invocation need for it.
#[derive(Debug)]
struct WorkerMinute<'a> {
    store: &'a TestStore,
    of: &'a TestRun,
    record: &'a TestRecord,
    /// Definition of the run's work: the test itself, or in a search the test at the rate of this
    /// run.
    test: &'a LoadTest,
    /// Start of the load test's run.
    start: Timestamp,
    plan: Plan,
    clock: TestClock,
    target: TestTarget<'a>,
    step: Step,
    /// Limit on the number of messages of the worker in the whole test; `None` if only time limits
    /// it.
    quota: Option<Quota>,
    /// Start of the work, as time since the run's start. Messages that are due earlier are not part
    /// of it.
    from: Micros,
    /// End of the work, as time since the run's start. Messages that are due then or later are not
    /// part of it.
    end: Micros,
    state: InvocationState,
}

/// Invocation that is to work as one worker in one minute of the load test: its event, and the
/// records of the test that were read for it.
#[derive(Clone, Copy, Debug)]
struct StepInvocation<'a> {
    event: &'a StepEvent,
    record: &'a TestRecord,
    begun: &'a BegunRun<'a>,
    plan: Plan,
    clock: TestClock,
    used: Used,
}

/// Continuation of a lane (a worker's series of invocations) after one of its invocations has
/// worked.
#[derive(Debug, PartialEq, Eq)]
enum Continuation {
    /// The lane continues with its next window (minute of the test).
    Next,
    /// The worker has nothing left to do, so its series of invocations ends.
    Nothing,
    /// Another attempt does the worker's work in this minute of the test, or the test was deleted.
    /// This invocation records nothing, and the lane continues.
    Superseded,
}

impl LoadStep {
    /// Works as one worker until its minute of the test ends, its work is done, or the test ends.
    /// An invocation that starts late does the rest of its minute. One that is delivered twice, or
    /// that starts after its minute, does no work. Returns the next minute of the worker's lane
    /// (series of invocations).
    pub(crate) async fn step(
        &self,
        event: &StepEvent,
        deadline: Deadline,
    ) -> Result<StepResponse, LoadStepError> {
        let used = Used::from_now();
        let span = tracing::Span::current();
        span.record("lane", tracing::field::display(event.lane));
        span.record("window", event.window.number());
        let record = self.record(&event.of, deadline).await?;
        // Nothing is left to do for a test that is over, or gone.
        let Some(record) = record.filter(|record| !record.status.is_final()) else { return Ok(event.done()) };
        let begun = BegunRun::of(&record, event.of.run)?;
        let (plan, clock) = (Plan::of(&begun.test), TestClock::of(begun.run.started_at));
        let invocation = StepInvocation { event, record: &record, begun: &begun, plan, clock, used };
        invocation.check()?;
        let after = if record.control().is_over() {
            Continuation::Nothing
        } else if invocation.end() <= clock.now() {
            after_closed(&plan, event.lane, clock.now())
        } else {
            self.work(&invocation, deadline).await?
        };
        self.go_on(&invocation, after, deadline).await
    }

    /// Works in a window (minute of the test) that has begun or begins within seconds. Returns how
    /// the worker's lane (series of invocations) continues.
    async fn work(
        &self,
        invocation: &StepInvocation<'_>,
        deadline: Deadline,
    ) -> Result<Continuation, LoadStepError> {
        let (of, step) = (&invocation.event.of, invocation.event.step());
        let came_at = invocation.clock.at(invocation.used.since);
        let known = insist(deadline, async || self.store.watch(of).await).await?;
        let Some((control, states)) = known else { return Ok(Continuation::Superseded) };
        if control.is_over() || states.has_ended(step.lane.worker, invocation.clock.now()) {
            return Ok(Continuation::Nothing);
        }
        let Some(sent) = self.claim(invocation, deadline).await? else {
            return Ok(Continuation::Superseded);
        };
        insist(deadline, async || self.store.begin_work(of, step).await).await?;
        let claimed_at = invocation.clock.now();
        // A first attempt answers for all that is due from when it came. An attempt before a later
        // one may have worked until it was superseded, and what it did then is not stored.
        let from = step.window.opens().max(if step.attempt == 0 { came_at } else { claimed_at });
        let quota = quota::of_worker(&invocation.begun.test, step.lane.worker.role);
        let quota = quota.map(|schedule| Quota::new(schedule, step, sent, claimed_at));
        let test: &LoadTest = &invocation.begun.test;
        let tally = Tally::new(step, from, test.producer_count(), test.measured_from());
        let minute = WorkerMinute {
            store: &self.store,
            of,
            record: invocation.record,
            test,
            start: invocation.begun.run.started_at,
            plan: invocation.plan,
            clock: invocation.clock,
            target: TestTarget::of(&self.brokers, invocation.record),
            step,
            quota,
            from,
            end: invocation.end(),
            state: InvocationState::new(invocation.clock, invocation.end(), tally, invocation.used),
        };
        minute.state.worker_states.send_replace(states);
        let outcome = Box::pin(minute.run()).await;
        self.conclude(&minute, outcome, deadline).await
    }

    /// Claims the worker's minute of the test for this invocation, and returns the number of
    /// messages that the worker sent or took before; `None` if another invocation has claimed it.
    async fn claim(
        &self,
        invocation: &StepInvocation<'_>,
        deadline: Deadline,
    ) -> Result<Option<Handled>, LoadStepError> {
        let (of, step) = (&invocation.event.of, invocation.event.step());
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

    /// Stores the worker's last counts of its minute, and the reason if the worker fails the test.
    /// Returns how the lane (the worker's series of invocations) continues.
    async fn conclude(
        &self,
        minute: &WorkerMinute<'_>,
        outcome: Result<bool, Interrupt>,
        deadline: Deadline,
    ) -> Result<Continuation, LoadStepError> {
        let (role, now) = (minute.step.lane.worker.role, minute.clock.now().min(minute.end));
        let (until, is_last) = match outcome {
            // Its messages are put, and no other is due until the window closes.
            Ok(is_last) if role == Role::Producer => (minute.end, is_last),
            Ok(is_last) => (now, is_last),
            Err(Interrupt::Superseded) => return Ok(Continuation::Superseded),
            Err(Interrupt::Stopped) => (now, true),
            Err(Interrupt::Failed(detail)) => {
                fail(&self.store, minute.of, &detail, deadline).await?;
                (now, true)
            }
        };
        minute.state.next_due.set(None);
        minute.state.count(|tally| {
            tally.worked_until(until);
            if is_last {
                tally.was_last();
            }
        });
        let TestRun { test_id, run, .. } = *minute.of;
        let stored =
            insist(deadline, async || self.store.store_tally(test_id, run, &minute.state.snapshot()).await);
        let stored = stored.await?;
        tracing::info!(
            event_type = "load_step.ended",
            handled = minute.state.count(|tally| tally.handled_count()),
            is_last,
            "worker {} has ended its work in window {} of the load test {test_id}",
            minute.step.lane.worker,
            minute.step.window.number()
        );
        Ok(match (stored, is_last) {
            (None, _) => Continuation::Superseded,
            (Some(_), true) => Continuation::Nothing,
            (Some(_), false) => Continuation::Next,
        })
    }

    /// Records that an invocation of a lane (a worker's series of invocations) has ended its work,
    /// and returns the lane's next minute. The worker that ends last also closes the run, because
    /// the state machine would wait for other lanes, which may sleep for most of a minute. In a
    /// search, it closes the run only if the test was stopped or has failed; otherwise the state
    /// machine does, because another probe may follow.
    async fn go_on(
        &self,
        invocation: &StepInvocation<'_>,
        after: Continuation,
        deadline: Deadline,
    ) -> Result<StepResponse, LoadStepError> {
        let (of, step) = (&invocation.event.of, invocation.event.step());
        let next = next_open(&invocation.plan, invocation.event, invocation.clock.now());
        let response = invocation.event.then(next, invocation.begun.run.started_at);
        let is_last = match after {
            Continuation::Superseded => return Ok(response),
            Continuation::Next => false,
            Continuation::Nothing => true,
        };
        let states = insist(deadline, async || self.store.end_work(of, step, is_last).await).await?;
        if !is_last {
            return Ok(response);
        }
        let is_search = Search::of(&invocation.record.test).is_some();
        if states.have_ended(invocation.plan.workers(), invocation.clock.now())
            && (!is_search || self.is_over(of).await)
            && let Err(error) = Box::pin(self.close(of, ClosedBy::LastWorker, deadline)).await
        {
            let cause: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "load_step.not_closed",
                error = cause,
                "the load test {} is left for the state machine to close: {cause}",
                of.test_id
            );
        }
        Ok(invocation.event.done())
    }

    /// Returns true if the test was stopped, has failed or has ended. Returns false also if the
    /// test was deleted, or if the store fails.
    async fn is_over(&self, of: &TestRun) -> bool {
        let control = self.store.control(&of.tenant, of.test_id).await;
        matches!(control, Ok(Some(control)) if control.is_over())
    }
}

impl StepInvocation<'_> {
    fn lane(&self) -> Lane {
        self.event.lane
    }

    /// Returns the time since the run's start at which the worker ends in this window (minute of
    /// the test).
    fn end(&self) -> Micros {
        self.plan.end_of(self.lane().worker.role, self.event.window)
    }

    /// Checks that the run's plan has this worker, and that this lane (one of the worker's two
    /// series of invocations) works in this minute of the test. The error is
    /// [`LoadStepError::NoWindow`].
    fn check(&self) -> Result<(), LoadStepError> {
        let (lane, window) = (self.lane(), self.event.window);
        let is_of_the_plan = self.plan.workers().any(|worker| worker == lane.worker)
            && window.parity() == lane.parity
            && window.number() < self.plan.windows(lane.worker.role);
        if is_of_the_plan { Ok(()) } else { Err(LoadStepError::NoWindow { lane, window }) }
    }
}

impl WorkerMinute<'_> {
    /// Runs the worker and the concurrent tasks beside it. Returns true if the worker has nothing
    /// left to do in later minutes of the test.
    async fn run(&self) -> Result<bool, Interrupt> {
        let work = async {
            let outcome = Box::pin(self.role()).await;
            self.state.order(Order::End);
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

    /// True if the worker has no later minute of the test by the run's plan.
    fn is_last_window(&self) -> bool {
        self.step.window.number().saturating_add(1) >= self.plan.windows(self.step.lane.worker.role)
    }
}

/// Returns how a lane (a worker's series of invocations) continues after an invocation that started
/// only when its minute of the test had ended. If the worker has no later minute, the invocation
/// reports the worker as ended, in place of the attempt that was lost, because consumers wait until
/// all producers are reported as ended.
fn after_closed(plan: &Plan, lane: Lane, now: Micros) -> Continuation {
    if now < plan.until(lane.worker.role) { Continuation::Next } else { Continuation::Nothing }
}

/// Returns the next minute of the test in which the lane (series of invocations) of `event` works
/// and which has not ended at `now`; `None` if no such minute is left.
fn next_open(plan: &Plan, event: &StepEvent, now: Micros) -> Option<Window> {
    let has_closed = |window: &Window| plan.end_of(event.lane.worker.role, *window) <= now;
    let mut next = plan.next(event.lane, Some(event.window));
    while let Some(closed) = next.filter(has_closed) {
        next = plan.next(event.lane, Some(closed));
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
        let event = StepEvent { of, lane: "p0b".parse().unwrap(), window: Window::new(1), attempt: 0 };
        let next = |second| next_open(&plan, &event, Micros::from_seconds(second)).map(Window::number);
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
        assert_eq!([60, 89].map(|second| after("p0a", second)), [Continuation::Next, Continuation::Next]);
        assert_eq!(
            ["p0a", "p0b"].map(|lane| after(lane, 90)),
            [Continuation::Nothing, Continuation::Nothing]
        );
        assert_eq!(after("c0b", 120), Continuation::Next, "consumers have time to drain the queues");
    }
}
