//! `GET /v1/inovafarma/batches`: the batches that the caller may see, the newest first.
//!
//! A list is walked by batch ids, whatever they are filtered by. A page therefore says how far it
//! looked, and `next_cursor` is there until everything was looked at, also where a page has few
//! batches or none.

use std::cmp::Reverse;

use api::{Problem, Reply};
use catalog::{BatchFilter, BatchView};
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::payload::{LoadType, SourceKey};
use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::cursor::ListOf;
use crate::query::{Query, invalid};
use crate::unknown::Span;
use crate::{Batches, format, from_database};

const MAX: u16 = 200;
const DEFAULT: u16 = 50;

/// A page.
#[derive(Serialize)]
struct Page {
    batches: Vec<BatchView>,
    next_cursor: Option<String>,
}

impl Batches {
    pub(crate) async fn list(&self, viewer: &Viewer, query: &Query<'_>) -> Result<Reply, Problem> {
        let limit = query.limit(DEFAULT, 1..=MAX)?;
        let filter = BatchFilter {
            status: query.status()?,
            load_type: query.parsed("load_type")?,
            source_key: query.parsed_or_empty("source_key")?,
        };
        let list = list_of(viewer, &filter);
        let before = match query.text("cursor")? {
            None => None,
            Some(cursor) => {
                let position = list.position(cursor);
                Some(Uuid::from_bytes(position.ok_or_else(|| {
                    invalid("cursor", "must be the next_cursor of a page with the same filters")
                })?))
            }
        };
        let (batches, last) = self.page(viewer, &filter, before, limit).await?;
        format::json(&Page { batches, next_cursor: last.map(|batch_id| list.cursor(batch_id.into_bytes())) })
    }

    /// Returns up to `limit` batches, and the place from which to search further.
    async fn page(
        &self,
        viewer: &Viewer,
        filter: &BatchFilter,
        before: Option<Uuid>,
        limit: u16,
    ) -> Result<(Vec<BatchView>, Option<Uuid>), Problem> {
        // One more tells whether there is another page.
        let wanted = limit.saturating_add(1);
        let mut known = self.known(viewer, filter, wanted, before).await?;
        if !may_be_unknown(filter.status) {
            return Ok(merge(known, Vec::new(), None, limit));
        }
        let down_to = known.get(usize::from(limit)).map(|batch| batch.batch_id);
        let span = Span { filter, before, down_to, now: Timestamp::now() };
        let ids = known.iter().map(|batch| batch.batch_id).collect();
        let unknown = self.unknown(viewer, &span, &ids, wanted).await?;
        if unknown.became_known {
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

/// Tells whether a batch can have this status without PostgreSQL knowing it.
const fn may_be_unknown(status: Option<BatchStatus>) -> bool {
    matches!(status, None | Some(BatchStatus::Received | BatchStatus::AwaitingUpload | BatchStatus::Expired))
}

/// The newest `limit` of both, and where to look further: behind the last of them where more
/// follow, or else behind the last batch that was looked at. What is in both is as PostgreSQL says.
fn merge(
    known: Vec<BatchView>,
    unknown: Vec<BatchView>,
    looked_to: Option<Uuid>,
    limit: u16,
) -> (Vec<BatchView>, Option<Uuid>) {
    let mut batches = known;
    batches.extend(unknown);
    // A stable sort, so that of two the one of PostgreSQL comes first.
    batches.sort_by_key(|batch| Reverse(batch.batch_id));
    batches.dedup_by_key(|batch| batch.batch_id);
    // Of older ones, those that PostgreSQL does not know are not known here either.
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
mod tests;
