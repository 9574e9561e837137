//! Pool of the connections that are kept between uses: `ConnectionPool` of the connection model.
//!
//! A function has one pool for each kind of broker, and all of them share a cap. A connection holds
//! its [`Permit`] from before it is opened until it has really ended. No background task looks
//! after idle connections, because a function is frozen between its requests. A connection is
//! checked when it is needed.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use attempt::Deadline;
use mq::{Access, BrokerError, ConnectionCounts, ConnectionLimits, Endpoint, IdleRule};

use crate::cap::{Admitted, ConnectionCap, IdleConnections, Permit};
use crate::events::{self, Peer};
use crate::opener::{Connection, Opener};
use crate::pooled::{PooledConnection, Reservation};
use crate::retry::{Jitter, RetryPolicy};
use crate::settings::ConnectionSettings;

/// Reason why a pool could not provide a connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PoolError {
    /// All connections that the cap allows were in use until the wait timed out.
    #[error("no connection to the broker became free in time")]
    PoolTimeout,
    /// The pool was closed, so it provides no connections.
    #[error("the pool is closed")]
    Closed,
    /// No connection could be opened; the broker's error says why.
    #[error(transparent)]
    Connection(BrokerError),
}

impl From<PoolError> for BrokerError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Connection(error) => error,
            PoolError::PoolTimeout | PoolError::Closed => Self::pool_timeout(),
        }
    }
}

/// Identity of pooled connections: connections with equal keys are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    endpoint: Endpoint,
    secret_version: String,
    idle: IdleRule,
    limits: ConnectionLimits,
}

impl Key {
    /// Returns the key of connections that are opened with `access`.
    #[must_use]
    pub fn of(access: &Access) -> Arc<Self> {
        Arc::new(Self {
            endpoint: access.endpoint.clone(),
            secret_version: access.secret_version.clone(),
            idle: access.idle,
            limits: access.limits,
        })
    }

    /// Returns the rule that decides whether a connection with this key is kept when its request
    /// ends.
    #[must_use]
    pub fn idle(&self) -> IdleRule {
        self.idle
    }

    /// Returns the endpoint to which connections with this key are connected.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns broker, addresses and queue manager in the form of [`ConnectionCounts::target`],
    /// without the user.
    #[must_use]
    pub fn target(&self) -> String {
        let Endpoint { broker, addresses, queue_manager, .. } = &self.endpoint;
        ConnectionCounts::target_of(*broker, addresses, queue_manager)
    }
}

/// Numbers of connections with one key in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Number of connections with this key: idle, in use or being opened.
    pub total: usize,
    /// Number of connections with this key that are in use or being opened.
    pub in_use: usize,
    /// Number of idle connections with this key.
    pub available: usize,
    /// Maximum number of open connections over all keys and pools.
    pub max_size: usize,
}

/// Key type by which a pool finds interchangeable connections.
pub trait PoolKey: Clone + PartialEq + Send + Sync + 'static {}

impl<K: Clone + PartialEq + Send + Sync + 'static> PoolKey for K {}

/// Pool of broker connections that are kept between uses. If the cap is reached, the longest-idle
/// connection is closed to make room for a new one.
pub struct ConnectionPool<C: Connection, K: PoolKey = Arc<Key>>(Arc<PoolInner<C, K>>);

pub(crate) struct PoolInner<C: Connection, K: PoolKey> {
    cap: Arc<ConnectionCap>,
    connections: Mutex<Connections<C, K>>,
}

pub(crate) struct Connections<C: Connection, K: PoolKey> {
    /// Idle connections, least recently used first.
    idle: Vec<PooledConnection<C, K>>,
    /// Keys of the connections that are in use or being opened, one entry for each connection.
    pub(crate) in_use: Vec<K>,
    is_closed: bool,
}

impl<C: Connection, K: PoolKey> PoolInner<C, K> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Connections<C, K>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the idle connections that `wanted` accepts from the pool, and returns them.
    fn take(&self, wanted: impl FnMut(&mut PooledConnection<C, K>) -> bool) -> Vec<PooledConnection<C, K>> {
        self.lock().idle.extract_if(.., wanted).collect()
    }

    /// Removes the most recently used idle connection with this key from the pool, and returns it;
    /// `None` if there is none. Before that, ends all idle connections that must not be used again.
    fn take_last(&self, key: &K) -> Option<PooledConnection<C, K>> {
        self.end_stale();
        let mut connections = self.lock();
        let last = connections.idle.iter().rposition(|idle| idle.key == *key)?;
        Some(connections.idle.remove(last))
    }

    /// Adds an idle connection to the pool. If the pool is closed, returns the connection as the
    /// error.
    pub(crate) fn keep(&self, idle: PooledConnection<C, K>) -> Result<(), PooledConnection<C, K>> {
        {
            let mut connections = self.lock();
            if connections.is_closed {
                return Err(idle);
            }
            connections.idle.push(idle);
        }
        self.cap.became_idle();
        Ok(())
    }

    /// Ends the idle connections that must not be used again, such as those that were idle too
    /// long.
    fn end_stale(&self) {
        let mut reasons = Vec::new();
        let past = self.take(|idle| {
            let why = idle.connection.unusable();
            reasons.extend(why);
            why.is_some()
        });
        for (past, why) in past.into_iter().zip(reasons) {
            past.abandon(why);
        }
    }

    pub(crate) fn stats(&self, key: &K) -> PoolStats {
        let connections = self.lock();
        let available = connections.idle.iter().filter(|idle| idle.key == *key).count();
        let in_use = connections.in_use.iter().filter(|used| *used == key).count();
        PoolStats { total: available + in_use, in_use, available, max_size: self.cap.max() }
    }
}

impl<C: Connection, K: PoolKey> IdleConnections for PoolInner<C, K> {
    fn idle_since(&self) -> Option<Instant> {
        self.lock().idle.first().map(|idle| idle.idle_since)
    }

    fn close_longest_idle(&self) -> bool {
        let oldest = {
            let mut connections = self.lock();
            if connections.idle.is_empty() { None } else { Some(connections.idle.remove(0)) }
        };
        let Some(oldest) = oldest else { return false };
        // The caller that asked for room waits for the permit, and so for the orderly close.
        tokio::spawn(oldest.close());
        true
    }
}

impl<C: Connection, K: PoolKey> ConnectionPool<C, K> {
    /// Creates an empty pool. `cap` limits the number of open connections, over all pools that
    /// share it.
    #[must_use]
    pub fn new(cap: Arc<ConnectionCap>) -> Self {
        let connections = Connections { idle: Vec::new(), in_use: Vec::new(), is_closed: false };
        let inner = Arc::new(PoolInner { cap, connections: Mutex::new(connections) });
        let weak: Weak<PoolInner<C, K>> = Arc::downgrade(&inner);
        inner.cap.add(weak);
        Self(inner)
    }

    /// Acquires a working connection with this key: the most recently used idle one if it still
    /// answers, or a new one. Other idle connections are not probed. Returns it with the work that
    /// `opener` has begun on it. Connecting to an unreachable broker is retried for at most
    /// `settings.retry_for` and at most half of the remaining time; the rest is left for the
    /// caller's work.
    ///
    /// # Errors
    /// [`PoolError`]. Its text contains the number of attempts if there was more than one.
    pub async fn acquire<O: Opener<Connection = C>>(
        &self,
        key: &K,
        opener: &mut O,
        settings: &ConnectionSettings,
        deadline: Deadline,
    ) -> Result<(PooledConnection<C, K>, O::Started), PoolError> {
        let (started, peer) = (Instant::now(), opener.peer());
        let until = deadline.min(settings.pool_timeout);
        let mut permit = match self.admit(&peer, || self.0.take_last(key), until).await? {
            Admitted::New(permit) => permit,
            Admitted::Idle(mut idle) => {
                let reservation = Reservation::new(&self.0, key);
                if let Some((begun, health)) = opener.reuse(&idle.connection, deadline).await {
                    idle.mark_checked(health);
                    idle.mark_in_use(reservation);
                    return self.give(idle, begun, false, started).await;
                }
                drop(reservation);
                idle.abandon("it did not answer after being idle");
                self.permit(&peer, until).await?
            }
        };
        let opening = Instant::now();
        let retry_until = deadline.min(settings.retry_for.min(deadline.remaining() / 2));
        let mut retry = RetryPolicy::default().with_jitter(Jitter::Half);
        let mut attempts = 1;
        loop {
            let reservation = Reservation::new(&self.0, key);
            let failed = match opener.open(permit, deadline).await {
                Ok((connection, begun, health)) => {
                    return self.give(reservation.hold(connection, health), begun, true, started).await;
                }
                Err(failed) => failed,
            };
            drop(reservation);
            let error = failed.error.after(attempts, opening.elapsed());
            let delay = failed.may_pass.then(|| retry.next_delay_before(retry_until)).flatten();
            let Some(delay) = delay else { return Err(PoolError::Connection(error)) };
            attempts += 1;
            events::reconnecting(&opener.peer(), attempts, delay);
            tokio::time::sleep(delay).await;
            permit = match self.permit(&peer, retry_until).await {
                // Why no connection was opened says more than that all are in use by now.
                Err(PoolError::PoolTimeout) => return Err(PoolError::Connection(error)),
                admitted => admitted?,
            };
        }
    }

    /// Logs that a connection was acquired, and returns it with the work `begun` on it. `started`
    /// is the time at which the caller asked for a connection. If the pool was closed meanwhile,
    /// closes the connection instead, and returns [`PoolError::Closed`].
    async fn give<B>(
        &self,
        pooled: PooledConnection<C, K>,
        begun: B,
        is_new: bool,
        started: Instant,
    ) -> Result<(PooledConnection<C, K>, B), PoolError> {
        if self.is_closed() {
            pooled.close().await;
            return Err(PoolError::Closed);
        }
        let count = || self.get_stats(&pooled.key);
        events::acquired(pooled.connection.peer(), started.elapsed(), is_new, count);
        Ok((pooled, begun))
    }

    /// Waits for a permit to open a new connection, even if others are idle, and counts the
    /// connection as in use in the pool until the returned reservation is dropped. `peer` describes
    /// the connection in log lines.
    ///
    /// # Errors
    /// If all connections stay in use until `deadline` or for `settings.pool_timeout`, or the pool
    /// is closed.
    pub async fn reserve(
        &self,
        key: &K,
        peer: &Peer,
        settings: &ConnectionSettings,
        deadline: Deadline,
    ) -> Result<(Permit, Reservation<C, K>), PoolError> {
        let permit = self.permit(peer, deadline.min(settings.pool_timeout)).await?;
        Ok((permit, Reservation::new(&self.0, key)))
    }

    async fn permit(&self, peer: &Peer, until: Deadline) -> Result<Permit, PoolError> {
        match self.admit(peer, || None::<Infallible>, until).await? {
            Admitted::New(permit) => Ok(permit),
            Admitted::Idle(never) => match never {},
        }
    }

    async fn admit<T>(
        &self,
        peer: &Peer,
        idle: impl FnMut() -> Option<T>,
        until: Deadline,
    ) -> Result<Admitted<T>, PoolError> {
        let started = Instant::now();
        let admitted = self.0.cap.admit(idle, until).await;
        if self.is_closed() {
            return Err(PoolError::Closed);
        }
        admitted.ok_or_else(|| {
            events::pool_timeout(peer, started.elapsed(), self.0.cap.max());
            PoolError::PoolTimeout
        })
    }

    /// Ends the idle connections that must not be used again. A Lambda function calls this after it
    /// was frozen, before any request.
    pub fn end_stale(&self) {
        self.0.end_stale();
    }

    /// Ends the idle connections whose key satisfies `unwanted`.
    pub fn end_idle(&self, unwanted: impl Fn(&K) -> bool) {
        drop(self.0.take(|idle| unwanted(&idle.key)));
    }

    /// Closes the pool: idle connections end now, those in use end when they are released, and no
    /// caller gets a connection any more.
    pub async fn close(&self) {
        self.0.lock().is_closed = true;
        for idle in self.0.take(|_| true) {
            idle.close().await;
        }
    }

    /// True if [`Self::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.lock().is_closed
    }

    /// Returns the current numbers of connections with this key.
    pub fn get_stats(&self, key: &K) -> PoolStats {
        self.0.stats(key)
    }
}

impl<C: Connection> ConnectionPool<C> {
    /// Returns the numbers of connections for each target, over all users.
    #[must_use]
    pub fn reports(&self) -> Vec<ConnectionCounts> {
        let connections = self.0.lock();
        let idle = connections.idle.iter().map(|idle| (idle.key.target(), false));
        let used = connections.in_use.iter().map(|key| (key.target(), true));
        ConnectionCounts::by_target(idle.chain(used), self.0.cap.max())
    }
}

impl<C: Connection, K: PoolKey> fmt::Debug for ConnectionPool<C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.0.lock();
        f.debug_struct("ConnectionPool")
            .field("in_use", &connections.in_use.len())
            .field("available", &connections.idle.len())
            .field("max_size", &self.0.cap.max())
            .finish()
    }
}
