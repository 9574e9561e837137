//! Plan by which a batch's payload is cut into chunks, fixed before the chunker cuts it.

use ingestion::chunk::{Generation, Plan};
use tokio_postgres::Row;

use crate::connection::Session;
use crate::error::DatabaseError;
use crate::locked_batch::LockedBatch;

const PIN: &str = "UPDATE batches SET planner = $2, chunk_items = $3, generation = $4 WHERE batch_id = $1";
/// Removes a batch's chunking plan, so that the chunker fixes a new one when it next cuts the
/// payload.
const UNPIN: &str = "UPDATE batches SET planner = NULL, chunk_items = NULL WHERE batch_id = $1";
/// Deletes a batch's items in error, because a cut by another version of the planner may give items
/// other indexes.
const FORGET_ERRORS: &str = "WITH forgotten AS (DELETE FROM batch_item_errors WHERE batch_id = $1) \
     UPDATE batches SET errors_omitted = 0 WHERE batch_id = $1";

/// Fixes the chunking plan of a batch that is about to be cut, and returns it with the batch's
/// generation. A stored plan of the current planner version is kept. Otherwise `plan` is stored; if
/// it replaces a plan of an older version, the batch starts again in its next generation (round of
/// processing).
pub(crate) async fn pin(
    session: &mut Session<'_>,
    batch: &LockedBatch,
    plan: Plan,
) -> Result<(Plan, Generation), DatabaseError> {
    let generation = match batch.plan {
        Some(pinned) if pinned.planner.is_current() => return Ok((pinned, batch.generation)),
        Some(_) => {
            session.execute(FORGET_ERRORS, &[&batch.batch_id]).await?;
            batch.generation.next()
        }
        None => batch.generation,
    };
    let planner = i16::try_from(u16::from(plan.planner))?;
    let items = i16::try_from(u16::from(plan.items))?;
    let number = i32::try_from(generation.number())?;
    session.execute(PIN, &[&batch.batch_id, &planner, &items, &number]).await?;
    Ok((plan, generation))
}

/// Deletes the items in error of a payload that a replay cuts again in a new generation (round of
/// processing). A chunking plan of an older version of the planner is deleted too, since the
/// chunker would otherwise begin yet another generation.
pub(crate) async fn cut_anew(session: &mut Session<'_>, batch: &LockedBatch) -> Result<(), DatabaseError> {
    session.execute(FORGET_ERRORS, &[&batch.batch_id]).await?;
    if batch.plan.is_some_and(|plan| !plan.planner.is_current()) {
        session.execute(UNPIN, &[&batch.batch_id]).await?;
    }
    Ok(())
}

/// Reads a batch's chunking plan from its row; `None` if none is stored.
pub(crate) fn plan(row: &Row) -> Result<Option<Plan>, DatabaseError> {
    let (planner, items): (Option<i16>, Option<i16>) = (row.try_get("planner")?, row.try_get("chunk_items")?);
    let (Some(planner), Some(items)) = (planner, items) else { return Ok(None) };
    let unknown = |_| DatabaseError::Unreadable("the batch's plan");
    Ok(Some(Plan {
        planner: u16::try_from(planner)?.try_into().map_err(unknown)?,
        items: u16::try_from(items)?.try_into().map_err(unknown)?,
    }))
}
