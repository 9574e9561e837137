//! [`mq::Broker`] over AMQP 0-9-1, for RabbitMQ.
//!
//! A [`RabbitMq`] keeps its connections between requests, under one cap over all targets. It lives
//! in a function that is frozen between invocations: no background task is trusted, a connection's
//! state is looked at when it is needed, every exchange has a deadline, and a connection whose
//! state is uncertain is cut and never used again. Cutting is always safe: the broker puts back
//! what was not acknowledged.
//!
//! ```text
//! RabbitMq -> ConnectionPools -> ConnectionPool -> Connector -> Transport -> FrameFilter
//!    |            |  PooledConnection      ^
//!    v            v
//! produce, fetch, depth, check          ConnectionManager, ConnectionMonitor
//! on a Session
//! ```
//!
//! A program that runs all the time uses the same parts without the gateway: a [`ConnectionConfig`]
//! read from its surroundings, and a [`ConnectionManager`] that holds one connection or a
//! [`ConnectionPool`] of several.

mod capacity;
mod check;
mod config;
mod connect;
mod connection;
mod connector;
mod content_header;
mod deaths;
mod depth;
mod errors;
mod events;
mod fetch;
mod frame_filter;
mod header_value;
mod health;
mod intake;
mod latency;
mod manager;
mod message;
mod monitor;
mod moving;
mod pacer;
mod place;
mod pool;
mod pooled;
mod pools;
mod produce;
mod progress;
mod publish;
mod queue_facts;
mod retry;
mod server;
mod session;
mod state;
mod taking;
mod tls;
mod transport;
mod unit_of_work;
mod window;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use mq::{
    Access, Broker, BrokerError, ConsumeCommand, Deadline, DepthReport, Exchange, MoveCommand, MoveReport,
    Outgoing, PoolReport, QueueName, Reach, ReadyToPut, Relocation, TestReport, UnitOfWork,
};

pub use crate::config::{
    ConfigError, ConfigFault, ConnectionArguments, ConnectionConfig, Host, Settings, TlsConfig,
};
pub use crate::errors::{ConnectionError, PoolError};
pub use crate::health::HealthStatus;
pub use crate::intake::MOST_HELD;
pub use crate::manager::ConnectionManager;
pub use crate::monitor::ConnectionMonitor;
use crate::place::Place;
pub use crate::pool::{ConnectionPool, InvalidPoolLimits, PoolLimits, PoolStats};
pub use crate::pooled::PooledConnection;
use crate::pools::ConnectionPools;
pub use crate::retry::{InvalidRetryPolicy, Jitter, RetryPolicy, RetryStats};
pub use crate::state::{ConnectionState, IllegalTransition};

/// RabbitMQ, at every target.
pub struct RabbitMq {
    pool: Arc<ConnectionPools>,
}

impl RabbitMq {
    /// At most `cap` connections are open at any time, over all targets; the default is
    /// [`Settings`]'s.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self::with_settings(Settings { cap, ..Settings::default() })
    }

    /// The same with further settings. A `cap` of 0 counts as 1.
    #[must_use]
    pub fn with_settings(settings: Settings) -> Self {
        Self { pool: ConnectionPools::new(Settings { cap: settings.cap.max(1), ..settings }) }
    }
}

impl fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMq").field("pools", &self.pool.reports()).finish()
    }
}

#[async_trait]
impl Broker for RabbitMq {
    fn wire_id(&self, id: mq::MessageId) -> Vec<u8> {
        id.to_hex().into_bytes()
    }

    async fn connect_to_put<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        outgoing: &'a Outgoing,
        deadline: Deadline,
    ) -> Result<Box<dyn ReadyToPut + 'a>, BrokerError> {
        let connected = produce::connect(&self.pool, access, Place::Queue(queue), outgoing, deadline).await?;
        Ok(Box::new(connected))
    }

    async fn connect_to_publish<'a>(
        &self,
        access: &Access,
        exchange: &'a Exchange,
        outgoing: &'a Outgoing,
        deadline: Deadline,
    ) -> Result<Box<dyn ReadyToPut + 'a>, BrokerError> {
        let place = Place::Exchange(exchange);
        Ok(Box::new(produce::connect(&self.pool, access, place, outgoing, deadline).await?))
    }

    async fn fetch(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &ConsumeCommand,
        max_bytes: usize,
        deadline: Deadline,
    ) -> Result<Box<dyn UnitOfWork>, BrokerError> {
        fetch::fetch(&self.pool, access, queue, command, max_bytes, deadline).await
    }

    async fn connect_to_move(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &MoveCommand,
        reach: &Reach,
        deadline: Deadline,
    ) -> Result<Box<dyn Relocation>, BrokerError> {
        let moving = moving::connect(&self.pool, access, queue, command, reach, deadline).await?;
        Ok(Box::new(moving))
    }

    async fn preview_move(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &MoveCommand,
        reach: &Reach,
        deadline: Deadline,
    ) -> Result<MoveReport, BrokerError> {
        moving::preview(&self.pool, access, queue, command, reach, deadline).await
    }

    async fn depth(
        &self,
        access: &Access,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<DepthReport, BrokerError> {
        depth::depth(&self.pool, access, queue, deadline).await
    }

    async fn test(&self, access: &Access, queue: Option<&QueueName>, deadline: Deadline) -> TestReport {
        check::test(&self.pool, access, queue, deadline).await
    }

    fn pools(&self) -> Vec<PoolReport> {
        self.pool.reports()
    }
}
