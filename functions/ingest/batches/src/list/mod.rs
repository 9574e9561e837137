//! Route `GET /v1/inovafarma/batches`: lists the batches that the caller may see, the newest first.
//!
//! Pages follow the order of batch ids, also if the list is filtered. `next_cursor` has the last id
//! that was searched for a page, and is present until all ids were searched. So a page may have few
//! batches or none, although another page follows.

use std::cmp::Reverse;

use api::{ListOf, Problem, Query, Reply, invalid_parameter};
use catalog::{BatchFilter, BatchView};
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::payload::{LoadType, SourceKey};
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::only_in_dynamo::Span;
use crate::{Batches, format, from_database};

const MAX: u16 = 200;
const DEFAULT: u16 = 50;

/// Response body of the batch list: one page, newest first.
#[derive(Serialize)]
struct Page {
    batches: Vec<BatchView>,
    next_cursor: Option<String>,
}

impl Batches {
    pub(crate) async fn list(&self, viewer: &Viewer, query: &Query<'_>) -> Result<Reply, Problem> {
        let limit = query.limit(DEFAULT, 1..=MAX)?;
        let filter = BatchFilter {
            status: query.parsed("status")?,
            load_type: query.parsed("load_type")?,
            source_key: query.parsed_or_empty("source_key")?,
        };
        let list = list_of(viewer, &filter);
        let before = match query.text("cursor")? {
            None => None,
            Some(cursor) => {
                let position = list.position(cursor);
                Some(Uuid::from_bytes(position.ok_or_else(|| {
                    invalid_parameter("cursor", "must be the next_cursor of a page with the same filters")
                })?))
            }
        };
        let (batches, last) = self.page(viewer, &filter, before, limit).await?;
        format::json(&Page { batches, next_cursor: last.map(|batch_id| list.cursor(batch_id.into_bytes())) })
    }

    /// Returns up to `limit` batches older than `before`, or the newest ones if it is `None`. Also
    /// returns the id after which the next page continues; `None` if there is no next page.
    async fn page(
        &self,
        viewer: &Viewer,
        filter: &BatchFilter,
        before: Option<Uuid>,
        limit: u16,
    ) -> Result<(Vec<BatchView>, Option<Uuid>), Problem> {
        // One batch more than wanted shows whether there is another page.
        let wanted = limit.saturating_add(1);
        let mut known = self.known(viewer, filter, wanted, before).await?;
        if !may_be_unknown(filter.status) {
            return Ok(merge(known, Vec::new(), None, limit));
        }
        let down_to = known.get(usize::from(limit)).map(|batch| batch.batch_id);
        let span = Span { filter, before, down_to, now: Timestamp::now() };
        let ids = known.iter().map(|batch| batch.batch_id).collect();
        let unknown = self.only_in_dynamo(viewer, &span, &ids, wanted).await?;
        if unknown.reached_postgres {
            // Read once more, so that no batch is missed that became known in between.
            known = self.known(viewer, filter, wanted, before).await?;
        }
        Ok(merge(known, unknown.batches, unknown.looked_to, limit))
    }

    async fn known(
        &self,
        viewer: &Viewer,
        filter: &BatchFilter,
        wanted: u16,
        before: Option<Uuid>,
    ) -> Result<Vec<BatchView>, Problem> {
        let found = self.database.batches(viewer, filter, u32::from(wanted), before).await;
        found.map_err(|error| from_database(&error))
    }
}

/// True if a batch that is in DynamoDB only, and not in PostgreSQL yet, can match this status
/// filter.
const fn may_be_unknown(status: Option<BatchStatus>) -> bool {
    matches!(status, None | Some(BatchStatus::Received | BatchStatus::AwaitingUpload | BatchStatus::Expired))
}

/// Merges the batches from PostgreSQL (`known`) and from DynamoDB (`unknown`) to one page, newest
/// first. Of two entries of one batch, PostgreSQL's is kept. Batches older than `looked_to`, the
/// last id that was searched in DynamoDB, are left to a later page. Also returns the id after which
/// the next page continues: that of the page's last batch if `limit` cut the page off, or else
/// `looked_to`.
fn merge(
    known: Vec<BatchView>,
    unknown: Vec<BatchView>,
    looked_to: Option<Uuid>,
    limit: u16,
) -> (Vec<BatchView>, Option<Uuid>) {
    let mut batches = known;
    batches.extend(unknown);
    // The sort is stable, so of two entries of one batch PostgreSQL's comes first.
    batches.sort_by_key(|batch| Reverse(batch.batch_id));
    batches.dedup_by_key(|batch| batch.batch_id);
    // Older batches were not searched for those that PostgreSQL does not know, so they belong to a
    // later page.
    batches.retain(|batch| looked_to.is_none_or(|looked_to| batch.batch_id >= looked_to));
    let limit = usize::from(limit);
    let more = batches.len() > limit;
    batches.truncate(limit);
    let last = if more { batches.last().map(|batch| batch.batch_id) } else { looked_to };
    (batches, last)
}

fn list_of(viewer: &Viewer, filter: &BatchFilter) -> ListOf {
    let status = filter.status.map_or("", BatchStatus::as_str);
    let load_type = filter.load_type.map_or("", LoadType::as_str);
    let source_key = filter.source_key.as_ref().map_or("", SourceKey::as_str);
    ListOf::new(viewer.tenant_id(), &["batches", status, load_type, source_key])
}

#[cfg(test)]
pub(crate) mod tests;
