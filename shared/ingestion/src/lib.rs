//! The product ingest without its I/O: how a payload becomes items, items become products, products become chunks, and what
//! states a batch goes through meanwhile.
//!
//! [`split`] finds the items in a payload's bytes, [`product::ItemRules`] reads each into a [`product::Product`] or says why not,
//! [`chunk::Planner`] gathers them into chunks, and [`batch`] holds the states and the counters that must add up. [`payload`] is what is known of
//! a batch before any of that. With the feature `generate`, `generate` makes catalogues to try it with.

pub mod batch;
pub mod chunk;
mod cnpj;
#[cfg(any(test, feature = "generate"))]
pub mod generate;
pub mod payload;
pub mod product;
pub mod split;
mod viewer;

pub use cnpj::{Cnpj, CnpjError};
pub use viewer::Viewer;
