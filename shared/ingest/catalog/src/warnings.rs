//! Warnings for a batch's sender about conditions that are not errors of the batch.

use ingestion::batch::Changes;
use tokio_postgres::Row;

use crate::account::changes;
use crate::error::DatabaseError;
use crate::rows::count;

/// Warning for a batch with partial items: an item replaces its whole product, so members that it
/// lacks are cleared.
const PARTIAL: &str = "some items lack members that other items of the payload have, see items_partial: \
    an item replaces its whole product, so what it lacks is cleared as by null";
/// Warning for a batch with items that are not JSON or lack a readable key: they may contain
/// further products.
const UNREADABLE: &str = "some items are not JSON or have no readable key, see the errors: they may hold \
    further products, which were not loaded";

/// Warning for a batch that loaded nothing: some items are in error or were refused, and any other
/// items were older than the table's content.
const NOTHING: &str = "nothing was loaded: GET …/errors says which items are in error or were refused, and \
    newer items replaced the others, if there are any";

/// Returns the warnings for a batch, by its row.
pub(crate) fn warnings(row: &Row) -> Result<Vec<&'static str>, DatabaseError> {
    let mut warnings = Vec::new();
    let Changes { inserted, updated, unchanged, stale: _ } = changes(row)?;
    let has_ended = count(row, "chunks_pending")? == 0 && count(row, "chunks_failed")? == 0;
    if has_ended && count(row, "items_failed")? > 0 && [inserted, updated, unchanged] == [0; 3] {
        warnings.push(NOTHING);
    }
    if count(row, "items_partial")? > 0 {
        warnings.push(PARTIAL);
    }
    if count(row, "unreadable_keys")? > 0 {
        warnings.push(UNREADABLE);
    }
    Ok(warnings)
}
