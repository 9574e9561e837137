//! State that the function `metering` stores in the usage table, and the gaps in its counting.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem};
use jiff::Timestamp;
use jiff::civil::Date;

use super::{UsageTable, iso, key_of, malformed, number, string, text};
use crate::coverage::{Gap, MeteringState};
use crate::error::UsageError;
use crate::hour::Hour;
use crate::key;

impl UsageTable {
    /// Returns the stored state of the function that counts the stream's changes.
    ///
    /// # Errors
    /// If the table is unavailable, or if the item is malformed.
    pub async fn state(&self) -> Result<MeteringState, UsageError> {
        let key = key_of(key::STATE, key::READER);
        let get = self.dynamodb.get_item().table_name(&self.table).set_key(Some(key)).consistent_read(true);
        let item = get.send().await.map_err(UsageError::unavailable)?.item.unwrap_or_default();
        let refused = || malformed(key::STATE, key::READER);
        let time = |name: &str| -> Result<Option<Timestamp>, UsageError> {
            text(&item, name).map(str::parse).transpose().map_err(|_| refused())
        };
        let hour = text(&item, "publishedHour").map(str::parse::<Hour>).transpose();
        let day = text(&item, "recountedDay").map(str::parse::<Date>).transpose();
        Ok(MeteringState {
            read_until: time("readUntil")?,
            counted_from: time("countedFrom")?,
            published_hour: hour.map_err(|_| refused())?,
            recounted_day: day.map_err(|_| refused())?,
        })
    }

    /// Records `now` as the time at which counting began, unless an earlier time is recorded.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn begin(&self, now: Timestamp) -> Result<(), UsageError> {
        self.note("countedFrom", iso(now), "attribute_not_exists(#name) OR :value < #name").await
    }

    /// Records that all changes of the stream before `at` are counted. A later time that is
    /// recorded already stays.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn read_until(&self, at: Timestamp) -> Result<(), UsageError> {
        self.note("readUntil", iso(at), FORWARDS).await
    }

    /// Records that the counters of all hours up to `hour` were published as events.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn published(&self, hour: Hour) -> Result<(), UsageError> {
        self.note("publishedHour", string(hour), FORWARDS).await
    }

    /// Records that the idempotency table was recounted on this day.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn recounted(&self, day: Date) -> Result<(), UsageError> {
        self.note("recountedDay", string(day), FORWARDS).await
    }

    /// Sets an attribute of the stored state. If the write's condition fails, nothing changes.
    async fn note(&self, name: &str, value: AttributeValue, condition: &str) -> Result<(), UsageError> {
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .set_key(Some(key_of(key::STATE, key::READER)))
            .update_expression("SET #name = :value")
            .condition_expression(condition)
            .expression_attribute_names("#name", name)
            .expression_attribute_values(":value", value);
        match update.send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
                Ok(())
            }
            Err(error) => Err(UsageError::unavailable(error)),
        }
    }

    /// Stores a gap (a period in which changes may have been lost). A stored gap with the same
    /// beginning is replaced.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn note_gap(&self, gap: &Gap) -> Result<(), UsageError> {
        self.transact(vec![self.put_gap(gap)?]).await.map(drop)
    }

    /// Replaces a stored gap by the gaps `left`: the parts of it that no recount has covered yet.
    /// Deletes it if `left` is empty.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn close_gap(&self, gap: &Gap, left: &[Gap]) -> Result<(), UsageError> {
        let mut writes = Vec::new();
        // One item can occur once in a transaction.
        if !left.iter().any(|left| left.from == gap.from) {
            let delete = Delete::builder().table_name(&self.table).set_key(Some(gap_key(gap))).build();
            let delete = delete.map_err(UsageError::unavailable)?;
            writes.push(TransactWriteItem::builder().delete(delete).build());
        }
        for left in left {
            writes.push(self.put_gap(left)?);
        }
        self.transact(writes).await.map(drop)
    }

    fn put_gap(&self, gap: &Gap) -> Result<TransactWriteItem, UsageError> {
        let mut item = gap_key(gap);
        item.insert("until".to_owned(), iso(gap.until));
        item.insert("ttl".to_owned(), number(key::ttl_of_gap(gap.until)));
        let put = Put::builder().table_name(&self.table).set_item(Some(item)).build();
        Ok(TransactWriteItem::builder().put(put.map_err(UsageError::unavailable)?).build())
    }
}

/// Write condition that an attribute is missing, or that its new value is greater than its present
/// one.
const FORWARDS: &str = "attribute_not_exists(#name) OR #name < :value";

fn gap_key(gap: &Gap) -> crate::contribution::Item {
    key_of(key::GAP, &format!("{:.3}", gap.from))
}
