//! What requests say of messages and targets, and what becomes of it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "these are tests")]

mod content;
mod header_values;
mod places;
mod properties;
mod targets;
