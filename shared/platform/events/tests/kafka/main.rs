//! Tests of the producer against stand-ins for a cluster: librdkafka's mock
//! (`test_support::kafka`), which can hang and disappear, and the fake broker of the client's own
//! crate, which drops repetitions, creates topics and refuses logins.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

mod faults;
mod login;
mod records;
mod support;
mod topic;
mod watch;
