//! `GET /v1/inovafarma/batches`: a tenant's batches, the newest first.

use std::cmp::Reverse;
use std::collections::HashSet;

use api::{Problem, Reply};
use catalog::{BatchFilter, BatchView};
use ingestion::batch::BatchStatus;
use ingestion::payload::LoadType;
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::cursor::ListOf;
use crate::query::{Query, invalid};
use crate::{Batches, format, from_accepted, from_database, view};

const MAX: u16 = 200;
const DEFAULT: u16 = 50;

/// A page.
#[derive(Serialize)]
struct Page {
    batches: Vec<BatchView>,
    next_cursor: Option<String>,
}

impl Batches {
    pub(crate) async fn list(&self, tenant: Uuid, query: &str) -> Result<Reply, Problem> {
        let query = Query::parse(query);
        let limit = query.limit(DEFAULT, 1..=MAX)?;
        let filter = BatchFilter { status: query.status()?, load_type: query.parsed("load_type")? };
        let list = list_of(tenant, &filter);
        let before = match query.text("cursor")? {
            None => None,
            Some(cursor) => {
                let position = list.position(cursor);
                Some(Uuid::from_bytes(position.ok_or_else(|| {
                    invalid("cursor", "must be the next_cursor of a page with the same status and load_type")
                })?))
            }
        };
        // One more tells whether there is another page.
        let wanted = limit.saturating_add(1);
        // Read first, so that no batch is missed that becomes known meanwhile.
        let items = self.items(tenant, &filter, wanted, before).await?;
        let known = self.known(tenant, &filter, wanted, before).await?;
        let all = match &filter {
            BatchFilter { status: None, load_type: None } => None,
            _ if items.is_empty() => None,
            _ => Some(self.known(tenant, &BatchFilter::default(), wanted, before).await?),
        };
        let unknown = not_among(all.as_ref().unwrap_or(&known), items, &filter, usize::from(wanted));
        let (batches, last) = merge(known, unknown, usize::from(limit));
        format::json(&Page { batches, next_cursor: last.map(|batch_id| list.cursor(batch_id.into_bytes())) })
    }

    async fn known(
        &self,
        tenant: Uuid,
        filter: &BatchFilter,
        wanted: u16,
        before: Option<Uuid>,
    ) -> Result<Vec<BatchView>, Problem> {
        let found = self.database.batches(tenant, filter, u32::from(wanted), before).await;
        found.map_err(|error| from_database(&error))
    }

    /// The newest `wanted` of all batches, as their items know them, where the filter may take any of them.
    async fn items(
        &self,
        tenant: Uuid,
        filter: &BatchFilter,
        wanted: u16,
        before: Option<Uuid>,
    ) -> Result<Vec<BatchView>, Problem> {
        if !may_be_unknown(filter.status) {
            return Ok(Vec::new());
        }
        let items = self.accepted.recent(tenant, before, wanted).await;
        let now = Timestamp::now();
        Ok(items.map_err(|error| from_accepted(&error))?.iter().map(|item| view::of(item, now)).collect())
    }
}

/// Only these can a batch be in without PostgreSQL knowing it.
const fn may_be_unknown(status: Option<BatchStatus>) -> bool {
    matches!(status, None | Some(BatchStatus::Received | BatchStatus::AwaitingUpload | BatchStatus::Expired))
}

/// Those of `items` that the filter takes and that are certainly not known: `known` are the newest `wanted`, so nothing is certain of older ones.
fn not_among(
    known: &[BatchView],
    items: Vec<BatchView>,
    filter: &BatchFilter,
    wanted: usize,
) -> Vec<BatchView> {
    let oldest = known.last().filter(|_| known.len() >= wanted).map(|batch| batch.batch_id);
    let ids: HashSet<Uuid> = known.iter().map(|batch| batch.batch_id).collect();
    let mut items = items;
    items.retain(|item| {
        !ids.contains(&item.batch_id)
            && oldest.is_none_or(|oldest| item.batch_id > oldest)
            && filter.status.is_none_or(|status| item.status == status)
            && filter.load_type.is_none_or(|load_type| item.load_type == load_type)
    });
    items
}

/// The newest `limit` of both, and the last of them where more follow. What is in both is as PostgreSQL says.
fn merge(known: Vec<BatchView>, unknown: Vec<BatchView>, limit: usize) -> (Vec<BatchView>, Option<Uuid>) {
    let mut batches = known;
    batches.extend(unknown);
    // A stable sort, so that of two the one of PostgreSQL comes first.
    batches.sort_by_key(|batch| Reverse(batch.batch_id));
    batches.dedup_by_key(|batch| batch.batch_id);
    let more = batches.len() > limit;
    batches.truncate(limit);
    let last = batches.last().filter(|_| more).map(|batch| batch.batch_id);
    (batches, last)
}

fn list_of(tenant: Uuid, filter: &BatchFilter) -> ListOf {
    let status = filter.status.map_or("", BatchStatus::as_str);
    ListOf::new(tenant, &["batches", status, filter.load_type.map_or("", LoadType::as_str)])
}

#[cfg(test)]
mod tests;
