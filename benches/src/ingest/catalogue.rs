//! The catalogue that is cut and written.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use ingestion::generate::{Catalogue, Layout};
use ingestion::product::{CnpjAccess, ItemRules};
use jiff::tz::TimeZone;
use tempfile::NamedTempFile;

use super::unexpected;
use crate::error::Error;

/// One edition of it; with the next one, every product changes.
pub(super) fn edition(items: u32, edition: u32) -> Catalogue {
    Catalogue { items, edition, newer: 1000, ..Catalogue::default() }
}

/// Its first edition as clients send it: one array, in gzip.
pub(super) fn file(items: u32) -> Result<NamedTempFile, Error> {
    let mut gzip = GzEncoder::new(NamedTempFile::new()?, Compression::default());
    gzip.write_all(&edition(items, 0).payload(Layout::Array))?;
    Ok(gzip.finish()?)
}

/// What its items are judged by: the time zone is the one that template.yaml has where nothing else is said.
pub(super) fn rules() -> Result<ItemRules, Error> {
    let zone = TimeZone::get("America/Sao_Paulo").map_err(|error| unexpected(&error))?;
    Ok(ItemRules { zone, cnpjs: CnpjAccess::Any })
}
