//! The pools of all targets, under one cap.

use std::sync::{Arc, Mutex, PoisonError};

use mq::{Access, BrokerError, Deadline, Endpoint, PoolReport, Tls};
use secrecy::{ExposeSecret as _, SecretString};

use crate::capacity::{Capacity, Member, Place};
use crate::config::{ConnectionConfig, Settings};
use crate::connector::Connector;
use crate::events;
use crate::pool::{ConnectionPool, PoolLimits};
use crate::pooled::PooledConnection;

/// How many targets are remembered for each connection that may be open.
const POOLS_PER_CONNECTION: usize = 8;

/// How many bytes the targets take that are remembered without a connection.
const REMEMBERED_BYTES: usize = 1024 * 1024;

/// What an address or a pool takes beside its texts.
const OVERHEAD: usize = 512;

/// Everything that identifies a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    endpoint: Endpoint,
    secret_version: String,
}

/// A target that is remembered.
struct Remembered {
    key: Key,
    pool: Arc<ConnectionPool>,
    bytes: usize,
}

/// A pool for each target. The cap holds for all of them together, and the least recently used
/// connection makes room for a new one, whatever its target.
pub(crate) struct ConnectionPools {
    settings: Settings,
    capacity: Arc<Capacity>,
    /// The least recently used first.
    pools: Mutex<Vec<Remembered>>,
}

impl ConnectionPools {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let limits = PoolLimits { max_size: settings.cap, timeout: settings.pool_timeout };
        Arc::new(Self { settings, capacity: Arc::new(Capacity::new(limits)), pools: Mutex::default() })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
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
        let config = Arc::new(ConnectionConfig::for_target(access, &self.settings)?);
        let member = Arc::new(Member::new(Arc::clone(&config)));
        let Some((place, _)) = self.capacity.enter(&member, deadline).await else {
            events::pool_timeout(&member.peer(), self.settings.pool_timeout, self.settings.cap);
            return Err(BrokerError::pool_timeout());
        };
        Ok((Connector::new(config), place))
    }

    pub(crate) fn reports(&self) -> Vec<PoolReport> {
        self.capacity.reports()
    }

    /// The pool of a target. One without connections is remembered for the address that answered
    /// last, as long as there are neither too many nor too large ones.
    fn pool(&self, access: &Access) -> Result<Arc<ConnectionPool>, BrokerError> {
        let key = Key { endpoint: access.endpoint.clone(), secret_version: access.secret_version.clone() };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = match pools.iter().position(|known| known.key == key) {
            Some(index) => pools.remove(index),
            None => {
                let config = Arc::new(ConnectionConfig::for_target(access, &self.settings)?);
                let capacity = Arc::clone(&self.capacity);
                let pool = Arc::new(ConnectionPool::sharing(config, capacity, self.settings.retry_for));
                Remembered { key, pool, bytes: bytes(access) }
            }
        };
        let pool = Arc::clone(&entry.pool);
        forget_unused(&mut pools, self.settings.cap * POOLS_PER_CONNECTION - 1, entry.bytes);
        pools.push(entry);
        Ok(pool)
    }
}

/// Forgets pools without connections, the least recently used first, until at most `count` are left
/// and there is room for `bytes`.
fn forget_unused(pools: &mut Vec<Remembered>, count: usize, bytes: usize) {
    let mut excess = pools.len().saturating_sub(count);
    let all = pools.iter().fold(bytes, |sum, known| sum.saturating_add(known.bytes));
    let mut excess_bytes = all.saturating_sub(REMEMBERED_BYTES);
    pools.retain(|known| {
        if (excess == 0 && excess_bytes == 0) || known.pool.has_connections() {
            return true;
        }
        excess = excess.saturating_sub(1);
        excess_bytes = excess_bytes.saturating_sub(known.bytes);
        false
    });
}

/// What a target takes: its key, and the configuration that its pool's parts share.
fn bytes(access: &Access) -> usize {
    let endpoint = &access.endpoint;
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let secret =
        |secret: &Option<SecretString>| secret.as_ref().map_or(0, |secret| secret.expose_secret().len());
    let addresses: usize = endpoint.addresses.iter().map(|address| address.host.len() + OVERHEAD).sum();
    let cipher = match &endpoint.tls {
        Tls::On { cipher_spec, .. } => text(cipher_spec),
        Tls::Off => 0,
    };
    let shared = addresses
        + endpoint.queue_manager.len()
        + text(&endpoint.channel)
        + text(&endpoint.ccdt_url)
        + text(&endpoint.user)
        + cipher
        + access.secret_version.len();
    let credentials = access
        .credentials
        .as_ref()
        .map_or(0, |login| login.user.len() + login.password.expose_secret().len());
    OVERHEAD + 2 * shared + credentials + secret(&access.trust_store) + secret(&access.key_store)
}

#[cfg(test)]
mod tests {
    use mq::{Address, BrokerKind};

    use super::*;

    fn access(number: usize, addresses: usize, filler: usize) -> Access {
        let host = |index| format!("broker-{index}.example");
        Access {
            endpoint: Endpoint {
                broker: BrokerKind::RabbitMq,
                queue_manager: format!("host-{number}"),
                channel: None,
                addresses: (0..addresses).map(|index| Address { host: host(index), port: 5672 }).collect(),
                ccdt_url: None,
                tls: Tls::Off,
                user: None,
                password_ref: None,
            },
            credentials: Some(mq::Credentials { user: "app".to_owned(), password: "s3cret".into() }),
            trust_store: None,
            key_store: None,
            secret_version: "v".repeat(filler),
        }
    }

    fn remembered(pools: &ConnectionPools) -> (usize, usize) {
        let pools = pools.pools.lock().unwrap();
        (pools.len(), pools.iter().map(|known| known.bytes).sum())
    }

    #[tokio::test]
    async fn targets_are_remembered_up_to_a_number_and_a_size() {
        let pools = ConnectionPools::new(Settings::default());
        for number in 0..200 {
            pools.pool(&access(number, 1, 3)).unwrap();
        }
        assert_eq!(remembered(&pools).0, Settings::default().cap * POOLS_PER_CONNECTION);
        // The one that was used last stays.
        let last = pools.pool(&access(199, 1, 3)).unwrap();
        assert!(Arc::ptr_eq(&last, &pools.pool(&access(199, 1, 3)).unwrap()));

        for number in 0..200 {
            pools.pool(&access(number, 16, 60_000)).unwrap();
            assert!(remembered(&pools).1 <= REMEMBERED_BYTES);
        }
        let (count, bytes) = remembered(&pools);
        assert!((4..10).contains(&count), "{count} of {bytes} bytes");
        // One that is larger than all there may be is alone.
        pools.pool(&access(0, 16, 2_000_000)).unwrap();
        assert_eq!(remembered(&pools).0, 1);
        pools.pool(&access(1, 1, 3)).unwrap();
        assert_eq!(remembered(&pools).0, 1);
    }
}
