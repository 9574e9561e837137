//! [`broker::Broker`] for IBM MQ, over the MQI (IBM's programming interface).
//!
//! IBM's client library is loaded when the first connection is made. Each connection belongs to a
//! thread of its own, because the library requires that; operations are sent to that thread.
//! Connections are kept between requests, under a cap that all brokers share. The Lambda function
//! is frozen between invocations. So a connection that was idle for long is probed or ended, every
//! wait has a deadline, and a connection in an uncertain state is never used again. Ending a
//! connection backs out uncommitted work.
//!
//! ```text
//! IbmMq -> Pool -> Session -> Owned -> Worker (a thread) -> mqi (the library)
//!    |
//!    v
//! produce -> Putting    fetch -> taking -> poison    moving    load    depth, check -> facts
//!        \__________________/_________________________/
//!                doubt
//! ```

mod body_text;
mod channel_table;
mod check;
mod dead_letter;
mod depth;
mod doubt;
mod earlier;
mod errors;
mod facts;
mod fetch;
mod hosts;
mod incoming;
mod key_repository;
mod load;
mod login;
mod members;
mod moving;
mod mqi;
mod opening;
mod outgoing;
mod owned;
mod poison;
mod pool;
mod produce;
mod properties;
mod property_names;
mod putting;
mod reason;
mod session;
mod settings;
mod taking;
mod tls;
mod worker;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use broker::load::{GetOptions, LoadConsumer, LoadProducer, PutOptions};
use broker::{Broker, ConnectionCap, Deadline, ReadyToPut, Relocation, Step, UnitOfWork};
use mq::{
    Access, AllowedQueues, BrokerError, ConnectionCounts, ConsumeCommand, DepthReport, MoveCommand,
    MoveReport, Outgoing, QueueName, TestReport,
};

use crate::pool::Pool;
pub use crate::settings::Settings;

/// Maximum number of bytes of messages that an operation holds at once. A longer message is neither
/// moved nor taken by a load test.
pub const MOST_HELD: usize = 16 * 1024 * 1024;

/// Memory in bytes that IBM's client library takes, without the memory of its connections.
pub const LIBRARY_MEMORY: usize = 48 * 1024 * 1024;

/// [`Broker`] implementation for IBM MQ, for all targets of a process.
pub struct IbmMq {
    pool: Arc<Pool>,
}

impl IbmMq {
    /// Creates the broker. Its connections count towards `cap`, which may be shared with other
    /// brokers. IBM's library is loaded when the first connection is opened.
    #[must_use]
    pub fn new(settings: Settings, cap: Arc<ConnectionCap>) -> Self {
        Self { pool: Pool::new(settings, cap) }
    }

    /// Ends idle connections that are too old to be used again. A Lambda function calls this after
    /// it was frozen, before any request.
    pub fn end_stale(&self) {
        self.pool.end_stale();
    }

    /// Waits for the end of connections that are not kept after their request, at most until
    /// `deadline`. A Lambda function calls this before it responds, because it may be frozen then.
    pub async fn settle(&self, deadline: Deadline) {
        self.pool.settle(deadline).await;
    }
}

impl fmt::Debug for IbmMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IbmMq").field("pools", &self.pool.reports()).finish()
    }
}

#[async_trait]
impl Broker for IbmMq {
    fn wire_id(&self, id: mq::MessageId) -> Vec<u8> {
        id.0.to_vec()
    }

    fn is_about_secrets(&self, error: &BrokerError) -> bool {
        // A key repository may have been replaced since it was read.
        matches!(error, BrokerError::AuthenticationFailed { .. }) || errors::step_of(error) == Step::Tls
    }

    async fn connect_to_put<'a>(
        &self,
        access: &Access,
        queue: &'a QueueName,
        outgoing: &'a Outgoing,
        deadline: Deadline,
    ) -> Result<Box<dyn ReadyToPut + 'a>, BrokerError> {
        let connected = produce::connect(&self.pool, access, queue, outgoing, deadline).await?;
        Ok(Box::new(connected))
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
        self.pool.acquire(access, deadline).await?.finish();
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
