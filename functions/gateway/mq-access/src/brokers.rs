//! Clients of all brokers, under one limit on their connections.

use std::sync::Arc;

use broker::{Broker, ConnectionCap, Deadline};
use ibm_mq::IbmMq;
use mq::{BrokerKind, PoolReport};
use rabbitmq::RabbitMq;

/// Client of each kind of broker.
#[derive(Debug)]
pub struct Brokers {
    cap: Arc<ConnectionCap>,
    rabbitmq: RabbitMq,
    ibm_mq: IbmMq,
}

impl Brokers {
    /// Creates the clients. At most `cap` connections are open at any time, over all targets of all
    /// kinds.
    #[must_use]
    pub fn new(cap: usize, ibm_mq: ibm_mq::Settings) -> Self {
        let cap = ConnectionCap::new(cap);
        let (rabbitmq, ibm_mq) = (RabbitMq::sharing(cap.clone()), IbmMq::new(ibm_mq, cap.clone()));
        Self { cap, rabbitmq, ibm_mq }
    }

    /// Limit on connections. It also shows if no more can be opened in this process.
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

    /// Ends idle connections that are too old for another use, of all targets.
    pub(crate) fn end_stale(&self) {
        self.rabbitmq.end_stale();
        self.ibm_mq.end_stale();
    }

    /// Waits for the connections that must have ended before the function may be frozen.
    pub(crate) async fn settle(&self, deadline: Deadline) {
        self.ibm_mq.settle(deadline).await;
    }

    pub(crate) fn pools(&self) -> Vec<PoolReport> {
        let mut pools = self.rabbitmq.pools();
        pools.extend(self.ibm_mq.pools());
        pools
    }
}
