//! Connections to RabbitMQ for a program that runs all the time: the connection model of the source
//! documents, without the gateway. The functions do not use it; they make connections by the same
//! parts of [`rabbitmq`], and keep them in a way that survives being frozen.
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
mod capacity;
mod manager;
mod monitor;
mod pool;
mod pooled;
mod state;
mod tls_files;

pub use rabbitmq::{
    ConfigError, ConfigFault, ConnectionConfig, ConnectionError, HealthStatus, Host, InvalidRetryPolicy,
    Jitter, Login, PoolStats, RetryPolicy, RetryStats, TlsConfig,
};

pub use crate::arguments::ConnectionArguments;
pub use crate::manager::ConnectionManager;
pub use crate::monitor::ConnectionMonitor;
pub use crate::pool::{ConnectionPool, InvalidPoolLimits, PoolError, PoolLimits};
pub use crate::pooled::PooledConnection;
pub use crate::state::{ConnectionState, IllegalTransition};
