//! The pools of all targets, under one cap.

use std::sync::{Arc, Mutex, PoisonError};

use mq::{Access, BrokerError, Deadline, Endpoint, PoolReport};

use crate::capacity::{Capacity, Member, Place};
use crate::config::{ConnectionConfig, Settings};
use crate::connector::Connector;
use crate::events;
use crate::pool::{ConnectionPool, PoolLimits};
use crate::pooled::PooledConnection;

/// How many targets are remembered for each connection that may be open.
const POOLS_PER_CONNECTION: usize = 8;

/// Everything that identifies a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    endpoint: Endpoint,
    secret_version: String,
}

/// A pool for each target. The cap holds for all of them together, and the least recently used connection makes room for
/// a new one, whatever its target.
pub(crate) struct ConnectionPools {
    settings: Settings,
    capacity: Arc<Capacity>,
    /// The least recently used first.
    pools: Mutex<Vec<(Key, Arc<ConnectionPool>)>>,
}

impl ConnectionPools {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let limits = PoolLimits { max_size: settings.cap, timeout: settings.pool_timeout };
        Arc::new(Self { settings, capacity: Arc::new(Capacity::new(limits)), pools: Mutex::default() })
    }

    /// A connection to the target, with a channel open on it.
    pub(crate) async fn acquire(
        &self,
        access: &Access,
        deadline: Deadline,
    ) -> Result<PooledConnection, BrokerError> {
        let pool = self.pool(access)?;
        Ok(pool.acquire(deadline).await?)
    }

    /// What makes a connection of its own, with its place under the cap.
    pub(crate) async fn acquire_place(
        &self,
        access: &Access,
        deadline: Deadline,
    ) -> Result<(Connector, Place), BrokerError> {
        let config = ConnectionConfig::for_target(access, &self.settings)?;
        let member = Arc::new(Member::new(&config));
        let Some((place, _)) = self.capacity.enter(&member, deadline).await else {
            events::pool_timeout(member.peer(), self.settings.pool_timeout, self.settings.cap);
            return Err(BrokerError::PoolTimeout);
        };
        Ok((Connector::new(config), place))
    }

    pub(crate) fn reports(&self) -> Vec<PoolReport> {
        self.capacity.reports()
    }

    /// The pool of a target, kept for as long as it has connections or there are not too many.
    fn pool(&self, access: &Access) -> Result<Arc<ConnectionPool>, BrokerError> {
        let key = Key { endpoint: access.endpoint.clone(), secret_version: access.secret_version.clone() };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = match pools.iter().position(|(known, _)| *known == key) {
            Some(index) => pools.remove(index),
            None => {
                let config = ConnectionConfig::for_target(access, &self.settings)?;
                (key, Arc::new(ConnectionPool::sharing(config, Arc::clone(&self.capacity))))
            }
        };
        let pool = Arc::clone(&entry.1);
        pools.push(entry);
        if pools.len() > self.settings.cap * POOLS_PER_CONNECTION
            && let Some(unused) = pools.iter().position(|(_, pool)| !pool.has_connections())
        {
            pools.remove(unused);
        }
        Ok(pool)
    }
}
