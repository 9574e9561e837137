//! Pool of the connections that are kept between requests, under one cap over all targets and
//! brokers.
//!
//! An execution environment serves one request at a time, so no request waits for a connection of
//! another one. If a request needs more connections at once than the cap allows, it is refused
//! after idle connections had up to 2 s to close.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use broker::{Admitted, ConnectionCap, Deadline, IdleConnections, Permit};
use mq::{Access, Address, BrokerError, Endpoint, PoolReport};

use crate::config::{ConnectionConfig, Settings};
use crate::connection::Connection;
use crate::connector::Connector;
use crate::events::{self, PoolStats};
use crate::pooled::PooledConnection;
use crate::retry::{Jitter, RetryPolicy};

/// Time for an idle connection to close and make room for a new one.
const ROOM: Duration = Duration::from_secs(2);

/// Maximum number of address lists for which the pool remembers the address that answered last.
const MOST_REMEMBERED: usize = 64;

/// Identity of a connection: connections with equal keys are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    endpoint: Endpoint,
    secret_version: String,
}

impl Key {
    fn of(access: &Access) -> Arc<Self> {
        Arc::new(Self { endpoint: access.endpoint.clone(), secret_version: access.secret_version.clone() })
    }

    /// Broker, addresses and virtual host as the pool report names them, without the user.
    fn target(&self) -> String {
        let Endpoint { broker, addresses, queue_manager, .. } = &self.endpoint;
        PoolReport::target_of(*broker, addresses, queue_manager)
    }
}

/// Connections to all targets. The least recently used idle connection is closed to make room for a
/// new one.
pub(crate) struct ConnectionPools {
    settings: Settings,
    cap: Arc<ConnectionCap>,
    shelf: Arc<IdleShelf>,
}

#[derive(Default)]
struct IdleShelf(Mutex<State>);

/// An idle connection. It is closed before its permit is returned.
struct Idle {
    owner: Arc<Key>,
    since: Instant,
    connection: Connection,
    permit: Permit,
}

#[derive(Default)]
struct State {
    /// Idle connections, the least recently used first.
    idle: Vec<Idle>,
    /// Keys of the connections that are in use or about to be opened, one entry for each.
    in_use: Vec<Arc<Key>>,
    /// Hash of each address list with the index of the address that answered last; the most recent
    /// entry last. If two lists have the same hash, the cost is one attempt at the wrong address.
    answered: Vec<(u64, usize)>,
}

impl State {
    /// Takes the most recently used idle connection that `wanted` accepts, and all that must not be
    /// used again.
    fn take(&mut self, wanted: impl Fn(&Key) -> bool) -> (Option<Idle>, Vec<Idle>) {
        let (usable, past): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.idle).into_iter().partition(|idle| idle.connection.is_worth_keeping());
        self.idle = usable;
        let last = self.idle.iter().rposition(|idle| wanted(&idle.owner));
        (last.map(|index| self.idle.remove(index)), past)
    }

    fn leave(&mut self, key: &Arc<Key>) {
        if let Some(index) = self.in_use.iter().position(|other| Arc::ptr_eq(other, key)) {
            self.in_use.swap_remove(index);
        }
    }

    /// Remembers that the address at `index` answered.
    fn remember(&mut self, list: u64, index: usize) {
        self.answered.retain(|(known, _)| *known != list);
        self.answered.push((list, index));
        if self.answered.len() > MOST_REMEMBERED {
            self.answered.remove(0);
        }
    }
}

impl IdleShelf {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleConnections for IdleShelf {
    fn idle_since(&self) -> Option<Instant> {
        self.lock().idle.first().map(|idle| idle.since)
    }

    fn close_longest_idle(&self) -> bool {
        let oldest = {
            let mut state = self.lock();
            if state.idle.is_empty() { None } else { Some(state.idle.remove(0)) }
        };
        let Some(Idle { connection, permit, .. }) = oldest else { return false };
        // The request that asked for room waits for the permit, and so for the orderly close.
        tokio::spawn(async move {
            connection.close().await;
            drop(permit);
        });
        true
    }
}

/// Permission to have one connection in use.
pub(crate) struct Place {
    pools: Arc<ConnectionPools>,
    key: Arc<Key>,
    /// `None` once it belongs to an idle connection.
    permit: Option<Permit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.pools.lock().leave(&self.key);
        }
    }
}

impl Place {
    /// Keeps `connection`, which was in use under this permission, as an idle one.
    pub(crate) fn keep(mut self, connection: Connection) {
        let Some(permit) = self.permit.take() else { return };
        let peer = connection.peer.clone();
        let owner = Arc::clone(&self.key);
        {
            let mut state = self.pools.lock();
            state.leave(&self.key);
            state.idle.push(Idle { owner, since: Instant::now(), connection, permit });
        }
        self.pools.cap.became_idle();
        events::released(&peer, self.pools.stats(&self.key));
    }
}

impl ConnectionPools {
    /// Creates the pool. The number of connections open at once is limited by `cap`, which counts
    /// those of its other users as well.
    pub(crate) fn new(settings: Settings, cap: Arc<ConnectionCap>) -> Arc<Self> {
        let shelf = Arc::new(IdleShelf::default());
        let weak: Weak<IdleShelf> = Arc::downgrade(&shelf);
        cap.add(weak);
        Arc::new(Self { settings, cap, shelf })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns a connection to the target with an open channel: an idle one that answers, or a new
    /// one. If the broker cannot be reached, it is tried again for at most `retry_for`, and at most
    /// half of the remaining time; the rest is kept for the operation itself.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        access: &Access,
        deadline: Deadline,
    ) -> Result<PooledConnection, BrokerError> {
        let started = Instant::now();
        let (connector, key) = (self.connector(access)?, Key::of(access));
        let (place, idle) = self.enter(&connector, &key, |idle| *idle == *key, deadline).await?;
        // An operation probes one idle connection only; the others wait for their own operations.
        if let Some(idle) = idle
            && let Some((channel, _)) = idle.reopen(idle.staleness(), deadline).await
        {
            idle.mark_used();
            events::acquired(&idle.peer, started.elapsed(), false, self.stats(&key));
            return Ok(PooledConnection::new(idle, channel, place));
        }
        let retry_until = deadline.min(self.settings.retry_for.min(deadline.remaining() / 2));
        let retry = RetryPolicy::default().with_jitter(Jitter::Half);
        let (connection, channel, _) = Box::pin(connector.persist(retry, retry_until, deadline)).await?;
        self.lock().remember(hash(connector.config().addresses()), connector.preferred());
        events::acquired(&connection.peer, started.elapsed(), true, self.stats(&key));
        Ok(PooledConnection::new(connection, channel, place))
    }

    /// Connector for a separate connection, with its permission under the cap.
    pub(crate) async fn acquire_place(
        self: &Arc<Self>,
        access: &Access,
    ) -> Result<(Connector, Place), BrokerError> {
        let connector = self.connector(access)?;
        let (place, _) = self.enter(&connector, &Key::of(access), |_| false, Deadline::after(ROOM)).await?;
        Ok((connector, place))
    }

    fn connector(&self, access: &Access) -> Result<Connector, BrokerError> {
        let config = ConnectionConfig::for_target(access, &self.settings)?;
        let list = hash(config.addresses());
        let answered = self.lock().answered.iter().find(|(known, _)| *known == list).map(|known| known.1);
        Ok(Connector::new(Arc::new(config)).preferring(answered.unwrap_or_default()))
    }

    async fn enter(
        self: &Arc<Self>,
        connector: &Connector,
        key: &Arc<Key>,
        wanted: impl Fn(&Key) -> bool,
        deadline: Deadline,
    ) -> Result<(Place, Option<Connection>), BrokerError> {
        let started = Instant::now();
        let take_idle = || {
            let (idle, past) = self.lock().take(&wanted);
            for past in past {
                let why = past.connection.why_given_up("it was closed or idle for too long");
                events::lost(&past.connection.peer, why);
            }
            idle
        };
        let (permit, idle) = match self.cap.admit(take_idle, deadline.min(ROOM)).await {
            Some(Admitted::Idle(Idle { connection, permit, .. })) => (permit, Some(connection)),
            Some(Admitted::New(permit)) => (permit, None),
            None => {
                if let Some(peer) = connector.peer() {
                    events::pool_timeout(&peer, started.elapsed(), self.cap.max());
                }
                return Err(BrokerError::pool_timeout());
            }
        };
        self.lock().in_use.push(Arc::clone(key));
        Ok((Place { pools: Arc::clone(self), key: Arc::clone(key), permit: Some(permit) }, idle))
    }

    /// Connection counts for the same target and user.
    fn stats(&self, key: &Key) -> PoolStats {
        let state = self.lock();
        let available = state.idle.iter().filter(|idle| *idle.owner == *key).count();
        let in_use = state.in_use.iter().filter(|owner| ***owner == *key).count();
        PoolStats { total: available + in_use, in_use, available, max_size: self.cap.max() }
    }

    /// Connection counts of each target, over all users.
    pub(crate) fn reports(&self) -> Vec<PoolReport> {
        let state = self.lock();
        let idle = state.idle.iter().map(|idle| (idle.owner.target(), false));
        let used = state.in_use.iter().map(|owner| (owner.target(), true));
        PoolReport::by_target(idle.chain(used), self.cap.max())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shelf.lock()
    }
}

fn hash(addresses: &[Address]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for Address { host, port } in addresses {
        (host, port).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_answered_is_remembered_for_the_latest_targets() {
        let mut state = State::default();
        let address = |number| vec![Address { host: format!("broker-{number}.example"), port: 5672 }];
        for number in 0..200 {
            state.remember(hash(&address(number)), number);
        }
        assert_eq!(state.answered.len(), MOST_REMEMBERED);
        state.remember(hash(&address(150)), 3);
        let last = state.answered.last();
        assert_eq!((state.answered.len(), last), (MOST_REMEMBERED, Some(&(hash(&address(150)), 3))));
    }
}
