//! State that the concurrent tasks of an invocation share: the worker's counts, the order to
//! continue or to end, and the states of the other workers.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use load_test::store::{Handled, WorkerStates};
use load_test::{Micros, Tally};
use mq::BrokerError;
use nix::time::ClockId;
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender};

use crate::test_clock::TestClock;

/// Order to the concurrent tasks of an invocation (such as the worker, the storing of its counts,
/// the measuring of queues): to continue or to end. A greater order replaces a smaller one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    #[default]
    GoOn,
    /// End the invocation's work, because the worker has ended by itself.
    End,
    /// End the invocation's work, because the test was stopped or has failed.
    Stop,
    /// End the invocation's work and store nothing, because another attempt does the worker's work
    /// in this minute of the test, or because the test was deleted.
    Abandon,
}

/// Reason why a worker, or a task of the invocation beside it, ends before its work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// The test was stopped, or has failed because of another worker. A task beside the worker also
    /// ends for this reason once the worker has ended.
    Stopped,
    /// Another attempt does the worker's work in this minute of the test, or the test was deleted.
    Superseded,
    /// The test fails because of this worker, for this reason.
    Failed(String),
}

/// Reason why a worker stops using its connection to the broker: the worker ends, or the connection
/// is broken.
pub(super) enum Leave {
    Interrupt(Interrupt),
    Broken(BrokerError),
}

/// Clock readings at the start of an invocation, from which the time and the processor time that it
/// uses are measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) since: Instant,
    processor: Duration,
}

/// State that the concurrent tasks of an invocation share. They run on one thread, so two borrows
/// of the tally (the worker's counts in this minute) never overlap.
#[derive(Debug)]
pub(super) struct InvocationState {
    clock: TestClock,
    /// Time since the run's start at which the worker ends in this window (minute of the test).
    end: Micros,
    used: Used,
    tally: RefCell<Tally>,
    /// Time since the run's start at which the producer's next message is due. The worker's counts
    /// include every message that was due earlier. `None` if no message is left, for a producer
    /// without a rate, and for a consumer.
    pub(super) next_due: Cell<Option<Micros>>,
    order: Sender<Order>,
    /// Workers of the run that are at work, and workers that have ended, as read from the store
    /// once a second.
    pub(super) worker_states: Sender<WorkerStates>,
    /// Number of messages that the worker sent or took before this step (its attempt at one minute
    /// of the test), read from the store again once it cannot grow any more. `None` until then.
    /// Stays `None` if the number was final when the step was claimed, or if the worker has no
    /// limit.
    pub(super) final_handled: Sender<Option<Handled>>,
    /// Signal to store the worker's counts at once, because the worker sends no more in this
    /// minute: its invocation for the next minute needs the number of messages sent.
    pub(super) store_now: Notify,
}

impl Order {
    const fn interrupt(self) -> Option<Interrupt> {
        match self {
            Self::GoOn => None,
            Self::End | Self::Stop => Some(Interrupt::Stopped),
            Self::Abandon => Some(Interrupt::Superseded),
        }
    }
}

impl From<Interrupt> for Leave {
    fn from(interrupt: Interrupt) -> Self {
        Self::Interrupt(interrupt)
    }
}

impl Used {
    /// Starts measuring the time and the processor time of the invocation.
    pub(super) fn from_now() -> Self {
        Self { since: Instant::now(), processor: processor_time() }
    }

    /// Returns the processor time that the process has used since the measurement began.
    fn processor(&self) -> Duration {
        processor_time().saturating_sub(self.processor)
    }
}

impl InvocationState {
    pub(super) fn new(clock: TestClock, end: Micros, tally: Tally, used: Used) -> Self {
        Self {
            clock,
            end,
            used,
            tally: RefCell::new(tally),
            next_due: Cell::new(None),
            order: Sender::new(Order::GoOn),
            worker_states: Sender::new(WorkerStates::default()),
            final_handled: Sender::new(None),
            store_now: Notify::new(),
        }
    }

    /// Applies a change to the tally (the worker's counts in this minute), and returns the result
    /// of `change`.
    pub(super) fn count<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        change(&mut self.tally.borrow_mut())
    }

    /// Returns a copy of the tally (the worker's counts in this minute), with the time up to which
    /// it is complete.
    ///
    /// This time is at most the time at which the producer's next message is due. If the process is
    /// lost after this copy, a message that was put later counts as unrecorded or received, never
    /// as "not sent".
    pub(super) fn snapshot(&self) -> Tally {
        let now = self.clock.now().min(self.end);
        let done = self.next_due.get().map_or(now, |due| due.min(now));
        self.count(|tally| {
            tally.worked_until(done);
            tally.took(self.used.since.elapsed(), self.used.processor());
            tally.clone()
        })
    }

    /// Gives an order to the concurrent tasks of the invocation, unless a greater order was given
    /// before.
    pub(super) fn order(&self, order: Order) {
        self.order.send_if_modified(|given| {
            let is_greater = order > *given;
            *given = order.max(*given);
            is_greater
        });
    }

    /// Runs `work` until it is done, and returns its result. If there is an order to end, drops
    /// `work` and returns the reason.
    pub(super) async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Result<T, Interrupt> {
        Ok(self.waiting(work).await?.0)
    }

    /// Runs `work` as [`Self::unless_ended`] does. Also returns true if `work` had to wait, and so
    /// let other tasks of the invocation run meanwhile; false if it was done at once.
    pub(super) async fn waiting<T>(&self, work: impl Future<Output = T>) -> Result<(T, bool), Interrupt> {
        if let Some(interrupt) = self.order.borrow().interrupt() {
            return Err(interrupt);
        }
        let mut work = pin!(work);
        // Most work is done at once, and then no receiver is needed.
        if let Poll::Ready(done) = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
            return Ok((done, false));
        }
        let mut orders = self.order.subscribe();
        tokio::select! {
            biased;
            interrupt = given(&mut orders) => Err(interrupt),
            done = work => Ok((done, true)),
        }
    }
}

/// Returns the processor time of this process with all its threads; zero if the kernel does not
/// report it.
fn processor_time() -> Duration {
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::ZERO, Duration::from)
}

async fn given(orders: &mut Receiver<Order>) -> Interrupt {
    // The sender lives as long as its receivers here.
    let order = orders.wait_for(|order| *order != Order::GoOn).await;
    order.ok().and_then(|order| order.interrupt()).unwrap_or(Interrupt::Stopped)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use load_test::{Step, Window};

    use super::*;

    /// Returns the shared state of a producer's invocation in minute 0 of a run that started
    /// `seconds` ago.
    fn state(seconds: u64) -> InvocationState {
        let clock = TestClock::of(Timestamp::now() - Duration::from_secs(seconds));
        let step = Step { lane: "p0a".parse().unwrap(), window: Window::new(0), attempt: 0 };
        let tally = Tally::new(step, Micros::ZERO, 1, Micros::ZERO);
        InvocationState::new(clock, Micros::from_seconds(60), tally, Used::from_now())
    }

    /// Returns the time up to which a tally (counts of a worker in one minute) covers the worker's
    /// work, in seconds since the run's start.
    fn until(tally: &Tally) -> u64 {
        let mut sum = load_test::Sum::default();
        sum.add(tally);
        let test = crate::samples::test(serde_json::json!({"producers": {"ratePerSec": 1}}));
        let (plan, schedule) = (load_test::Plan::of(&test), test.schedule());
        let accounting =
            load_test::Accounting::of(&plan, schedule.as_ref(), &sum, load_test::EndFacts::default());
        let [hole] = accounting.holes.as_slice() else { return 60 };
        Duration::from_secs_f64(hole.from_seconds).as_secs()
    }

    #[test]
    fn a_tally_claims_nothing_that_is_due_from_the_message_in_hand_on() {
        let state = state(30);
        assert_eq!(until(&state.snapshot()), 30);
        let behind = self::state(30);
        behind.next_due.set(Some(Micros::from_seconds(12)));
        assert_eq!(until(&behind.snapshot()), 12);
        let ahead = self::state(30);
        ahead.next_due.set(Some(Micros::from_seconds(45)));
        assert_eq!(until(&ahead.snapshot()), 30);
        assert_eq!(until(&self::state(90).snapshot()), 60);
    }

    #[test]
    fn what_this_process_computes_is_seen() {
        let used = Used::from_now();
        let sum = (0..1_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        assert!(used.processor() > Duration::ZERO, "{sum}");
    }

    #[tokio::test]
    async fn an_order_ends_work_that_waits_and_a_greater_one_stays() {
        let state = state(0);
        assert_eq!(state.waiting(std::future::ready(1)).await, Ok((1, false)));
        assert_eq!(state.waiting(tokio::task::yield_now()).await, Ok(((), true)));
        let stop = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            state.order(Order::Stop);
        };
        let (ended, ()) = tokio::join!(state.unless_ended(std::future::pending::<()>()), stop);
        assert_eq!(ended, Err(Interrupt::Stopped));
        state.order(Order::Abandon);
        state.order(Order::End);
        assert_eq!(state.unless_ended(std::future::ready(1)).await, Err(Interrupt::Superseded));
    }
}
