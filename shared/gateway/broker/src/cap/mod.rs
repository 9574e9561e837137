//! The bound on open connections that all brokers of an execution environment share.
//!
//! A connection holds a [`Permit`] from before it is opened until it has really ended, whether it
//! is used, idle, or hangs in a call that does not return. Brokers keep idle connections on a
//! [`IdleConnections`]. When the bound is reached, the connection that was idle for longest makes
//! room, whichever broker it belongs to.
//!
//! A connection that was asked to end, and whose call does not return, keeps its permit until it
//! does. If no other permit is left, no connection can be opened any more, and
//! [`ConnectionCap::is_exhausted`] is true.

mod permit;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use attempt::Deadline;
use tokio::sync::Notify;

use self::permit::Ending;
pub use self::permit::{ClosingHandle, Permit};

/// Time to wait for a closing connection to end, before another idle connection is closed to make
/// room.
const TO_END: Duration = Duration::from_secs(1);

/// Time after which a closing connection counts as hanging. It is longer than the time limit of any
/// work.
const HANGS: Duration = Duration::from_secs(30);

/// Idle connections of one pool, which a [`ConnectionCap`] may close to make room for a new one.
pub trait IdleConnections: Send + Sync {
    /// Returns the time since which the longest-idle connection has been idle; `None` if none is
    /// idle.
    fn idle_since(&self) -> Option<Instant>;

    /// Starts closing the longest-idle connection, whose permit is released once the connection has
    /// ended. `false` if no connection is idle.
    fn close_longest_idle(&self) -> bool;
}

/// Limit on the number of open connections, shared by all pools of a process.
#[derive(Debug)]
pub struct ConnectionCap {
    max: usize,
    open: AtomicUsize,
    /// Number of connections that hang and will stay open until the process ends.
    lost: AtomicUsize,
    /// Connections that are being closed.
    ending: Mutex<Vec<Ending>>,
    hangs_after: Duration,
    /// True if the last caller that waited for a permit timed out.
    is_refused: AtomicBool,
    shelves: Mutex<Vec<Weak<dyn IdleConnections>>>,
    /// Notification that a permit was released or a connection became idle.
    changed: Notify,
    /// Lock that serves waiting callers in the order of their arrival.
    turn: tokio::sync::Mutex<()>,
}

/// Result of [`ConnectionCap::admit`]: an idle connection, or the permit for a new one.
#[derive(Debug)]
pub enum Admitted<T> {
    /// Idle connection to be reused.
    Idle(T),
    /// Permit to open a connection.
    New(Permit),
}

impl ConnectionCap {
    /// Creates a cap of `max` connections, at least 1.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Self::hanging_after(max, HANGS)
    }

    /// Creates a cap of `max` connections that counts a closing connection as hanging after
    /// `hangs_after`.
    #[must_use]
    pub fn hanging_after(max: usize, hangs_after: Duration) -> Arc<Self> {
        Arc::new(Self {
            max: max.max(1),
            open: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            ending: Mutex::default(),
            hangs_after,
            is_refused: AtomicBool::new(false),
            shelves: Mutex::default(),
            changed: Notify::new(),
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the maximum number of connections that are open at once.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the number of open connections, including those that are closing.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// True if no further connection can be opened, because each connection that the cap allows is
    /// lost or hangs (takes too long to close). Hanging connections count only if the last caller
    /// that waited for a permit timed out: after a freeze of the Lambda environment, a connection
    /// may only seem to hang.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let hangs = |ending: &&Ending| ending.is_open() && ending.since.elapsed() >= self.hangs_after;
        let hanging = match self.is_refused.load(Ordering::SeqCst) {
            true => self.ending().iter().filter(hangs).count(),
            false => 0,
        };
        self.lost.load(Ordering::SeqCst) + hanging >= self.max
    }

    fn ending(&self) -> MutexGuard<'_, Vec<Ending>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a pool, whose idle connections are closed to make room as long as it exists.
    pub fn add(&self, shelf: Weak<dyn IdleConnections>) {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner).push(shelf);
    }

    /// Wakes callers that wait for a connection, because one became idle.
    pub fn became_idle(&self) {
        self.changed.notify_waiters();
    }

    /// Returns the idle connection that `idle` finds, or else a permit to open one. `None` if there
    /// is neither before `deadline`. Begins to close the longest-idle connection of any pool if the
    /// cap is reached.
    pub async fn admit<T>(
        self: &Arc<Self>,
        mut idle: impl FnMut() -> Option<T>,
        deadline: Deadline,
    ) -> Option<Admitted<T>> {
        let _turn = deadline.run(self.turn.lock()).await.ok()?;
        let mut is_room_made = false;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Before `idle` searches, so that no change after it is missed.
            changed.as_mut().enable();
            if let Some(found) = idle() {
                self.is_refused.store(false, Ordering::SeqCst);
                return Some(Admitted::Idle(found));
            }
            if let Some(permit) = self.permit() {
                self.is_refused.store(false, Ordering::SeqCst);
                return Some(Admitted::New(permit));
            }
            // One connection makes room for one caller, unless it does not end.
            is_room_made = is_room_made || self.make_room();
            if deadline.min(TO_END).run(changed).await.is_err() {
                if deadline.has_passed() {
                    self.is_refused.store(true, Ordering::SeqCst);
                    return None;
                }
                is_room_made = false;
            }
        }
    }

    fn permit(self: &Arc<Self>) -> Option<Permit> {
        let more = |open: usize| (open < self.max).then_some(open + 1);
        self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok()?;
        Some(Permit::of(Arc::clone(self)))
    }

    /// Begins to close the longest-idle connection of all pools. `false` if no connection is idle.
    fn make_room(&self) -> bool {
        let shelves: Vec<_> = {
            let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
            shelves.retain(|shelf| shelf.strong_count() > 0);
            shelves.iter().filter_map(Weak::upgrade).collect()
        };
        let oldest = shelves.iter().filter_map(|shelf| Some((shelf.idle_since()?, shelf)));
        match oldest.min_by_key(|(since, _)| *since) {
            Some((_, shelf)) => shelf.close_longest_idle(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    /// Test pool whose connections end when they are closed or, if it is slow, when the test ends
    /// them.
    #[derive(Default)]
    struct Shelf {
        idle: Mutex<Vec<(Instant, Permit)>>,
        ending: Mutex<Vec<Permit>>,
        is_slow: bool,
    }

    impl Shelf {
        fn of(cap: &Arc<ConnectionCap>, is_slow: bool) -> Arc<Self> {
            let shelf = Arc::new(Self { is_slow, ..Self::default() });
            let weak: Weak<Self> = Arc::downgrade(&shelf);
            cap.add(weak);
            shelf
        }

        fn keep(&self, cap: &ConnectionCap, permit: Permit) {
            self.idle.lock().unwrap().push((Instant::now(), permit));
            cap.became_idle();
        }

        fn len(&self) -> usize {
            self.idle.lock().unwrap().len()
        }
    }

    impl IdleConnections for Shelf {
        fn idle_since(&self) -> Option<Instant> {
            self.idle.lock().unwrap().first().map(|(since, _)| *since)
        }

        fn close_longest_idle(&self) -> bool {
            let (_, permit) = self.idle.lock().unwrap().remove(0);
            if self.is_slow {
                self.ending.lock().unwrap().push(permit);
            }
            true
        }
    }

    async fn admit(cap: &Arc<ConnectionCap>) -> Option<Permit> {
        match cap.admit(|| None::<()>, Deadline::after(SOON)).await? {
            Admitted::New(permit) => Some(permit),
            Admitted::Idle(()) => None,
        }
    }

    #[tokio::test]
    async fn no_more_connections_are_open_than_the_cap_allows() {
        let cap = ConnectionCap::new(2);
        let (first, second) = (admit(&cap).await.unwrap(), admit(&cap).await.unwrap());
        assert!(admit(&cap).await.is_none());
        drop(first);
        assert!(admit(&cap).await.is_some());
        drop(second);
        assert_eq!(cap.open(), 0);
    }

    #[tokio::test]
    async fn the_connection_that_was_idle_for_longest_makes_room_whichever_broker_s_it_is() {
        let cap = ConnectionCap::new(3);
        let (one, other) = (Shelf::of(&cap, false), Shelf::of(&cap, false));
        for shelf in [&one, &other, &one] {
            let permit = admit(&cap).await.unwrap();
            shelf.keep(&cap, permit);
        }
        let _in_use = admit(&cap).await.unwrap();
        assert_eq!((one.len(), other.len(), cap.open()), (1, 1, 3));
        let _too = admit(&cap).await.unwrap();
        assert_eq!((one.len(), other.len(), cap.open()), (1, 0, 3));
    }

    #[tokio::test]
    async fn who_waits_gets_what_becomes_idle_or_free() {
        let cap = ConnectionCap::new(1);
        let shelf = Shelf::of(&cap, false);
        let permit = admit(&cap).await.unwrap();
        let waiting = tokio::spawn({
            let cap = Arc::clone(&cap);
            let shelf = Arc::clone(&shelf);
            async move {
                let take = || shelf.idle.lock().unwrap().pop();
                cap.admit(take, Deadline::after(Duration::from_secs(5))).await
            }
        });
        tokio::time::sleep(SOON).await;
        shelf.keep(&cap, permit);
        assert!(matches!(waiting.await.unwrap(), Some(Admitted::Idle(_))));
        assert_eq!(cap.open(), 0);
    }

    #[tokio::test]
    async fn one_connection_ends_for_one_caller_whatever_else_changes_meanwhile() {
        let cap = ConnectionCap::new(3);
        let shelf = Shelf::of(&cap, true);
        for _ in 0..3 {
            shelf.keep(&cap, admit(&cap).await.unwrap());
        }
        let waiting = tokio::spawn({
            let cap = Arc::clone(&cap);
            async move { cap.admit(|| None::<()>, Deadline::after(Duration::from_secs(5))).await }
        });
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            cap.became_idle();
        }
        assert_eq!((shelf.len(), shelf.ending.lock().unwrap().len()), (2, 1));
        shelf.ending.lock().unwrap().clear();
        assert!(matches!(waiting.await.unwrap(), Some(Admitted::New(_))));
        assert_eq!((shelf.len(), cap.open()), (2, 2));
    }

    #[tokio::test]
    async fn a_shelf_that_is_gone_is_forgotten() {
        let cap = ConnectionCap::new(1);
        let shelf = Shelf::of(&cap, false);
        shelf.keep(&cap, admit(&cap).await.unwrap());
        drop(shelf);
        assert!(admit(&cap).await.is_some());
    }

    #[tokio::test]
    async fn a_process_whose_connections_are_lost_or_hang_is_exhausted() {
        let cap = ConnectionCap::hanging_after(3, SOON);
        let [lost, hanging, used] =
            [admit(&cap).await, admit(&cap).await, admit(&cap).await].map(Option::unwrap);
        lost.abandon();
        hanging.closing_handle().mark_closing();
        tokio::time::sleep(SOON).await;
        assert!(admit(&cap).await.is_none());
        assert!(!cap.is_exhausted(), "one is in use");
        used.closing_handle().mark_closing();
        assert!(admit(&cap).await.is_none());
        tokio::time::sleep(SOON).await;
        assert!(cap.is_exhausted());
        // Its call returned after all.
        drop(hanging);
        assert!(!cap.is_exhausted());
        assert!(admit(&cap).await.is_some());
        assert_eq!(cap.open(), 2, "what is lost stays open");
    }

    #[tokio::test]
    async fn a_process_is_exhausted_once_a_connection_was_needed_in_vain() {
        let cap = ConnectionCap::hanging_after(1, SOON);
        let permit = admit(&cap).await.unwrap();
        permit.closing_handle().mark_closing();
        tokio::time::sleep(SOON).await;
        assert!(!cap.is_exhausted());
        assert!(admit(&cap).await.is_none());
        assert!(cap.is_exhausted());
        assert!(matches!(cap.admit(|| Some(()), Deadline::after(SOON)).await, Some(Admitted::Idle(()))));
        assert!(!cap.is_exhausted(), "one was idle");
        permit.abandon();
        assert!(cap.is_exhausted(), "for good");
    }
}
