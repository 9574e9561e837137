//! The operations of a broker ([`Broker`]), and the parts that all brokers share: the connection
//! model of the source documents ([`ConnectionPool`], [`PooledConnection`], [`ConnectionState`],
//! [`HealthStatus`], [`RetryPolicy`], and the ten [`events`]), the bound on open connections, the
//! [names of hosts](resolve()), the steps of a connection test, the rate of a produce, the
//! latencies of its messages, and the [messages of a load test](load).

mod cap;
pub mod events;
mod health;
mod latencies;
pub mod load;
mod opener;
mod operations;
mod pacer;
mod pool;
mod pooled;
mod resolve;
mod retry;
mod settings;
mod state;
mod steps;

pub use cap::{Admitted, ClosingHandle, ConnectionCap, IdleConnections, Permit};
// Every operation takes a deadline.
pub use attempt::{Deadline, Moment, chain};
pub use events::Peer;
pub use health::HealthStatus;
pub use latencies::{Latencies, milliseconds};
pub use opener::{Connection, OpenError, Opened, Opener};
pub use operations::{
    Broker, EarlierAttempts, PutMessages, ReadyToPut, Relocation, SettledMessages, UnitOfWork,
};
pub use pacer::Pacer;
pub use pool::{ConnectionPool, Key, PoolError, PoolKey, PoolStats};
pub use pooled::{PooledConnection, Reservation};
pub use resolve::{MOST_CANDIDATES, Names, SystemNames, resolve};
pub use retry::{InvalidRetryPolicy, Jitter, RetryPolicy, RetryStats};
pub use settings::ConnectionSettings;
pub use state::{ConnectionState, IllegalTransition};
pub use steps::{Step, StepLog};
