//! A connection of a pool, and its entry in the pool's counts.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use crate::events;
use crate::health::HealthStatus;
use crate::opener::Connection;
use crate::pool::{Key, PoolInner, PoolKey};

/// Entry of one connection in the pool's list of connections that are in use or being opened.
/// Dropping it removes the entry.
pub struct Reservation<C: Connection, K: PoolKey = Arc<Key>> {
    inner: Arc<PoolInner<C, K>>,
    key: K,
}

impl<C: Connection, K: PoolKey> fmt::Debug for Reservation<C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").finish_non_exhaustive()
    }
}

impl<C: Connection, K: PoolKey> Drop for Reservation<C, K> {
    fn drop(&mut self) {
        let mut connections = self.inner.lock();
        if let Some(index) = connections.in_use.iter().position(|key| *key == self.key) {
            connections.in_use.swap_remove(index);
        }
    }
}

impl<C: Connection, K: PoolKey> Reservation<C, K> {
    pub(crate) fn new(inner: &Arc<PoolInner<C, K>>, key: &K) -> Self {
        inner.lock().in_use.push(key.clone());
        Self { inner: Arc::clone(inner), key: key.clone() }
    }

    /// Turns a newly opened connection into a pooled connection that is in use.
    #[must_use]
    pub fn hold(self, connection: C, health: HealthStatus) -> PooledConnection<C, K> {
        let (key, now) = (self.key.clone(), Timestamp::now());
        let reservation = Some(self);
        PooledConnection {
            reservation,
            key,
            connection,
            created_at: now,
            last_used: now,
            idle_since: Instant::now(),
            health,
        }
    }
}

/// Connection of a pool: `PooledConnection` of the specified connection model. Dropping it closes
/// it and everything that is open on it; [`release`](Self::release) returns it to the pool.
pub struct PooledConnection<C: Connection, K: PoolKey = Arc<Key>> {
    /// Entry among the pool's connections in use; `None` while the connection is idle.
    reservation: Option<Reservation<C, K>>,
    pub(crate) key: K,
    pub(crate) connection: C,
    created_at: Timestamp,
    last_used: Timestamp,
    pub(crate) idle_since: Instant,
    health: HealthStatus,
}

impl<C: Connection, K: PoolKey> PooledConnection<C, K> {
    /// Returns the broker connection.
    pub fn connection(&self) -> &C {
        &self.connection
    }

    /// Returns the key under which the pool keeps the connection.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// True if the connection is in use, and false if it is idle in the pool.
    pub fn in_use(&self) -> bool {
        self.reservation.is_some()
    }

    /// Returns the time at which the connection was opened.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Returns the time at which the connection was last acquired or released.
    pub fn last_used(&self) -> Timestamp {
        self.last_used
    }

    /// Returns the result of the connection's last health check.
    pub fn health_status(&self) -> &HealthStatus {
        &self.health
    }

    /// Records `health` as the result of the connection's last health check.
    pub fn mark_checked(&mut self, health: HealthStatus) {
        self.health = health;
    }

    pub(crate) fn mark_in_use(&mut self, reservation: Reservation<C, K>) {
        self.mark_used();
        self.reservation = Some(reservation);
    }

    fn mark_available(&mut self) -> Option<Reservation<C, K>> {
        self.mark_used();
        self.reservation.take()
    }

    fn mark_used(&mut self) {
        self.connection.mark_used();
        (self.last_used, self.idle_since) = (Timestamp::now(), Instant::now());
    }

    /// Returns the connection to the pool, or closes it if it must not be used again or the pool is
    /// closed. The caller must have closed all that it opened on the connection.
    pub fn release(mut self) {
        let Some(reservation) = self.mark_available() else { return };
        let inner = Arc::clone(&reservation.inner);
        drop(reservation);
        if let Some(why) = self.connection.unusable() {
            return self.abandon(why);
        }
        let (key, peer) = (self.key.clone(), self.connection.peer().clone());
        if let Err(late) = inner.keep(self) {
            return late.abandon("the pool was closed");
        }
        events::released(&peer, || inner.stats(&key));
    }

    /// Closes a connection whose state is unknown, and logs the reason `why`.
    pub fn abandon(mut self, why: &str) {
        // Before the connection's permit, so that no more are counted than there may be.
        self.reservation = None;
        events::lost(self.connection.peer(), why);
    }

    /// Closes the connection in an orderly way, and removes it from the pool.
    pub async fn close(mut self) {
        self.reservation = None;
        self.connection.close().await;
    }
}

impl<C: Connection, K: PoolKey> Deref for PooledConnection<C, K> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.connection
    }
}

impl<C: Connection, K: PoolKey> fmt::Debug for PooledConnection<C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledConnection")
            .field("peer", self.connection.peer())
            .field("in_use", &self.in_use())
            .field("created_at", &self.created_at)
            .field("last_used", &self.last_used)
            .field("health_status", &self.health)
            .finish_non_exhaustive()
    }
}
