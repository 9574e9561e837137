//! The catalogue that is cut and written.

use std::io::Write as _;

use catalog::NewBatch;
use flate2::Compression;
use flate2::write::GzEncoder;
use ingestion::generate::{Catalogue, Layout};
use ingestion::payload::{LoadType, MediaType, PayloadMetadata};
use ingestion::product::{CnpjAccess, ItemRules, PartialPolicy};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

use crate::error::Error;

/// Returns one edition of the catalogue; with the next one, every product changes.
pub(crate) fn edition(items: u32, edition: u32) -> Catalogue {
    Catalogue { items, edition, newer: 1000, ..Catalogue::default() }
}

/// An edition as clients send it.
pub(crate) fn gzip(items: u32, number: u32) -> Result<Vec<u8>, Error> {
    gzipped(&edition(items, number).payload(Layout::Array))
}

pub(crate) fn gzipped(text: &[u8]) -> Result<Vec<u8>, Error> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(text)?;
    Ok(gzip.finish()?)
}

/// A batch that nobody accepted, for a catalogue that was received then.
pub(crate) fn new_batch(received_at: Timestamp) -> NewBatch {
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
    NewBatch { metadata, payload_uri, payload_bytes: None, cnpjs: CnpjAccess::Any }
}

/// Rules that items are judged by: the time zone is the one that template.yaml has where nothing
/// else is said.
pub(crate) fn rules() -> Result<ItemRules, Error> {
    let zone = TimeZone::get("America/Sao_Paulo")?;
    Ok(ItemRules { zone, cnpjs: CnpjAccess::Any, partial: PartialPolicy::Warn })
}
