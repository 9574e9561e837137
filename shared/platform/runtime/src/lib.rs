//! A function's start and its surroundings: its environment, the clients of AWS, the log's
//! envelope, metrics, the log lines of an invocation that fails or panics, and the event of a
//! schedule.

mod actions;
mod envelope;
mod environment;
mod invocation;
mod json_line;
mod log;
pub mod metrics;
pub mod schedule;
mod sdk;

pub use actions::{ActionError, Actions};
pub use envelope::Envelope;
pub use environment::{Environment, EnvironmentError};
pub use invocation::{answered, run, serve};
pub use log::{AUDIT, init as init_log};
pub use sdk::Sdk;
