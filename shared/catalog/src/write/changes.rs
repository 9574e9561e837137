//! What a chunk changes, decided row by row, and done in three statements.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::SinkExt as _;
use ingestion::batch::Changes;
use ingestion::chunk::{Chunk, Row};
use jiff::Timestamp;

use super::copy::{Presence, Rows, columns};
use super::history;
use super::lookup::{Differing, Existing};
use crate::connection::Session;
use crate::error::DatabaseError;

const COPY_NEW: &str = concat!("COPY products (", columns!(), ") FROM STDIN (FORMAT binary)");
const STAGE: &str = concat!("COPY staged_products (", columns!(), ") FROM STDIN (FORMAT binary)");
const IS_STAGE_ABSENT: &str = "SELECT to_regclass('pg_temp.staged_products') IS NULL AS absent";
/// One table a session, emptied by each commit: a table a chunk would leave 20 KB in the system's catalogue each time.
const CREATE_STAGE: &str = concat!(
    "CREATE TEMPORARY TABLE staged_products ON COMMIT DELETE ROWS AS SELECT ",
    columns!(),
    " FROM products WITH NO DATA"
);
const UPSERT: &str = concat!(
    "INSERT INTO products (",
    columns!(),
    ") SELECT ",
    columns!(),
    " FROM staged_products ON CONFLICT (cnpj, shopid, productid) DO UPDATE SET title = EXCLUDED.title, \
     description = EXCLUDED.description, ean = EXCLUDED.ean, brand = EXCLUDED.brand, ncm = EXCLUDED.ncm, \
     category = EXCLUDED.category, imagelink = EXCLUDED.imagelink, color = EXCLUDED.color, price = EXCLUDED.price, \
     pricepromo = EXCLUDED.pricepromo, wholesaleprice = EXCLUDED.wholesaleprice, quantity = EXCLUDED.quantity, \
     size = EXCLUDED.size, measure = EXCLUDED.measure, wholesalemin = EXCLUDED.wholesalemin, indice = EXCLUDED.indice, \
     source_created_at = EXCLUDED.source_created_at, source_updated_at = EXCLUDED.source_updated_at, \
     extra = EXCLUDED.extra, row_hash = EXCLUDED.row_hash, last_batch_id = EXCLUDED.last_batch_id, \
     last_received_at = EXCLUDED.last_received_at, last_item_index = EXCLUDED.last_item_index, \
     active = EXCLUDED.active, updated_at = now(), \
     deactivated_at = CASE WHEN EXCLUDED.active THEN NULL ELSE products.deactivated_at END"
);
/// By place, since under the establishments' locks nobody moves a row.
const REACTIVATE: &str = "UPDATE products SET active = true, deactivated_at = NULL, updated_at = now() \
     WHERE ctid = ANY($1::text[]::tid[])";

/// What is to be done with a chunk's rows.
pub(super) struct Plan<'a> {
    insert: Vec<(&'a Row, Presence)>,
    update: Vec<(&'a Row, Presence)>,
    /// Places of rows that only become active again.
    reactivate: Vec<&'a str>,
    counts: Changes,
}

impl<'a> Plan<'a> {
    /// Decides about each of `rows` rows, of which those in `differing` are not in the table as they are.
    pub(super) async fn of(
        session: &mut Session<'_>,
        chunk: &Chunk,
        differing: &'a [Differing<'a>],
        rows: usize,
    ) -> Result<Self, DatabaseError> {
        let may_return: Vec<&Row> = differing
            .iter()
            .filter(|differing| !differing.is_active())
            .map(|differing| differing.row)
            .collect();
        let newer: Vec<&Differing<'_>> = differing.iter().filter(|differing| differing.is_newer()).collect();
        let knowledge = Knowledge {
            withdrawn: history::withdrawn(session, chunk, &may_return).await?,
            outranked: history::outranked(session, chunk, &newer).await?,
            now: Timestamp::now(),
        };
        let unchanged = u64::try_from(rows.saturating_sub(differing.len()))?;
        let mut plan = Self {
            insert: Vec::new(),
            update: Vec::new(),
            reactivate: Vec::new(),
            counts: Changes { unchanged, ..Changes::default() },
        };
        for differing in differing {
            plan.decide(differing, &knowledge);
        }
        Ok(plan)
    }

    fn decide(&mut self, differing: &'a Differing<'a>, knowledge: &Knowledge) {
        let key = history::key(differing.row);
        let is_withdrawn = knowledge.withdrawn.contains(&key);
        let Some(existing) = &differing.existing else {
            let presence = if is_withdrawn { Presence::Inactive(knowledge.now) } else { Presence::Active };
            self.insert.push((differing.row, presence));
            self.counts.inserted += 1;
            return;
        };
        let returns = !existing.active && !is_withdrawn;
        if differing.is_newer() && !knowledge.outranked.contains(&key) {
            let active = existing.active || returns;
            let presence = if active { Presence::Active } else { Presence::Inactive(knowledge.now) };
            self.update.push((differing.row, presence));
            self.counts.updated += 1;
        } else if returns {
            self.reactivate.push(&existing.ctid);
            self.counts.updated += 1;
        } else if differing.is_same(existing) {
            self.counts.unchanged += 1;
        } else {
            self.counts.stale += 1;
        }
    }

    /// What becomes of the chunk's items, those that a later one in it replaced included.
    pub(super) fn counts(&self, chunk: &Chunk) -> Changes {
        Changes { stale: self.counts.stale + u64::from(chunk.duplicates()), ..self.counts }
    }
}

/// What other batches said, as far as it matters here.
struct Knowledge {
    withdrawn: HashSet<i64>,
    outranked: HashSet<i64>,
    now: Timestamp,
}

impl Differing<'_> {
    fn is_active(&self) -> bool {
        self.existing.as_ref().is_some_and(|existing| existing.active)
    }

    fn is_same(&self, existing: &Existing) -> bool {
        existing.row_hash == self.row.row_hash
    }

    /// Whether the item says something else than the table, and later than what wrote it there.
    fn is_newer(&self) -> bool {
        self.existing
            .as_ref()
            .is_some_and(|existing| !self.is_same(existing) && self.row.version > existing.version)
    }
}

/// Carries a plan out.
pub(super) async fn apply(session: &mut Session<'_>, plan: &Plan<'_>) -> Result<(), DatabaseError> {
    if !plan.insert.is_empty() {
        copy(session, COPY_NEW, &plan.insert).await?;
    }
    if !plan.update.is_empty() {
        stage(session, &plan.update).await?;
        session.execute(UPSERT, &[]).await?;
    }
    if !plan.reactivate.is_empty() {
        session.execute(REACTIVATE, &[&plan.reactivate]).await?;
    }
    Ok(())
}

/// Puts rows where their columns' types are checked, and from where they can be upserted.
pub(super) async fn stage(session: &mut Session<'_>, rows: &[(&Row, Presence)]) -> Result<(), DatabaseError> {
    let answer = session.query_opt(IS_STAGE_ABSENT, &[]).await?;
    if answer.map_or(Ok(true), |answer| answer.try_get("absent"))? {
        session.transaction.batch_execute(CREATE_STAGE).await?;
    }
    copy(session, STAGE, rows).await
}

async fn copy(
    session: &mut Session<'_>,
    sql: &'static str,
    rows: &[(&Row, Presence)],
) -> Result<(), DatabaseError> {
    let mut encoded = Rows::new();
    for (row, presence) in rows {
        encoded.push(row, *presence)?;
    }
    let statement = session.prepared(sql).await?;
    let sink = session.transaction.copy_in::<_, Bytes>(&statement).await?;
    let mut sink = std::pin::pin!(sink);
    sink.send(encoded.finish().into()).await?;
    sink.finish().await?;
    Ok(())
}
