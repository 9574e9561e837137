//! Databases to test against, and batches to put into them.

pub(crate) mod cluster;
mod database;
mod load;

pub(crate) use cluster::Cluster;
pub(crate) use database::{TestDatabase, database_test};
pub(crate) use load::{Item, Load, at, cnpj, product};
