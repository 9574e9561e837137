//! Connections to RabbitMQ for a program that runs all the time: the parts of the source documents'
//! connection model that a function cannot have, because it is frozen between requests. The model
//! itself, with its pool, is in [`broker`] and this crate, where the gateway uses it.
//!
//! A [`ConnectionConfig`] is read from arguments, environment and file by
//! [`ConnectionArguments::load`]. A [`ConnectionManager`] holds one connection, watches it by a
//! [`ConnectionMonitor`] and makes it again by a [`RetryPolicy`]; a [`ConnectionPool`] keeps
//! several for use in turn.
//!
//! ```text
//! ConnectionArguments -> ConnectionConfig -> ConnectionManager -> ConnectionMonitor
//!                                        \-> ConnectionPool    -> PooledConnection
//! ```

mod arguments;
mod manager;
mod monitor;
mod pool;
mod tls_files;

pub use crate::{ConfigError, ConfigFault, ConnectionConfig, ConnectionError, Host, Login, TlsConfig};
pub use broker::{
    ConnectionState, HealthStatus, IllegalTransition, InvalidRetryPolicy, Jitter, PoolError, PoolStats,
    RetryPolicy, RetryStats,
};

pub use arguments::ConnectionArguments;
pub use manager::ConnectionManager;
pub use monitor::ConnectionMonitor;
pub use pool::{ConnectionPool, PoolLimits, PooledConnection};
