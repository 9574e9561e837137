//! The right to have a connection open, from before it is opened until it has really ended.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::ConnectionCap;

/// Permission to have one connection open. Dropping it lets another connection be opened.
#[derive(Debug)]
pub struct Permit {
    cap: Arc<ConnectionCap>,
    is_lost: bool,
    /// Token that lives as long as the permit. Weak references to it show whether the permit of a
    /// closing connection still exists.
    token: Arc<()>,
}

/// Connection that is being closed, with the time at which closing began.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) since: Instant,
    permit: Weak<()>,
}

/// Handle with which the owner of a connection tells the cap that closing begins. The connection
/// itself keeps its permit until it has ended.
#[derive(Debug)]
pub struct ClosingHandle {
    cap: Arc<ConnectionCap>,
    permit: Weak<()>,
}

impl ClosingHandle {
    /// Records that closing the connection begins now.
    pub fn mark_closing(self) {
        let ending = Ending { since: Instant::now(), permit: self.permit };
        let mut all = self.cap.ending();
        all.retain(Ending::is_open);
        all.push(ending);
    }
}

impl Ending {
    pub(super) fn is_open(&self) -> bool {
        self.permit.strong_count() > 0
    }
}

impl Permit {
    pub(super) fn of(cap: Arc<ConnectionCap>) -> Self {
        Self { cap, is_lost: false, token: Arc::default() }
    }

    /// Returns a handle with which the connection can be marked as closing.
    #[must_use]
    pub fn closing_handle(&self) -> ClosingHandle {
        ClosingHandle { cap: Arc::clone(&self.cap), permit: Arc::downgrade(&self.token) }
    }

    /// Counts the connection as open until the process ends, because it hangs.
    pub fn abandon(mut self) {
        self.is_lost = true;
        self.cap.lost.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_lost {
            self.cap.open.fetch_sub(1, Ordering::SeqCst);
            self.cap.changed.notify_waiters();
        }
    }
}
