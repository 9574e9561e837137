//! End-to-end tests of the gateway and the ingest: they send HTTP requests and events, and check
//! responses and what independent clients find in brokers and stores.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

mod alarms;
mod audit;
mod bad_input;
mod batches;
mod body_refs;
mod bounds;
mod budget;
mod callers;
mod chunking;
mod cli_access;
mod cli_doctor;
mod cli_messages;
mod cli_send;
mod consume;
mod contract;
mod crash;
mod dependencies;
mod differences;
mod drops;
mod equality;
mod establishments;
mod events;
mod examples;
mod first_calls;
mod front;
mod hostile;
mod ibm_mq;
mod idempotency;
mod large;
mod leaks;
mod limits;
mod load_tests;
mod loads;
mod metrics;
mod mistakes;
mod moving;
mod pages;
mod produce;
mod products;
mod published;
mod queues;
mod rabbitmq;
mod reconcile;
mod replay;
mod responses;
mod rights;
mod routes;
mod spans;
mod targets;
mod template;
mod tokens;
mod try_it;
mod typed_clients;
mod uploads;
mod usage;
mod webhooks;
