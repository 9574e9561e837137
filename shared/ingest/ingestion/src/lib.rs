//! The product ingest without its I/O: the way from a payload to items, from items to products, and
//! from products to chunks, and the states of a batch on the way.
//!
//! [`split`] finds the items in a payload's bytes. [`product::ItemRules`] reads each into a
//! [`product::Product`] or returns its error. [`chunk::Planner`] gathers products into chunks.
//! [`batch`] has the states and the counters, which must add up, and [`payload`] the data of a
//! batch before its payload is read. With the feature `generate`, `generate` makes catalogues for
//! tests.

pub mod batch;
pub mod chunk;
mod cnpj;
pub mod drops;
#[cfg(any(test, feature = "generate"))]
pub mod generate;
pub mod payload;
pub mod product;
pub mod split;
mod viewer;
mod words;

pub use cnpj::{Cnpj, CnpjError};
pub use viewer::Viewer;
pub use words::UnknownWord;
