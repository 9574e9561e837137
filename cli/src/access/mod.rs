//! Who may do what in a deployment: the entries of the access table, and the owners of
//! establishments. All of it needs AWS credentials and no API key.

pub(crate) mod apply;
mod change;
pub(crate) mod cnpj;
mod entry;
mod establishments;
pub(crate) mod export;
mod file;
pub(crate) mod grant;
pub(crate) mod key;
mod plan;
pub(crate) mod profile;
mod snapshot;
mod table;
pub(crate) mod target;
pub(crate) mod tenant;
mod when;

pub(crate) use entry::Attributes;
pub(crate) use table::Table;
