//! Wrapper around the work of every function that a queue or a Kafka topic triggers.
//!
//! A [`Job`] reads a record and does its work. [`serve()`] does the rest, for messages of SQS and
//! for records of Kafka:
//!
//! - it stops work in time for the response, and starts no work if no time is left;
//! - it runs each unit of work in a span, whose fields `object`, `correlation_id`, `tenant`,
//!   `batch_id`, `chunk_id` and `cnpj` the job records as it learns them;
//! - it logs a failure once, and decides by the error's [`Retry`](attempt::Retry) when the message
//!   becomes visible again;
//! - it returns the messages that failed, so that the others are not delivered again;
//! - it has the job park a record of Kafka that failed (move it to an SQS queue), and fails the
//!   invocation if that fails.

mod disposition;
mod job;
mod partitions;
mod record;
mod serve;
mod visibility;

pub use aws_lambda_events::sqs::SqsBatchResponse;
pub use disposition::{Disposition, Failure};
pub use job::{Job, ParkError};
pub use partitions::ServeError;
pub use record::{KAFKA_RECORD, Record, RecordId, UnknownEvent, is_from_queue, lanes};
pub use serve::{serve, serve_directly};
pub use visibility::{Receipt, Visibility};
