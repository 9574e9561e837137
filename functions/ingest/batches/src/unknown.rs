//! Batches that PostgreSQL does not know yet: their items, if their payload is stored or waited
//! for.

use std::collections::HashSet;

use api::Problem;
use batch_items::{MAX_PAGE, Wanted};
use catalog::{BatchFilter, BatchView};
use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::payload::AcceptedBatch;
use jiff::Timestamp;
use uuid::Uuid;

use crate::{Batches, from_accepted, from_database, from_storage, not_found, view};

/// Maximum number of queries for items in one request: each reads [`MAX_PAGE`] of them.
const MAX_LOOKS: u8 = 4;

/// Range of the items that are searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) filter: &'a BatchFilter,
    /// Batch before which the range begins: all items are older than it. `None` begins at the
    /// newest.
    pub(crate) before: Option<Uuid>,
    /// Batch that ends the range: no item is older than it.
    pub(crate) down_to: Option<Uuid>,
    pub(crate) now: Timestamp,
}

/// Batches found that PostgreSQL does not know, and the end of the search.
#[derive(Debug, Default)]
pub(crate) struct Unknown {
    /// Batches, the newest first.
    pub(crate) batches: Vec<BatchView>,
    /// Last batch that was searched; `None` if no older ones follow.
    pub(crate) looked_to: Option<Uuid>,
    /// True if PostgreSQL has learned of a batch since it was queried.
    pub(crate) became_known: bool,
}

impl Batches {
    /// Searches for batches that the viewer may see and that PostgreSQL does not know, until there
    /// are `wanted` of them or a bounded number of items was searched. `known` are ids that
    /// PostgreSQL has.
    pub(crate) async fn unknown(
        &self,
        viewer: &Viewer,
        span: &Span<'_>,
        known: &HashSet<Uuid>,
        wanted: u16,
    ) -> Result<Unknown, Problem> {
        let &Span { filter, before, down_to, now } = span;
        let is_limited = viewer.limits().is_some();
        let is_filtered = is_limited || *filter != BatchFilter::default();
        // Without a filter every item counts, so one query for `wanted` items is enough.
        let (at_once, looks) = if is_filtered { (MAX_PAGE, MAX_LOOKS) } else { (wanted, 1) };
        let BatchFilter { status, load_type, ref source_key } = *filter;
        let mut items = Wanted { before, down_to, status, load_type, source_key: source_key.clone() };
        let mut found = Unknown::default();
        for _ in 0..looks {
            let page = self.accepted.recent(viewer, &items, now, at_once).await;
            let page = page.map_err(|error| from_accepted(&error))?;
            let asked: Vec<AcceptedBatch> =
                page.batches.into_iter().filter(|batch| !known.contains(&batch.metadata.batch_id)).collect();
            found.looked_to = page.looked_to.or(down_to);
            let cut_off = self.add(&mut found, asked, now, wanted).await?;
            if let Some(batch_id) = cut_off {
                found.looked_to = Some(batch_id);
            }
            let is_enough = found.batches.len() >= usize::from(wanted);
            if cut_off.is_some() || page.looked_to.is_none() || is_enough {
                break;
            }
            items.before = page.looked_to;
        }
        Ok(found)
    }

    /// Adds the items that PostgreSQL does not know, until there are `wanted` batches. If items are
    /// left over then, it returns the last one that was searched.
    async fn add(
        &self,
        found: &mut Unknown,
        asked: Vec<AcceptedBatch>,
        now: Timestamp,
        wanted: u16,
    ) -> Result<Option<Uuid>, Problem> {
        if asked.is_empty() {
            return Ok(None);
        }
        let ids: Vec<Uuid> = asked.iter().map(|batch| batch.metadata.batch_id).collect();
        let unknown = self.database.unknown(&ids).await.map_err(|error| from_database(&error))?;
        found.became_known |= unknown.len() < ids.len();
        let unknown: HashSet<Uuid> = unknown.into_iter().collect();
        let mut new: Vec<_> =
            asked.into_iter().filter(|batch| unknown.contains(&batch.metadata.batch_id)).collect();
        let room = usize::from(wanted).saturating_sub(found.batches.len());
        let cut_off = new.len() > room;
        new.truncate(room);
        let last = new.last().map(|batch| batch.metadata.batch_id);
        let new = self.stored(new, now).await?;
        found.batches.extend(new.iter().map(|batch| view::of(batch, now)));
        Ok(last.filter(|_| cut_off))
    }

    /// Returns a batch that PostgreSQL does not know, from its DynamoDB item.
    ///
    /// # Errors
    /// 404 if it has no item, or its payload was never stored.
    pub(crate) async fn unknown_one(&self, viewer: &Viewer, batch_id: Uuid) -> Result<BatchView, Problem> {
        let found = self.accepted.get(viewer, batch_id).await.map_err(|error| from_accepted(&error))?;
        let now = Timestamp::now();
        let stored = self.stored(found.into_iter().collect(), now).await?;
        stored.first().map(|batch| view::of(batch, now)).ok_or_else(not_found)
    }

    /// Keeps the batches whose payload is stored, and those that still wait for one. A payload is
    /// missing if its request was refused, or has not ended.
    async fn stored(
        &self,
        batches: Vec<AcceptedBatch>,
        now: Timestamp,
    ) -> Result<Vec<AcceptedBatch>, Problem> {
        let should_be_there = |batch: &AcceptedBatch| batch.status(now) == BatchStatus::Received;
        let keys: Vec<String> =
            batches.iter().filter(|batch| should_be_there(batch)).map(|batch| batch.metadata.key()).collect();
        let there = self.objects.there(keys).await.map_err(|error| from_storage(&error))?;
        let mut batches = batches;
        batches.retain(|batch| !should_be_there(batch) || there.contains(&batch.metadata.key()));
        Ok(batches)
    }
}
