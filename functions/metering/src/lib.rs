//! Counts each tenant's usage from the stream of the idempotency table.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]
