use mq::{BrokerError, ProduceFailure};
use test_support::runtime_api::{Failure, NotReady};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("RabbitMQ: {0}")]
    Amqp(#[from] lapin::Error),
    #[error("the crate: {0}")]
    Broker(#[from] BrokerError),
    #[error("the crate: {0}")]
    Produce(#[from] ProduceFailure),
    #[error("the catalogue: {0}")]
    Catalog(#[from] catalog::DatabaseError),
    #[error("PostgreSQL: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    #[error("not the JSON of a run: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    NotReady(#[from] NotReady),
    #[error("{0}")]
    Invocation(#[from] Failure),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Unexpected(String),
}
