//! Tests of the catalogue's tables and queries with a real PostgreSQL: the one that `DATABASE_URL`
//! names, or one that the tests start.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod attempts;
mod attributes;
mod batches;
mod chunks;
mod connection;
mod deactivation;
mod end_of_load;
mod lookups;
mod metrics;
mod migrations;
mod model;
mod outbox;
mod owners;
mod pruning;
mod publishing;
mod queries;
mod refused;
mod replay;
mod sharing;
mod stopped;
mod support;
mod tls;
mod untouched;
mod usage;
mod visibility;
