//! Search of a tenant's batch items, the newest first, a bounded number at a time.

use ingestion::Viewer;
use ingestion::batch::BatchStatus;
use ingestion::payload::{AcceptedBatch, LoadType, SourceKey};
use jiff::Timestamp;
use uuid::Uuid;

use crate::{BatchItemError, BatchItems, item};

/// Maximum number of items that [`BatchItems::recent`] reads in one call.
pub const MAX_PAGE: u16 = 1000;

/// Conditions that a search of a tenant's batches applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Exclusive upper bound: only batches older than the batch with this id; `None` for no bound.
    pub before: Option<Uuid>,
    /// Inclusive lower bound: only the batch with this id and newer ones; `None` for no bound.
    pub down_to: Option<Uuid>,
    /// Status that the batches have at the time of the search; `None` for any.
    pub status: Option<BatchStatus>,
    /// Load type of the batches; `None` for any.
    pub load_type: Option<LoadType>,
    /// Key of the dropped S3 object of which the batches were made; `None` for any batch.
    pub source_key: Option<SourceKey>,
}

/// Page of a search of a tenant's batches, with the position at which the search ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Batches of the page that meet the conditions, the newest first.
    pub batches: Vec<AcceptedBatch>,
    /// Id of the oldest batch that the page searched, from which the next page continues; `None` if
    /// no older batch is left.
    pub looked_to: Option<Uuid>,
}

impl BatchItems {
    /// Searches a tenant's batches, the newest first, and returns those that meet the conditions at
    /// `now` and that the viewer may see. One call searches up to `limit` batches, at most
    /// [`MAX_PAGE`].
    ///
    /// # Errors
    /// If the table does not respond. A malformed item is logged and left out.
    pub async fn recent(
        &self,
        viewer: &Viewer,
        wanted: &Wanted,
        now: Timestamp,
        limit: u16,
    ) -> Result<Recent, BatchItemError> {
        let Some((oldest, newest)) = wanted.range() else { return Ok(Recent::default()) };
        let mut query = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .key_condition_expression("tenantId = :tenantId AND batchId BETWEEN :oldest AND :newest")
            .expression_attribute_values(":tenantId", item::text(viewer.tenant_id()))
            .expression_attribute_values(":oldest", item::text(oldest))
            .expression_attribute_values(":newest", item::text(newest))
            .set_filter_expression(wanted.filter())
            .consistent_read(true)
            .scan_index_forward(false)
            .limit(i32::from(limit.clamp(1, MAX_PAGE)));
        if let Some(load_type) = wanted.load_type {
            query = query.expression_attribute_values(":loadType", item::text(load_type));
        }
        if let Some(key) = &wanted.source_key {
            // Both are reserved words.
            let names = [("#source", "source"), ("#key", "key")];
            for (name, attribute) in names {
                query = query.expression_attribute_names(name, attribute);
            }
            query = query.expression_attribute_values(":sourceKey", item::text(key.as_str()));
        }
        let page = query.send().await.map_err(BatchItemError::unavailable)?;
        let looked_to = page.last_evaluated_key.map(|key| batch_of(&key)).transpose()?;
        let mut batches: Vec<_> = item::readable(page.items.unwrap_or_default(), item::read).collect();
        batches.retain(|batch| viewer.sees(batch));
        batches.retain(|batch| wanted.status.is_none_or(|status| batch.status(now) == status));
        Ok(Recent { batches, looked_to })
    }
}

impl Wanted {
    /// Returns the oldest and the newest id that the bounds allow; `None` if they allow no id. Ids
    /// have the same order as text and as numbers.
    fn range(&self) -> Option<(Uuid, Uuid)> {
        let oldest = self.down_to.unwrap_or_default();
        let newest = match self.before {
            None => Uuid::max(),
            Some(before) => Uuid::from_u128(before.as_u128().checked_sub(1)?),
        };
        (oldest <= newest).then_some((oldest, newest))
    }

    /// Returns a filter expression by which DynamoDB leaves out items that cannot meet the
    /// conditions; `None` without such a condition. The status is checked afterwards.
    fn filter(&self) -> Option<String> {
        let is_upload = matches!(self.status, Some(BatchStatus::AwaitingUpload | BatchStatus::Expired));
        let terms = [
            is_upload.then_some("attribute_exists(uploadExpiresAt)"),
            self.load_type.map(|_| "loadType = :loadType"),
            self.source_key.as_ref().map(|_| "#source.#key = :sourceKey"),
        ];
        let terms: Vec<&str> = terms.into_iter().flatten().collect();
        (!terms.is_empty()).then(|| terms.join(" AND "))
    }
}

/// Reads the id of the batch from the key of its item.
fn batch_of(key: &crate::Item) -> Result<Uuid, BatchItemError> {
    let id = key.get("batchId").and_then(|value| value.as_s().ok());
    id.and_then(|id| id.parse().ok()).ok_or_else(|| BatchItemError::unreadable("its key is not a batch's id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_wanted_between_two_bounds() {
        let id = Uuid::from_u128;
        let wanted = |before, down_to| Wanted { before, down_to, ..Wanted::default() }.range();
        assert_eq!(wanted(None, None), Some((Uuid::nil(), Uuid::max())));
        assert_eq!(wanted(Some(id(7)), Some(id(3))), Some((id(3), id(6))));
        assert_eq!(wanted(Some(id(7)), Some(id(6))), Some((id(6), id(6))));
        assert_eq!(wanted(Some(id(7)), Some(id(7))), None);
        assert_eq!(wanted(Some(Uuid::nil()), None), None);
    }
}
