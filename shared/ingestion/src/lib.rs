//! The product ingest without its I/O: how a payload becomes items, items become products, and products become chunks.
//!
//! [`split`] finds the items in a payload's bytes, [`product::ItemRules`] reads each into a [`product::Product`] or says why not, and
//! [`chunk::Planner`] gathers them into chunks.

pub mod chunk;
mod cnpj;
pub mod product;
pub mod split;

pub use cnpj::{Cnpj, CnpjError};
