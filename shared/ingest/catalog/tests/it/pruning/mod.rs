//! Tests of the start of the history of loads (the period for which batches are retained): batches
//! that were received before it are not processed any more, and are deleted.

mod deletion;
mod too_old;

use catalog::{Database, ReplayOutcome, ReplayRequest, WriteOutcome};
use ingestion::Viewer;
use ingestion::batch::{Changes, Replay, ReplayScope};
use uuid::Uuid;

use crate::support::{Item, Load, TENANT, TestDatabase, at};

const fn dated(key: u32, content: u32, updated_at: i64) -> Item {
    Item { key, content, updated_at: Some(updated_at) }
}

async fn changes(database: &Database, load: &Load) -> Changes {
    match database.write_chunk(&load.chunks[0]).await.unwrap() {
        WriteOutcome::Done { result, .. } => result.changes(),
        other => panic!("{other:?}"),
    }
}

async fn replay(database: &Database, load: &Load) -> ReplayOutcome {
    let request = ReplayRequest {
        replay: Replay { scope: ReplayScope::All, confirm_deactivation: false },
        idempotency_key: Uuid::new_v4().to_string(),
        requested_at: at(0),
    };
    database.replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap()
}

async fn shown(database: &Database, load: &Load) -> Option<catalog::BatchView> {
    database.batch(&Viewer::whole(TENANT), load.id()).await.unwrap()
}

/// Returns the number of rows that a batch has in all tables together.
async fn rows_of(test: &TestDatabase, load: &Load) -> i64 {
    let tables = ["batches", "batch_chunks", "batch_cnpjs", "batch_item_errors", "batch_replays"];
    let counts =
        tables.map(|table| format!("(SELECT count(*) FROM {table} WHERE batch_id = '{}')", load.id()));
    test.number(&format!("SELECT {}", counts.join(" + "))).await
}

const TITLES: &str = "SELECT string_agg(title, ', ' ORDER BY productid) AS titles FROM products";

async fn titles(test: &TestDatabase) -> String {
    test.rows(TITLES).await[0].get("titles")
}
