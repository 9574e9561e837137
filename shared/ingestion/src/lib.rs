//! The product ingest without its I/O: how a payload becomes items, items become products, and which version of a product wins.
//!
//! [`split`] finds the items in a payload's bytes, and [`product::ItemRules`] reads each into a [`product::Product`] or says why not.

mod cnpj;
pub mod product;
pub mod split;

pub use cnpj::{Cnpj, CnpjError};
