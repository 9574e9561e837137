//! Support of the catalogue's tests: databases, and batches to load into them.

mod database;
mod load;
mod server;

pub(crate) use database::{TestDatabase, collated_test, database_test};
pub(crate) use load::{Item, Load, OTHER_TENANT, TENANT, at, cnpj, product};
pub(crate) use server::config;
