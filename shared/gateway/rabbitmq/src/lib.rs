//! [`broker::Broker`] over AMQP 0-9-1, for RabbitMQ.
//!
//! A [`RabbitMq`] keeps its connections between requests, under one cap over all targets. It runs
//! in a function that is frozen between invocations. So it relies on no background task, it checks
//! a connection's state when the connection is needed, every exchange with the broker has a
//! deadline, and a connection in an uncertain state is closed and never used again. Closing the
//! socket is always safe: the broker requeues the messages that were not acknowledged.
//!
//! ```text
//! RabbitMq -> Pool -> Connector -> Connection -> Transport -> FrameFilter
//!    |         |
//!    v         v
//! produce, fetch, load, depth, check on a PooledConnection, which they call a Session
//! ```
//!
//! A program that runs all the time uses `long_running`, which is built from the same [`parts`].

mod check;
mod config;
mod connect;
mod connection;
mod connector;
mod content_header;
mod deaths;
mod delivery_limit;
mod depth;
mod errors;
mod fetch;
mod frame_filter;
mod header_value;
mod in_flight;
mod intake;
mod leader;
mod load;
#[cfg(feature = "long-running")]
pub mod long_running;
mod message;
mod moving;
mod pool;
mod pooled;
mod produce;
mod properties;
mod publish;
mod publish_destination;
mod queue_facts;
mod refusal;
mod server;
mod session;
mod settlement;
mod taking;
mod tls;
mod transport;
mod unit_of_work;
mod window;

use std::sync::Arc;

use async_trait::async_trait;
use broker::load::{GetOptions, LoadConsumer, LoadProducer, PutOptions};
use broker::{Broker, ConnectionCap, Deadline, ReadyToPut, Relocation, UnitOfWork};
use mq::{
    Access, AllowedQueues, BrokerError, ConnectionCounts, ConsumeCommand, DepthReport, Exchange, MoveCommand,
    MoveReport, Outgoing, QueueName, TestReport,
};

pub use crate::config::{ConfigError, ConfigFault, ConnectionConfig, Host, Login, Settings, TlsConfig};
pub use crate::errors::ConnectionError;
pub use crate::intake::{MOST_HELD, held_alone};
use crate::pool::Pool;
pub use crate::pooled::PooledConnection;
use crate::publish_destination::PublishDestination;
use crate::taking::Room;

/// Building blocks of connections, for programs that manage connections in another way than
/// [`RabbitMq`].
pub mod parts {
    pub use crate::connection::{Connection, Staleness};
    pub use crate::connector::Connector;
    pub use crate::errors::Failure;
    pub use crate::frame_filter::{Passed, Pulse, passed};
    pub use crate::pool::Dialler;
}

/// [`Broker`] implementation for RabbitMQ, for all targets of a process.
#[derive(Debug)]
pub struct RabbitMq {
    pool: Pool,
}

impl RabbitMq {
    /// Creates a broker with at most `cap` open connections over all targets, and defaults for the
    /// other [`Settings`].
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self::with_settings(Settings { cap, ..Settings::default() })
    }

    /// Creates a broker with these settings. A `cap` of 0 connections counts as 1.
    #[must_use]
    pub fn with_settings(settings: Settings) -> Self {
        let cap = ConnectionCap::new(settings.cap);
        Self { pool: Pool::new(settings, cap) }
    }

    /// Creates a broker whose connections count towards `cap`, which may be shared with other
    /// brokers.
    #[must_use]
    pub fn sharing(cap: Arc<ConnectionCap>) -> Self {
        Self { pool: Pool::new(Settings::default(), cap) }
    }

    /// Ends idle connections that are too old to be used again. A Lambda function calls this after
    /// it was frozen, before any request.
    pub fn end_stale(&self) {
        self.pool.end_stale();
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
        let connected =
            produce::connect(&self.pool, access, PublishDestination::Queue(queue), outgoing, deadline)
                .await?;
        Ok(Box::new(connected))
    }

    async fn connect_to_publish<'a>(
        &self,
        access: &Access,
        exchange: &'a Exchange,
        outgoing: &'a Outgoing,
        deadline: Deadline,
    ) -> Result<Box<dyn ReadyToPut + 'a>, BrokerError> {
        let destination = PublishDestination::Exchange(exchange);
        Ok(Box::new(produce::connect(&self.pool, access, destination, outgoing, deadline).await?))
    }

    async fn fetch(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &ConsumeCommand,
        max_bytes: usize,
        deadline: Deadline,
    ) -> Result<Box<dyn UnitOfWork>, BrokerError> {
        let room = Room { together: max_bytes, alone: None };
        fetch::fetch(&self.pool, access, queue, command, room, deadline).await
    }

    /// Fetches messages, or a large first message by itself, without requeueing the large one
    /// before. The default implementation would requeue it and fetch it again: it would be marked
    /// as redelivered, and a quorum queue would count its return.
    async fn fetch_large(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &ConsumeCommand,
        max_bytes: usize,
        largest: usize,
        deadline: Deadline,
    ) -> Result<Box<dyn UnitOfWork>, BrokerError> {
        let room = Room { together: max_bytes, alone: Some(largest) };
        fetch::fetch(&self.pool, access, queue, command, room, deadline).await
    }

    async fn connect_to_move(
        &self,
        access: &Access,
        queue: &QueueName,
        command: &MoveCommand,
        reach: &AllowedQueues,
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
        reach: &AllowedQueues,
        deadline: Deadline,
    ) -> Result<MoveReport, BrokerError> {
        moving::preview(&self.pool, access, queue, command, reach, deadline).await
    }

    async fn connect_load_producer<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        options: &'a PutOptions,
        deadline: Deadline,
    ) -> Result<Box<dyn LoadProducer + 'a>, BrokerError> {
        Ok(Box::new(load::connect_producer(&self.pool, access, queue, options, deadline).await?))
    }

    async fn connect_load_consumer<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        options: &'a GetOptions,
        deadline: Deadline,
    ) -> Result<Box<dyn LoadConsumer + 'a>, BrokerError> {
        Ok(Box::new(load::connect_consumer(&self.pool, access, queue, options, deadline).await?))
    }

    async fn connect(&self, access: &Access, deadline: Deadline) -> Result<(), BrokerError> {
        self.pool.acquire(access, deadline).await?.release(deadline).await;
        Ok(())
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

    fn pools(&self) -> Vec<ConnectionCounts> {
        self.pool.reports()
    }
}
