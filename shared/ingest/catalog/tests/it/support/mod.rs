//! Databases to test against, and batches to put into them.

mod database;
mod load;
mod server;

pub(crate) use database::{TestDatabase, collated_test, database_test};
pub(crate) use load::{Item, Load, OTHER_TENANT, TENANT, at, cnpj, product};
pub(crate) use server::config;
