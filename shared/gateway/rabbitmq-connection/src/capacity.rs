//! The bound on a pool's connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::Deadline;
use rabbitmq::PoolStats;
use rabbitmq::parts::{Staleness, events};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::pool::PoolLimits;
use crate::pooled::PooledConnection;

pub(crate) struct Capacity {
    limits: PoolLimits,
    /// Permits, handed out in the order of the callers.
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Idle connections, the least recently used first.
    idle: Vec<PooledConnection>,
    /// Number of connections that are in use or about to be made.
    in_use: usize,
    is_closed: bool,
}

/// Right to one connection in use.
pub(crate) struct Place {
    capacity: Arc<Capacity>,
    is_counted: bool,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_counted {
            let mut state = self.capacity.lock();
            state.in_use = state.in_use.saturating_sub(1);
        }
    }
}

impl Place {
    pub(crate) fn pool_is_closed(&self) -> bool {
        self.capacity.is_closed()
    }

    /// Keeps `connection`, which was in use in this place, as an idle one.
    pub(crate) fn keep(mut self, connection: PooledConnection) {
        let peer = connection.peer().clone();
        {
            let mut state = self.capacity.lock();
            state.in_use = state.in_use.saturating_sub(1);
            state.idle.push(connection);
        }
        self.is_counted = false;
        events::released(&peer, self.capacity.stats());
    }
}

impl Capacity {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self { limits, permits: Arc::new(Semaphore::new(limits.max_size)), state: Mutex::default() }
    }

    pub(crate) fn max_size(&self) -> usize {
        self.limits.max_size
    }

    /// Waits for a place until `deadline` or the pool's timeout, and returns it with the idle
    /// connection that was used last. If none is idle, another connection may be opened.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Option<(Place, Option<PooledConnection>)> {
        let acquired = Arc::clone(&self.permits).acquire_owned();
        let permit = deadline.min(self.limits.timeout).run(acquired).await.ok()?.ok()?;
        let (idle, past) = {
            let mut state = self.lock();
            let (usable, past): (Vec<_>, Vec<_>) = std::mem::take(&mut state.idle)
                .into_iter()
                .partition(|idle| idle.seems_open() && idle.staleness() != Staleness::Dead);
            state.idle = usable;
            state.in_use = state.in_use.saturating_add(1);
            (state.idle.pop(), past)
        };
        for past in past {
            past.abandon("it was closed or idle for too long");
        }
        Some((Place { capacity: Arc::clone(self), is_counted: true, _permit: permit }, idle))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Takes the connections that are idle; no caller gets one any more.
    pub(crate) fn close(&self) -> Vec<PooledConnection> {
        let mut state = self.lock();
        state.is_closed = true;
        std::mem::take(&mut state.idle)
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let state = self.lock();
        let (available, in_use) = (state.idle.len(), state.in_use);
        let total = available.saturating_add(in_use);
        PoolStats { total, in_use, available, max_size: self.limits.max_size }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
