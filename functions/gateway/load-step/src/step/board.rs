//! State that the parts of a step share: the tally, the order to go on or to end, and the news of
//! the other workers.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use load_test::store::{Attendance, Handled};
use load_test::{Micros, Tally};
use mq::BrokerError;
use nix::time::ClockId;
use tokio::sync::Notify;
use tokio::sync::watch::{Receiver, Sender};

use crate::test_clock::TestClock;

/// Order to the parts of a step. A greater order replaces a smaller one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    #[default]
    GoOn,
    /// The worker has ended by itself, and the other parts end too.
    End,
    /// The test was stopped, or has failed.
    Stop,
    /// Another attempt works on the window, or the test was deleted. Nothing may be stored.
    Abandon,
}

/// Reason why a worker ends before its work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// The test was stopped, or another worker failed it.
    Stopped,
    /// Another invocation owns the step now, or the test was deleted.
    Superseded,
    /// This worker fails the test, for this reason.
    Failed(String),
}

/// Reason why a worker stops using a connection.
pub(super) enum Leave {
    Interrupt(Interrupt),
    Broken(BrokerError),
}

/// Time and processor time that the invocation has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) since: Instant,
    processor: Duration,
}

/// The parts run on one thread, so a borrow of the tally never meets another one.
#[derive(Debug)]
pub(super) struct Board {
    clock: TestClock,
    /// End of the worker's part of the window.
    end: Micros,
    used: Used,
    tally: RefCell<Tally>,
    /// Time at which the next message of a producer is due; `None` if it has none. Everything that
    /// is due before it is in the tally.
    pub(super) pending: Cell<Option<Micros>>,
    order: Sender<Order>,
    /// Workers that work, and workers that have ended, updated once a second.
    pub(super) attendance: Sender<Attendance>,
    /// Messages that the worker had handled before this step; `None` while their number may grow.
    pub(super) handled: Sender<Option<Handled>>,
    /// Order to store the tally at once: the worker sends no more in this window, and the lane that
    /// takes the next one wants to know how much it sent.
    pub(super) wanted: Notify,
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
    /// Begins to count.
    pub(super) fn from_now() -> Self {
        Self { since: Instant::now(), processor: processor_time() }
    }

    /// Returns the processor time that was used since the count began.
    fn processor(&self) -> Duration {
        processor_time().saturating_sub(self.processor)
    }
}

impl Board {
    pub(super) fn new(clock: TestClock, end: Micros, tally: Tally, used: Used) -> Self {
        Self {
            clock,
            end,
            used,
            tally: RefCell::new(tally),
            pending: Cell::new(None),
            order: Sender::new(Order::GoOn),
            attendance: Sender::new(Attendance::default()),
            handled: Sender::new(None),
            wanted: Notify::new(),
        }
    }

    /// Changes the tally.
    pub(super) fn count<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        change(&mut self.tally.borrow_mut())
    }

    /// Returns the tally as it is now.
    ///
    /// The tally says that everything was done, or given up, that was due before the message that
    /// the producer has in hand. So if the process ends now, a message that was put since is in a
    /// hole and "unrecorded", or received; it is never "not sent".
    pub(super) fn snapshot(&self) -> Tally {
        let now = self.clock.now().min(self.end);
        let done = self.pending.get().map_or(now, |due| due.min(now));
        self.count(|tally| {
            tally.worked_until(done);
            tally.took(self.used.since.elapsed(), self.used.processor());
            tally.clone()
        })
    }

    /// Gives an order, unless a greater one was given before.
    pub(super) fn order(&self, order: Order) {
        self.order.send_if_modified(|given| {
            let is_greater = order > *given;
            *given = order.max(*given);
            is_greater
        });
    }

    /// Runs `work`, unless there is an order to end first: then `work` is dropped.
    pub(super) async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Result<T, Interrupt> {
        Ok(self.waiting(work).await?.0)
    }

    /// Runs `work` as [`Self::unless_ended`] does, and returns whether it had to wait.
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

/// Returns the processor time of this process with its threads; zero if the kernel does not report
/// it.
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

    /// A board of a test that started `seconds` ago, with a minute's end.
    fn board(seconds: u64) -> Board {
        let clock = TestClock::of(Timestamp::now() - Duration::from_secs(seconds));
        let step = Step { lane: "p0a".parse().unwrap(), window: Window::new(0), attempt: 0 };
        let tally = Tally::new(step, Micros::ZERO, 1, Micros::ZERO);
        Board::new(clock, Micros::from_seconds(60), tally, Used::from_now())
    }

    /// Returns how far a tally says that its step came, in seconds.
    fn until(tally: &Tally) -> u64 {
        let mut sum = load_test::Sum::default();
        sum.add(tally);
        let test = crate::samples::test(serde_json::json!({"producers": {"ratePerSec": 1}}));
        let (plan, schedule) = (load_test::Plan::of(&test), test.schedule());
        let accounting = load_test::Accounting::of(&plan, schedule.as_ref(), &sum, load_test::End::default());
        let [hole] = accounting.holes.as_slice() else { return 60 };
        Duration::from_secs_f64(hole.from_seconds).as_secs()
    }

    #[test]
    fn a_tally_claims_nothing_that_is_due_from_the_message_in_hand_on() {
        let board = board(30);
        assert_eq!(until(&board.snapshot()), 30);
        let behind = self::board(30);
        behind.pending.set(Some(Micros::from_seconds(12)));
        assert_eq!(until(&behind.snapshot()), 12);
        let ahead = self::board(30);
        ahead.pending.set(Some(Micros::from_seconds(45)));
        assert_eq!(until(&ahead.snapshot()), 30);
        assert_eq!(until(&self::board(90).snapshot()), 60);
    }

    #[test]
    fn what_this_process_computes_is_seen() {
        let used = Used::from_now();
        let sum = (0..1_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        assert!(used.processor() > Duration::ZERO, "{sum}");
    }

    #[tokio::test]
    async fn an_order_ends_work_that_waits_and_a_greater_one_stays() {
        let board = board(0);
        assert_eq!(board.waiting(std::future::ready(1)).await, Ok((1, false)));
        assert_eq!(board.waiting(tokio::task::yield_now()).await, Ok(((), true)));
        let stop = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            board.order(Order::Stop);
        };
        let (ended, ()) = tokio::join!(board.unless_ended(std::future::pending::<()>()), stop);
        assert_eq!(ended, Err(Interrupt::Stopped));
        board.order(Order::Abandon);
        board.order(Order::End);
        assert_eq!(board.unless_ended(std::future::ready(1)).await, Err(Interrupt::Superseded));
    }
}
