//! Limit on the number of open broker connections in an execution environment. The clients of all
//! kinds of broker share this limit.
//!
//! A connection holds a [`Permit`] from before it is opened until it has really ended, whether it
//! is used, idle, or hangs in a call that does not return. Each pool offers its idle connections
//! through [`IdleConnections`]. When the limit is reached, the connection that has been idle for
//! longest in any pool is closed, so that a new one can be opened.
//!
//! A connection that was asked to end, and whose call does not return, keeps its permit until the
//! call returns. If such connections hold all permits, no connection can be opened any more, and
//! [`ConnectionCap::is_exhausted`] is true.

mod permit;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use attempt::Deadline;
use tokio::sync::Notify;

use self::permit::Ending;
pub use self::permit::{ClosingHandle, Permit};

/// Time that a caller waits for one closing connection to end, before another idle connection is
/// closed for the caller.
const TO_END: Duration = Duration::from_secs(1);

/// Time from the start of its close after which a connection that is still open counts as hanging:
/// a call of the client library on it does not return. This time is longer than the time limit of
/// any work on a connection.
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
    pools: Mutex<Vec<Weak<dyn IdleConnections>>>,
    /// Notification that a permit was released or a connection became idle.
    changed: Notify,
    /// Lock that serves waiting callers in the order of their arrival.
    admission_lock: tokio::sync::Mutex<()>,
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
    /// Creates a cap of `max` connections; 0 counts as 1.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Self::hanging_after(max, HANGS)
    }

    /// Creates a cap of `max` connections; 0 counts as 1. A connection counts as hanging if it has
    /// not ended `hangs_after` after the start of its close.
    #[must_use]
    pub fn hanging_after(max: usize, hangs_after: Duration) -> Arc<Self> {
        Arc::new(Self {
            max: max.max(1),
            open: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            ending: Mutex::default(),
            hangs_after,
            is_refused: AtomicBool::new(false),
            pools: Mutex::default(),
            changed: Notify::new(),
            admission_lock: tokio::sync::Mutex::default(),
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

    /// True if no further connection can be opened, because all connections that the cap allows
    /// hang. A connection hangs if it was given up with [`Permit::abandon`] or takes too long to
    /// close. The latter counts only if the last caller that waited for a permit timed out: after a
    /// freeze of the Lambda environment, a connection may only seem to hang.
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

    /// Registers a pool, so that its idle connections can be closed when the cap is reached. A pool
    /// that was dropped is ignored.
    pub fn add(&self, pool: Weak<dyn IdleConnections>) {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).push(pool);
    }

    /// Wakes callers that wait for a connection, because one became idle.
    pub fn became_idle(&self) {
        self.changed.notify_waiters();
    }

    /// Returns an idle connection if `idle` finds one, or else a permit to open a connection. While
    /// the cap is reached, begins to close the longest-idle connection of any pool, and waits.
    /// `None` if neither became available before `deadline`.
    pub async fn admit<T>(
        self: &Arc<Self>,
        mut idle: impl FnMut() -> Option<T>,
        deadline: Deadline,
    ) -> Option<Admitted<T>> {
        let _admission = deadline.run(self.admission_lock.lock()).await.ok()?;
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
        let pools: Vec<_> = {
            let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools.retain(|pool| pool.strong_count() > 0);
            pools.iter().filter_map(Weak::upgrade).collect()
        };
        let oldest = pools.iter().filter_map(|pool| Some((pool.idle_since()?, pool)));
        match oldest.min_by_key(|(since, _)| *since) {
            Some((_, pool)) => pool.close_longest_idle(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    /// Test pool of idle connections. A connection that is closed ends at once or, if `is_slow` is
    /// true, when the test drops its permit.
    #[derive(Default)]
    struct TestPool {
        idle: Mutex<Vec<(Instant, Permit)>>,
        ending: Mutex<Vec<Permit>>,
        is_slow: bool,
    }

    impl TestPool {
        fn of(cap: &Arc<ConnectionCap>, is_slow: bool) -> Arc<Self> {
            let pool = Arc::new(Self { is_slow, ..Self::default() });
            let weak: Weak<Self> = Arc::downgrade(&pool);
            cap.add(weak);
            pool
        }

        fn keep(&self, cap: &ConnectionCap, permit: Permit) {
            self.idle.lock().unwrap().push((Instant::now(), permit));
            cap.became_idle();
        }

        fn len(&self) -> usize {
            self.idle.lock().unwrap().len()
        }
    }

    impl IdleConnections for TestPool {
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
        let (one, other) = (TestPool::of(&cap, false), TestPool::of(&cap, false));
        for pool in [&one, &other, &one] {
            let permit = admit(&cap).await.unwrap();
            pool.keep(&cap, permit);
        }
        let _in_use = admit(&cap).await.unwrap();
        assert_eq!((one.len(), other.len(), cap.open()), (1, 1, 3));
        let _too = admit(&cap).await.unwrap();
        assert_eq!((one.len(), other.len(), cap.open()), (1, 0, 3));
    }

    #[tokio::test]
    async fn who_waits_gets_what_becomes_idle_or_free() {
        let cap = ConnectionCap::new(1);
        let pool = TestPool::of(&cap, false);
        let permit = admit(&cap).await.unwrap();
        let waiting = tokio::spawn({
            let cap = Arc::clone(&cap);
            let pool = Arc::clone(&pool);
            async move {
                let take = || pool.idle.lock().unwrap().pop();
                cap.admit(take, Deadline::after(Duration::from_secs(5))).await
            }
        });
        tokio::time::sleep(SOON).await;
        pool.keep(&cap, permit);
        assert!(matches!(waiting.await.unwrap(), Some(Admitted::Idle(_))));
        assert_eq!(cap.open(), 0);
    }

    #[tokio::test]
    async fn one_connection_ends_for_one_caller_whatever_else_changes_meanwhile() {
        let cap = ConnectionCap::new(3);
        let pool = TestPool::of(&cap, true);
        for _ in 0..3 {
            pool.keep(&cap, admit(&cap).await.unwrap());
        }
        let waiting = tokio::spawn({
            let cap = Arc::clone(&cap);
            async move { cap.admit(|| None::<()>, Deadline::after(Duration::from_secs(5))).await }
        });
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            cap.became_idle();
        }
        assert_eq!((pool.len(), pool.ending.lock().unwrap().len()), (2, 1));
        pool.ending.lock().unwrap().clear();
        assert!(matches!(waiting.await.unwrap(), Some(Admitted::New(_))));
        assert_eq!((pool.len(), cap.open()), (2, 2));
    }

    #[tokio::test]
    async fn a_pool_that_is_gone_is_forgotten() {
        let cap = ConnectionCap::new(1);
        let pool = TestPool::of(&cap, false);
        pool.keep(&cap, admit(&cap).await.unwrap());
        drop(pool);
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
