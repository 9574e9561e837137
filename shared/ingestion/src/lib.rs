//! The product ingest without its I/O.

mod cnpj;
pub mod split;

pub use cnpj::{Cnpj, CnpjError};
