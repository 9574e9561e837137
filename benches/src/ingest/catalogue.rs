//! Catalogue that the benchmarks of the ingest cut into chunks and write to the database.

use std::io::Write as _;

use catalog::BatchRow;
use flate2::Compression;
use flate2::write::GzEncoder;
use ingestion::generate::{Catalogue, Layout};
use ingestion::payload::{LoadType, MediaType, PayloadMetadata};
use ingestion::product::{CnpjAccess, ItemRules, PartialPolicy};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

use crate::error::Error;

/// Returns an edition of the catalogue. From one edition to the next, every product changes.
pub(crate) fn edition(items: u32, edition: u32) -> Catalogue {
    Catalogue { items, edition, newer: 1000, ..Catalogue::default() }
}

/// Returns an edition of the catalogue as clients send it: a JSON array in gzip.
pub(crate) fn gzip(items: u32, number: u32) -> Result<Vec<u8>, Error> {
    gzipped(&edition(items, number).payload(Layout::Array))
}

pub(crate) fn gzipped(text: &[u8]) -> Result<Vec<u8>, Error> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(text)?;
    Ok(gzip.finish()?)
}

/// Builds the data of a batch that was received at this time, without a request to the ingest.
pub(crate) fn new_batch(received_at: Timestamp) -> BatchRow {
    let batch_id = Uuid::now_v7();
    let metadata = PayloadMetadata {
        batch_id,
        tenant_id: Uuid::nil(),
        load_type: LoadType::Delta,
        media_type: MediaType::Json,
        idempotency_key: batch_id.to_string(),
        received_at,
        checksum: None,
        trace_id: "bench".to_owned(),
        partial: PartialPolicy::Warn,
        source: None,
    };
    let payload_uri = format!("s3://bench/{}", metadata.key());
    BatchRow { metadata, payload_uri, payload_bytes: None, cnpjs: CnpjAccess::Any }
}

/// Returns the rules by which items are validated. The time zone is the default of `template.yaml`.
pub(crate) fn rules() -> Result<ItemRules, Error> {
    let zone = TimeZone::get("America/Sao_Paulo")?;
    Ok(ItemRules { zone, cnpjs: CnpjAccess::Any, partial: PartialPolicy::Warn })
}
