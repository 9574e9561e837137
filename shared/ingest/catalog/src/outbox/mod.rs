//! Outbox: the table of events about batches that are still to be published.
//!
//! An event is written in the transaction that makes the change which it reports, so the event
//! exists exactly if the change is durable. The function that committed it publishes it at once and
//! deletes it; `reconcile` publishes the remaining ones. So an event is published at least once,
//! and each time with the same id.

mod facts;
mod publishing;
mod queue;

pub use facts::Links;
pub use publishing::{LeftEvents, OutboxError};
pub use queue::{Backlog, OutboxEvent};

use std::collections::BTreeMap;

use ingestion::batch::{BatchStatus, ChunkCounts, Deactivation};
use serde_json::Value;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::connection::Session;
use crate::error::DatabaseError;
use crate::locked_batch::LockedBatch;
use crate::rows::count;
use crate::view::{self, BatchView};

/// Setting that says whether transactions write events to the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutboxMode {
    /// Events are written, because they have a destination.
    Written,
    /// Events are not written, which saves the statements.
    #[default]
    Unused,
}

/// Inserts an event into the outbox. It copies the batch's columns, because the batch may be
/// deleted by the time when the event is published.
const WRITE: &str = "INSERT INTO outbox (event_id, event_type, batch_id, tenant_id, idempotency_key, trace_id, data) \
     SELECT $2, $3, batch_id, tenant_id, idempotency_key, trace_id, $4 FROM batches WHERE batch_id = $1";
const ERRORS: &str =
    "SELECT code, count(*) AS errors FROM batch_item_errors WHERE batch_id = $1 GROUP BY code ORDER BY code";

/// Writes the event that a batch is final, if the batch has just become final, or if a final batch
/// changed because a chunk that was given up was written after all.
pub(crate) async fn settled(
    session: &mut Session<'_>,
    before: &LockedBatch,
    status: BatchStatus,
    chunks: ChunkCounts,
) -> Result<(), DatabaseError> {
    let is_new = !before.status.is_final() || before.status != status || before.chunks != chunks;
    if status.is_final() && is_new { ended(session, before.batch_id).await } else { Ok(()) }
}

/// Writes the event that a batch is final, with its state as the current transaction sees it.
pub(crate) async fn ended(session: &mut Session<'_>, batch_id: Uuid) -> Result<(), DatabaseError> {
    if session.outbox_mode() == OutboxMode::Unused {
        return Ok(());
    }
    let batch = shown(session, batch_id).await?;
    let mut by_code = BTreeMap::new();
    for row in session.query(ERRORS, &[&batch_id]).await? {
        by_code.insert(row.try_get("code")?, count(&row, "errors")?);
    }
    write(session, batch_id, "integrahub.batch.final", facts::ended(batch, &by_code)).await
}

/// Writes the event that the guard against mass deactivation held a full load; nothing for any
/// other outcome.
pub(crate) async fn held(
    session: &mut Session<'_>,
    batch_id: Uuid,
    deactivation: Deactivation,
) -> Result<(), DatabaseError> {
    let Deactivation::Held { would_deactivate, deactivated } = deactivation else { return Ok(()) };
    if session.outbox_mode() == OutboxMode::Unused {
        return Ok(());
    }
    let batch = shown(session, batch_id).await?;
    let data = facts::held(&batch, would_deactivate, deactivated);
    write(session, batch_id, "integrahub.batch.held", data).await
}

/// Writes the event that a chunk of a batch, with this number of items, was given up. `error` is
/// that of the last attempt to write the chunk.
pub(crate) async fn chunk_given_up(
    session: &mut Session<'_>,
    batch: &LockedBatch,
    chunk_index: u32,
    items: u64,
    error: &str,
) -> Result<(), DatabaseError> {
    if session.outbox_mode() == OutboxMode::Unused {
        return Ok(());
    }
    let data = facts::chunk_given_up(batch, chunk_index, items, error);
    write(session, batch.batch_id, "integrahub.chunk.given_up", data).await
}

async fn shown(session: &mut Session<'_>, batch_id: Uuid) -> Result<BatchView, DatabaseError> {
    let row = session.query_opt(view::OF_ANY_TENANT, &[&batch_id]).await?;
    view::view(&row.ok_or(DatabaseError::UnknownBatch(batch_id))?)
}

async fn write(
    session: &mut Session<'_>,
    batch_id: Uuid,
    event_type: &str,
    data: Value,
) -> Result<(), DatabaseError> {
    session.execute(WRITE, &[&batch_id, &Uuid::now_v7(), &event_type, &Json(data)]).await?;
    session.wrote_event_of(batch_id);
    Ok(())
}
