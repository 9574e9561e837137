//! Clients for both kinds of broker, RabbitMQ and IBM MQ, under one limit on their connections.

use std::sync::Arc;

use broker::{Broker, ConnectionCap, Deadline};
use ibm_mq::IbmMq;
use mq::{BrokerKind, ConnectionCounts};
use rabbitmq::RabbitMq;
use runtime::Sdk;

use crate::secrets::Secrets;

/// Clients for RabbitMQ and IBM MQ, and the reader of the secrets of their targets.
#[derive(Debug)]
pub struct Brokers {
    cap: Arc<ConnectionCap>,
    rabbitmq: RabbitMq,
    ibm_mq: IbmMq,
    pub(crate) secrets: Secrets,
}

impl Brokers {
    /// Creates the clients. `cap` limits the number of open connections, over all targets and both
    /// kinds of broker. `sdk` reads the secrets.
    #[must_use]
    pub fn new(cap: usize, ibm_mq: ibm_mq::Settings, sdk: &Sdk) -> Self {
        let cap = ConnectionCap::new(cap);
        let (rabbitmq, ibm_mq) = (RabbitMq::sharing(cap.clone()), IbmMq::new(ibm_mq, cap.clone()));
        Self { cap, rabbitmq, ibm_mq, secrets: Secrets::new(sdk) }
    }

    /// Returns the limit on open connections, over all targets and both kinds of broker.
    /// [`ConnectionCap::is_exhausted`] is true once this process can open no more connections.
    #[must_use]
    pub fn cap(&self) -> Arc<ConnectionCap> {
        Arc::clone(&self.cap)
    }

    pub(crate) fn of(&self, kind: BrokerKind) -> &dyn Broker {
        match kind {
            BrokerKind::RabbitMq => &self.rabbitmq,
            BrokerKind::IbmMq => &self.ibm_mq,
        }
    }

    /// Ends, for all targets, the idle connections that are too old to be used again. A Lambda
    /// function calls this after it was frozen, before any work.
    pub fn end_stale(&self) {
        self.rabbitmq.end_stale();
        self.ibm_mq.end_stale();
    }

    /// Waits until the IBM MQ connections that are being closed have ended. A Lambda function calls
    /// this before it responds, because it may be frozen then.
    pub async fn settle(&self, deadline: Deadline) {
        self.ibm_mq.settle(deadline).await;
    }

    /// Lists the connection pools of all targets.
    #[must_use]
    pub fn pools(&self) -> Vec<ConnectionCounts> {
        let mut pools = self.rabbitmq.pools();
        pools.extend(self.ibm_mq.pools());
        pools
    }
}
