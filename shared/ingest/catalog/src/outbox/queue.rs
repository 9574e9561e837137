//! Reading and removing events of the outbox.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::database::Database;
use crate::error::DatabaseError;
use crate::rows::{count, seconds};

/// Event in the outbox that waits to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "columns of `outbox`, under their names")]
pub struct OutboxEvent {
    /// Number of the event in the outbox, which ascends within a batch.
    pub sequence: i64,
    /// Id of the event, which is the same each time it is published.
    pub event_id: Uuid,
    pub event_type: String,
    pub batch_id: Uuid,
    pub tenant_id: Uuid,
    /// Idempotency key of the request that created the batch.
    pub idempotency_key: String,
    /// Trace id of the request that created the batch.
    pub trace_id: String,
    pub occurred_at: Timestamp,
    pub data: Value,
}

/// Backlog of outbox events that wait to be published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of events that wait to be published.
    pub events: u64,
    /// Time since the oldest event that waits to be published occurred; zero if no event waits.
    pub oldest: Duration,
}

macro_rules! events {
    ($condition:literal) => {
        concat!(
            "SELECT sequence, event_id, event_type, batch_id, tenant_id, idempotency_key, trace_id, occurred_at, data ",
            "FROM outbox WHERE ",
            $condition
        )
    };
}

const OF_BATCH: &str = events!("batch_id = $1 ORDER BY sequence LIMIT $2");
/// Query for up to `$2` events that are older than `$1` seconds. Events that a destination refused
/// come last, so that they do not block the others.
const LEFT: &str = events!(
    "occurred_at <= clock_timestamp() - $1 * interval '1 second' ORDER BY refused_at NULLS FIRST, sequence LIMIT $2"
);
const REMOVE: &str = "DELETE FROM outbox WHERE sequence = ANY($1)";
const REFUSE: &str = "UPDATE outbox SET refused_at = clock_timestamp() WHERE sequence = ANY($1)";
const BACKLOG: &str = "SELECT count(*) AS events, \
     extract(epoch FROM clock_timestamp() - min(occurred_at))::double precision AS seconds FROM outbox";

impl Database {
    /// Returns the ids of batches of which this process has committed events since the last call.
    /// It makes no query.
    pub fn batches_with_events(&self) -> Vec<Uuid> {
        std::mem::take(&mut *self.committed())
    }

    /// Returns up to `limit` unpublished events of a batch, in the order in which they were
    /// written.
    pub async fn events_of(&self, batch_id: Uuid, limit: u32) -> Result<Vec<OutboxEvent>, DatabaseError> {
        self.read(OF_BATCH, &[&batch_id, &i64::from(limit)]).await?.iter().map(event).collect()
    }

    /// Returns up to `limit` events that have been in the outbox for at least `older_than`, in the
    /// order of their sequence numbers; events that were refused come last. Concurrent callers may
    /// get the same events.
    pub async fn events_left(
        &self,
        older_than: Duration,
        limit: u32,
    ) -> Result<Vec<OutboxEvent>, DatabaseError> {
        let left = self.read(LEFT, &[&older_than.as_secs_f64(), &i64::from(limit)]).await?;
        left.iter().map(event).collect()
    }

    /// Deletes published events from the outbox, and marks refused ones, both by their sequence
    /// numbers. Idempotent.
    ///
    /// # Errors
    /// If the database fails. The events are then published again.
    pub async fn note_published(&self, published: &[i64], refused: &[i64]) -> Result<(), DatabaseError> {
        self.with_connection(async |connection| {
            let mut session = connection.begin().await?;
            if !published.is_empty() {
                session.execute(REMOVE, &[&published]).await?;
            }
            if !refused.is_empty() {
                session.execute(REFUSE, &[&refused]).await?;
            }
            session.commit().await
        })
        .await
    }

    /// Returns the number and age of the events that wait to be published.
    pub async fn backlog(&self) -> Result<Backlog, DatabaseError> {
        let rows = self.read(BACKLOG, &[]).await?;
        let Some(row) = rows.first() else { return Ok(Backlog::default()) };
        Ok(Backlog { events: count(row, "events")?, oldest: seconds(row)? })
    }
}

fn event(row: &Row) -> Result<OutboxEvent, DatabaseError> {
    let Json(data) = row.try_get("data")?;
    Ok(OutboxEvent {
        sequence: row.try_get("sequence")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        batch_id: row.try_get("batch_id")?,
        tenant_id: row.try_get("tenant_id")?,
        idempotency_key: row.try_get("idempotency_key")?,
        trace_id: row.try_get("trace_id")?,
        occurred_at: row.try_get("occurred_at")?,
        data,
    })
}
