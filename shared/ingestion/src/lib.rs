//! The product ingest without its I/O.

mod cnpj;

pub use cnpj::{Cnpj, CnpjError};
