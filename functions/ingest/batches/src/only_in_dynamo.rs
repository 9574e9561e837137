//! Batches that PostgreSQL does not have yet, read from their DynamoDB items. A batch is left out
//! if its payload should be stored and is not.

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

/// Maximum number of DynamoDB queries that one list request makes. Each reads up to [`MAX_PAGE`]
/// batch items.
const MAX_LOOKS: u8 = 4;

/// Filter and range of a search for batches in DynamoDB, from the newest to the oldest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) filter: &'a BatchFilter,
    /// Id of the batch at which the search starts, exclusive: only older ones are searched. `None`
    /// starts at the newest.
    pub(crate) before: Option<Uuid>,
    /// Id of the oldest batch that is searched; `None` searches to the end.
    pub(crate) down_to: Option<Uuid>,
    pub(crate) now: Timestamp,
}

/// Result of searching DynamoDB for batches that PostgreSQL does not have yet.
#[derive(Debug, Default)]
pub(crate) struct OnlyInDynamo {
    /// Batches found in DynamoDB only, newest first.
    pub(crate) batches: Vec<BatchView>,
    /// Id of the last batch that the search reached, from which the next page continues; `None` if
    /// there are no older ones.
    pub(crate) looked_to: Option<Uuid>,
    /// True if PostgreSQL has received a batch since the list of its batches was read, so that the
    /// list must be read again.
    pub(crate) reached_postgres: bool,
}

impl Batches {
    /// Searches DynamoDB for batches that the viewer may see and PostgreSQL does not have, until
    /// `wanted` are found or `MAX_LOOKS` queries are made. `known` are ids already read from
    /// PostgreSQL, which are skipped.
    pub(crate) async fn only_in_dynamo(
        &self,
        viewer: &Viewer,
        span: &Span<'_>,
        known: &HashSet<Uuid>,
        wanted: u16,
    ) -> Result<OnlyInDynamo, Problem> {
        let &Span { filter, before, down_to, now } = span;
        let is_limited = viewer.limits().is_some();
        let is_filtered = is_limited || *filter != BatchFilter::default();
        // Without a filter every item counts, so one query for `wanted` items is enough.
        let (at_once, looks) = if is_filtered { (MAX_PAGE, MAX_LOOKS) } else { (wanted, 1) };
        let BatchFilter { status, load_type, ref source_key } = *filter;
        let mut items = Wanted { before, down_to, status, load_type, source_key: source_key.clone() };
        let mut found = OnlyInDynamo::default();
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

    /// Adds to `found` the batches of `asked` that PostgreSQL does not have, up to `wanted` batches
    /// in total. If some do not fit, returns the id of the last batch before these, after which a
    /// later page continues; otherwise `None`.
    async fn add(
        &self,
        found: &mut OnlyInDynamo,
        asked: Vec<AcceptedBatch>,
        now: Timestamp,
        wanted: u16,
    ) -> Result<Option<Uuid>, Problem> {
        if asked.is_empty() {
            return Ok(None);
        }
        let ids: Vec<Uuid> = asked.iter().map(|batch| batch.metadata.batch_id).collect();
        let unknown = self.database.unknown(&ids).await.map_err(|error| from_database(&error))?;
        found.reached_postgres |= unknown.len() < ids.len();
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

    /// Returns the view of a batch that PostgreSQL does not have, made from its DynamoDB item.
    ///
    /// # Errors
    /// If the batch has no item, or its payload was never stored: 404.
    pub(crate) async fn one_in_dynamo(&self, viewer: &Viewer, batch_id: Uuid) -> Result<BatchView, Problem> {
        let found = self.accepted.get(viewer, batch_id).await.map_err(|error| from_accepted(&error))?;
        let now = Timestamp::now();
        let stored = self.stored(found.into_iter().collect(), now).await?;
        stored.first().map(|batch| view::of(batch, now)).ok_or_else(not_found)
    }

    /// Removes batches whose payload should be stored and is not, because the request was refused
    /// or is still running. Batches that wait for an upload stay.
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
