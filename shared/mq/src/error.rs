//! Why an operation on a broker failed. Outcomes are three: what returns `Ok` was done, what returns
//! [`BrokerError::InDoubt`] may have been, everything else had no effect beyond what the report says was committed.

use serde::{Deserialize, Serialize};

use crate::names::QueueName;

/// What the broker itself said, for example `{"IBM MQ", 2053, "MQRC_Q_FULL"}` or `{"RabbitMQ", 403, "ACCESS_REFUSED"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerReply {
    pub product: String,
    pub code: i64,
    pub name: String,
}

/// `detail` is written for the caller: it names what went wrong and holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    #[error("the queue {queue} does not exist")]
    QueueNotFound { queue: QueueName },
    #[error("{detail}")]
    AuthenticationFailed { detail: String, reply: Option<BrokerReply> },
    #[error("{detail}")]
    Rejected { detail: String, reply: Option<BrokerReply> },
    #[error("{detail}")]
    QueueFull { detail: String, reply: Option<BrokerReply> },
    /// Nothing was sent: no address of the target answered.
    #[error("{detail}")]
    Unreachable { detail: String },
    /// The deadline passed, and what was not committed did not happen.
    #[error("{detail}")]
    Timeout { detail: String },
    /// The broker was asked to commit and its answer never came.
    #[error("{detail}")]
    InDoubt { detail: String },
    #[error("{detail}")]
    Unsupported { detail: String },
    #[error("{detail}")]
    MessageTooLarge { detail: String },
    /// Every connection that the cap allows was in use.
    #[error("no connection to the broker became free in time")]
    PoolTimeout,
}
