//! Pool of the connections to RabbitMQ. It remembers for each target which address answered last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::{
    ConnectionCap, ConnectionPool, ConnectionSettings, Deadline, HealthStatus, Key, OpenError, Opened,
    Opener, Peer, Permit, Reservation,
};
use lapin::Channel;
use mq::{Access, Address, BrokerError, ConnectionCounts};

use crate::config::{ConnectionConfig, Settings};
use crate::connect::{Dials, Remedy};
use crate::connection::Connection;
use crate::connector::Connector;
use crate::errors::During;
use crate::pooled::PooledConnection;

/// Maximum number of address lists for which the last answering address is remembered. Adding
/// another one clears the memory.
const MOST_REMEMBERED: usize = 64;

/// Pool of the connections to all RabbitMQ targets.
#[derive(Debug)]
pub(crate) struct Pool {
    settings: Settings,
    pool: ConnectionPool<Connection>,
    /// Index of the address that answered last, for each list of addresses; absent if it is the
    /// first.
    answered: Mutex<HashMap<Vec<Address>, usize>>,
}

impl Pool {
    pub(crate) fn new(settings: Settings, cap: Arc<ConnectionCap>) -> Self {
        Self { settings, pool: ConnectionPool::new(cap), answered: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Acquires a connection to the target, with an open channel.
    pub(crate) async fn acquire(
        &self,
        access: &Access,
        deadline: Deadline,
    ) -> Result<PooledConnection, BrokerError> {
        let (connector, limits) = self.connector(access)?;
        let mut dialler = Dialler::new(&connector);
        let acquired = Box::pin(self.pool.acquire(&Key::of(access), &mut dialler, &limits, deadline)).await?;
        self.remember(connector.config().addresses(), connector.preferred());
        Ok(PooledConnection::new(acquired))
    }

    /// Waits for a permit to open a new connection. Returns it with the connector for the target,
    /// and with the connection's entry in the pool.
    pub(crate) async fn reserve(
        &self,
        access: &Access,
        deadline: Deadline,
    ) -> Result<(Connector, Permit, Reservation<Connection>), BrokerError> {
        let (connector, limits) = self.connector(access)?;
        let reserved = self.pool.reserve(&Key::of(access), &connector.peer(), &limits, deadline).await;
        let (permit, reservation) = reserved?;
        Ok((connector, permit, reservation))
    }

    fn connector(&self, access: &Access) -> Result<(Connector, ConnectionSettings), BrokerError> {
        let limits = self.settings.connections.within(&access.limits);
        let config = ConnectionConfig::for_target(access, &limits)?;
        let index = self.answered().get(config.addresses()).copied().unwrap_or_default();
        Ok((Connector::new(Arc::new(config)).preferring(index), limits))
    }

    pub(crate) fn end_stale(&self) {
        self.pool.end_stale();
    }

    pub(crate) fn reports(&self) -> Vec<ConnectionCounts> {
        self.pool.reports()
    }

    fn remember(&self, addresses: &[Address], index: usize) {
        let mut answered = self.answered();
        if let Some(known) = answered.get_mut(addresses) {
            *known = index;
        } else if index > 0 {
            if answered.len() >= MOST_REMEMBERED {
                answered.clear();
            }
            answered.insert(addresses.to_vec(), index);
        }
    }

    fn answered(&self) -> MutexGuard<'_, HashMap<Vec<Address>, usize>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opener of connections for one use of a pool, which also opens a channel on each.
#[derive(Debug)]
pub struct Dialler<'a> {
    connector: &'a Connector,
    dials: Dials,
}

impl<'a> Dialler<'a> {
    /// Creates an opener that has not tried any address.
    #[must_use]
    pub fn new(connector: &'a Connector) -> Self {
        Self { connector, dials: Dials::new() }
    }
}

impl Opener for Dialler<'_> {
    type Connection = Connection;
    type Started = Channel;

    fn peer(&self) -> Peer {
        self.connector.peer()
    }

    async fn reuse(
        &mut self,
        connection: &Connection,
        deadline: Deadline,
    ) -> Option<(Channel, HealthStatus)> {
        connection.reopen(deadline).await
    }

    async fn open(
        &mut self,
        permit: Permit,
        deadline: Deadline,
    ) -> Result<Opened<Connection, Channel>, OpenError> {
        let (_, connected) = Box::pin(self.connector.round(deadline, &mut self.dials)).await;
        let connection = connected.map_err(|failure| OpenError {
            may_pass: failure.remedy() == Remedy::TryAgain && !self.dials.are_spent(),
            error: failure.error,
        })?;
        let connection = connection.holding(permit);
        match connection.timed_channel(deadline).await {
            Ok((channel, health)) => Ok((connection, channel, health)),
            Err(failure) => {
                let error = failure.into_error(During::Connection);
                Err(OpenError { may_pass: error.is_transient() && !self.dials.are_spent(), error })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_that_answered_is_remembered_for_some_targets_at_a_time() {
        let pool = Pool::new(Settings::default(), ConnectionCap::new(1));
        let list = |number| vec![Address { host: format!("broker-{number}.example"), port: 5672 }];
        for number in 0..200 {
            pool.remember(&list(number), 1);
            assert!(pool.answered().len() <= MOST_REMEMBERED);
        }
        pool.remember(&list(198), 2);
        pool.remember(&list(199), 0);
        pool.remember(&list(200), 0);
        let known = [198, 199, 200].map(|number| pool.answered().get(&list(number)).copied());
        assert_eq!(known, [Some(2), Some(0), None]);
    }
}
