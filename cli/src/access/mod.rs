//! Commands that administer access to a deployment: the entries of the access table, and the owners
//! of establishments. All of them need AWS credentials and no API key.

pub(crate) mod apply;
pub(crate) mod budget;
mod change;
pub(crate) mod cnpj;
mod entry;
mod establishments;
pub(crate) mod export;
mod file;
pub(crate) mod grant;
pub(crate) mod key;
pub(crate) mod limit;
mod plan;
pub(crate) mod profile;
pub(crate) mod rates;
mod snapshot;
mod table;
pub(crate) mod target;
pub(crate) mod tenant;
mod when;

pub(crate) use entry::{Attributes, Entry};
pub(crate) use establishments::Establishments;
pub(crate) use snapshot::Snapshot;
pub(crate) use table::Table;
pub(crate) use when::now;

/// Entries of the access table for the tests of other modules.
#[cfg(test)]
pub(crate) mod examples {
    pub(crate) use super::entry::tests::{ACME, key, profile};
    pub(crate) use super::snapshot::tests::snapshot;
}
