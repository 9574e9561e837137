//! The open connections, kept for the next request: at most `cap` over all targets, in use or idle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::Channel;
use mq::{Access, BrokerError, Deadline, Endpoint, PoolReport};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::{ConnectionConfig, Settings};
use crate::connection::{Connection, Staleness};
use crate::errors::{During, Failure};
use crate::events;
use crate::manager::ConnectionManager;

/// How long a connection that was idle may take to answer before another one is opened.
const TRUSTED: Duration = Duration::from_secs(3);
const PROBE: Duration = Duration::from_secs(1);

/// How many targets are remembered for each connection that may be open.
const MANAGERS_PER_CONNECTION: usize = 8;

/// Everything that identifies a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    endpoint: Endpoint,
    secret_version: String,
}

struct PooledConnection {
    key: Key,
    connection: Connection,
}

#[derive(Default)]
struct State {
    /// The least recently used first.
    idle: Vec<PooledConnection>,
    managers: Vec<(Key, Arc<ConnectionManager>)>,
    in_use: HashMap<String, usize>,
}

pub(crate) struct ConnectionPool {
    settings: Settings,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

/// A connection in use. Dropping it cuts the connection; [`Lease::release`] keeps it for the next request.
pub(crate) struct Lease {
    // In this order: the connection ends before its place becomes free.
    connection: Connection,
    key: Key,
    place: Place,
}

/// One of the connections that the cap allows.
struct Place {
    pool: Arc<ConnectionPool>,
    target: String,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        if let Some(count) = state.in_use.get_mut(&self.target) {
            *count = count.saturating_sub(1);
        }
        state.in_use.retain(|_, count| *count > 0);
    }
}

impl Lease {
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Keeps the connection, which must have no channel open.
    pub(crate) fn release(self) {
        let Self { mut connection, key, place } = self;
        if connection.seems_open() {
            connection.mark_used();
            place.pool.lock().idle.push(PooledConnection { key, connection });
        } else {
            events::lost(&connection.address, "it was closed while in use");
        }
    }

    /// Cuts the connection, whose state is not known.
    pub(crate) fn abandon(self, why: &str) {
        events::lost(&self.connection.address, why);
    }
}

impl ConnectionPool {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self { settings, permits: Arc::new(Semaphore::new(settings.cap)), state: Mutex::default() })
    }

    /// A connection to the target with a channel opened on it: one that is idle, or a new one.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        access: &Access,
        deadline: Deadline,
    ) -> Result<(Lease, Channel), BrokerError> {
        let key = Key { endpoint: access.endpoint.clone(), secret_version: access.secret_version.clone() };
        let manager = self.manager(&key, access)?;
        let place = self.place(access, deadline).await?;
        for PooledConnection { connection, .. } in self.take_idle(&key) {
            if let Some(channel) = try_channel(&connection, deadline).await {
                return Ok((Lease { connection, key, place }, channel));
            }
        }
        self.make_room().await;
        let connection = Box::pin(manager.connect(deadline)).await?;
        let channel = connection
            .open_channel(deadline)
            .await
            .map_err(|failure: Failure| failure.into_error(During::Connection))?;
        Ok((Lease { connection, key, place }, channel))
    }

    /// A manager for a connection of its own, with its place under the cap.
    pub(crate) async fn acquire_place(
        self: &Arc<Self>,
        access: &Access,
        deadline: Deadline,
    ) -> Result<(Arc<ConnectionManager>, impl Sized + use<>), BrokerError> {
        let manager = ConnectionManager::new(ConnectionConfig::for_target(access, &self.settings)?);
        let place = self.place(access, deadline).await?;
        self.make_room().await;
        Ok((Arc::new(manager), place))
    }

    pub(crate) fn reports(&self) -> Vec<PoolReport> {
        let state = self.lock();
        let mut reports: Vec<PoolReport> = Vec::new();
        let idle = state.idle.iter().map(|pooled| (target(&pooled.key.endpoint), 0, 1));
        let used = state.in_use.iter().map(|(target, count)| (target.clone(), *count, *count));
        for (target, in_use, open) in idle.chain(used) {
            match reports.iter_mut().find(|report| report.target == target) {
                Some(report) => {
                    report.open += open;
                    report.in_use += in_use;
                }
                None => reports.push(PoolReport { target, open, in_use, max_size: self.settings.cap }),
            }
        }
        reports.sort_by(|a, b| a.target.cmp(&b.target));
        reports
    }

    async fn place(self: &Arc<Self>, access: &Access, deadline: Deadline) -> Result<Place, BrokerError> {
        let permit = deadline
            .min(self.settings.pool_timeout)
            .run(Arc::clone(&self.permits).acquire_owned())
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or(BrokerError::PoolTimeout)?;
        let target = target(&access.endpoint);
        *self.lock().in_use.entry(target.clone()).or_default() += 1;
        Ok(Place { pool: Arc::clone(self), target, _permit: permit })
    }

    /// The manager of a target, kept for as long as there are not too many.
    fn manager(&self, key: &Key, access: &Access) -> Result<Arc<ConnectionManager>, BrokerError> {
        let mut state = self.lock();
        let known = state.managers.iter().position(|(other, _)| other == key);
        let entry = match known {
            Some(index) => state.managers.remove(index),
            None => {
                let config = ConnectionConfig::for_target(access, &self.settings)?;
                (key.clone(), Arc::new(ConnectionManager::new(config)))
            }
        };
        let manager = Arc::clone(&entry.1);
        state.managers.push(entry);
        if state.managers.len() > self.settings.cap * MANAGERS_PER_CONNECTION {
            state.managers.remove(0);
        }
        Ok(manager)
    }

    /// Takes the idle connections to a target, the most recently used first, and drops every one that is past use.
    fn take_idle(&self, key: &Key) -> Vec<PooledConnection> {
        let mut state = self.lock();
        let (usable, past): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.idle).into_iter().partition(|pooled| {
                pooled.connection.seems_open() && pooled.connection.staleness() != Staleness::Dead
            });
        let (mut mine, others) = usable.into_iter().partition::<Vec<_>, _>(|pooled| pooled.key == *key);
        state.idle = others;
        // One is enough for a request; the others wait for their own.
        let first = mine.pop();
        state.idle.append(&mut mine);
        drop(state);
        for pooled in past {
            events::lost(&pooled.connection.address, "it was closed or idle for too long");
        }
        first.into_iter().collect()
    }

    /// Closes the least recently used connections until the cap allows another one.
    async fn make_room(&self) {
        loop {
            let oldest = {
                let mut state = self.lock();
                let in_use: usize = state.in_use.values().sum();
                let full = !state.idle.is_empty() && state.idle.len() + in_use > self.settings.cap;
                full.then(|| state.idle.remove(0))
            };
            match oldest {
                Some(pooled) => pooled.connection.close().await,
                None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a channel on a connection that was idle, which proves that it lives.
async fn try_channel(connection: &Connection, deadline: Deadline) -> Option<Channel> {
    let patience = match connection.staleness() {
        Staleness::Fresh => TRUSTED,
        Staleness::Doubtful => PROBE,
        Staleness::Dead => return None,
    };
    match connection.open_channel(deadline.min(patience)).await {
        Ok(channel) => Some(channel),
        Err(_) => {
            events::lost(&connection.address, "it did not answer after being idle");
            None
        }
    }
}

/// Broker, addresses and virtual host, without the user.
fn target(endpoint: &Endpoint) -> String {
    let addresses: Vec<_> = endpoint.addresses.iter().map(ToString::to_string).collect();
    format!("rabbitmq://{}/{}", addresses.join(","), endpoint.queue_manager)
}
