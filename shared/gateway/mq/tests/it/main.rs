//! Tests of messages and targets as requests describe them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "these are tests")]

mod content;
mod header_values;
mod places;
mod properties;
mod targets;
