//! Positions up to which the shards of the DynamoDB stream are counted, and the transactions that
//! move them.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use jiff::Timestamp;

use super::update::addition;
use super::{UsageTable, iso, key_of, malformed, number, sort_key, string, text};
use crate::chunk::{Change, Chunk, Targets};
use crate::contribution::Item;
use crate::error::UsageError;
use crate::key;

/// Position in a shard of the DynamoDB stream up to which the usage table has counted the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPosition {
    /// Id of the stream's shard that the position is in.
    pub shard: String,
    /// Sequence number of the last counted change; `None` if no change is counted.
    pub sequence: Option<String>,
    /// Time of the last counted change, or of the discovery of the shard if no change is counted.
    /// For an ended shard, the time at which its end was recorded.
    pub at: Timestamp,
    /// True if the shard is closed and all of its changes are counted.
    pub ended: bool,
}

/// Result of writing the position up to which a shard is counted, with or without counting changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PositionUpdate {
    /// The changes are counted, and this new position, up to which the shard is counted, is stored.
    Upto(ShardPosition),
    /// Another invocation has moved the shard's position meanwhile, so a write was refused. The
    /// caller must read the changes again, from the position in the table.
    Fenced,
}

impl ShardPosition {
    /// Creates the position of a shard of which no change is counted yet. `at` is the time of its
    /// discovery.
    #[must_use]
    pub const fn new(shard: String, at: Timestamp) -> Self {
        Self { shard, sequence: None, at, ended: false }
    }

    fn read(item: &Item) -> Result<Self, UsageError> {
        let shard = sort_key(item);
        let at = text(item, "at").and_then(|at| at.parse().ok());
        let at = at.ok_or_else(|| malformed(key::MARK, shard))?;
        let sequence = text(item, "sequence").map(str::to_owned);
        Ok(Self { shard: shard.to_owned(), sequence, at, ended: item.contains_key("ended") })
    }

    fn item(&self) -> Item {
        let mut item = key_of(key::MARK, &self.shard);
        item.insert("at".to_owned(), iso(self.at));
        item.insert("ttl".to_owned(), number(key::ttl_of_position(self.at)));
        item.extend(self.sequence.as_ref().map(|sequence| ("sequence".to_owned(), string(sequence))));
        if self.ended {
            item.insert("ended".to_owned(), AttributeValue::Bool(true));
        }
        item
    }

    /// Builds the write that stores this position, on the condition that the stored position of the
    /// shard is still that of `seen`.
    fn write(&self, table: &str, seen: &Self) -> Result<TransactWriteItem, UsageError> {
        let names = HashMap::from([("#sequence".to_owned(), "sequence".to_owned())]);
        let put = Put::builder()
            .table_name(table)
            .set_item(Some(self.item()))
            .set_expression_attribute_names(Some(names));
        let put = match &seen.sequence {
            Some(sequence) => put
                .condition_expression("#sequence = :seen")
                .expression_attribute_values(":seen", string(sequence)),
            None => put.condition_expression("attribute_not_exists(#sequence)"),
        };
        let put = put.build().map_err(UsageError::unavailable)?;
        Ok(TransactWriteItem::builder().put(put).build())
    }
}

impl UsageTable {
    /// Returns, for each known shard of the stream, the position up to which it is counted.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn positions(&self) -> Result<Vec<ShardPosition>, UsageError> {
        self.query(key::MARK, None, true).await?.iter().map(ShardPosition::read).collect()
    }

    /// Returns the operations and targets that have totals of their own.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn targets(&self) -> Result<Targets, UsageError> {
        let totals = self.totals().await?.into_iter();
        let own = totals.filter(|total| !total.target.is_empty());
        Ok(Targets::of(own.map(|total| (total.operation, total.target))))
    }

    /// Counts changes of a shard, in their order, from the first one after `seen`, the last counted
    /// position. Each transaction adds to the counters and moves the position, so a change is never
    /// counted twice. Stops with [`PositionUpdate::Fenced`] if another invocation has moved the
    /// position.
    ///
    /// # Errors
    /// If the table is unavailable. The position in the table then shows which of the changes are
    /// counted.
    pub async fn count(
        &self,
        seen: &ShardPosition,
        changes: &[Change],
        targets: &mut Targets,
    ) -> Result<PositionUpdate, UsageError> {
        let (mut position, mut rest) = (seen.clone(), changes);
        while let Some((chunk, others)) = Chunk::take(rest, targets) {
            let Chunk { counters, sequence, at } = chunk;
            let moved = ShardPosition { sequence: Some(sequence), at, ..position.clone() };
            let mut writes = vec![moved.write(&self.table, &position)?];
            for (key, delta) in &counters {
                writes.push(addition(key, *delta).write(&self.table, None)?);
            }
            if !self.transact(writes).await? {
                return Ok(PositionUpdate::Fenced);
            }
            (position, rest) = (moved, others);
        }
        Ok(PositionUpdate::Upto(position))
    }

    /// Records, with the time `at`, that a shard is closed and all of its changes are counted.
    /// Returns [`PositionUpdate::Fenced`] if the stored position of the shard is no longer that of
    /// `seen`.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn end_shard(&self, seen: &ShardPosition, at: Timestamp) -> Result<PositionUpdate, UsageError> {
        let ended = ShardPosition { at, ended: true, ..seen.clone() };
        let is_ended = self.transact(vec![ended.write(&self.table, seen)?]).await?;
        Ok(if is_ended { PositionUpdate::Upto(ended) } else { PositionUpdate::Fenced })
    }

    /// Deletes the stored position of a shard that the stream no longer contains.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn forget_shard(&self, position: &ShardPosition) -> Result<(), UsageError> {
        let key = key_of(key::MARK, &position.shard);
        let delete = self.dynamodb.delete_item().table_name(&self.table).set_key(Some(key));
        delete.send().await.map(drop).map_err(UsageError::unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written_and_moves_only_from_what_was_seen() {
        let at = "2026-11-27T02:30:00Z".parse().unwrap();
        let new = ShardPosition::new("shardId-1".to_owned(), at);
        let moved = ShardPosition { sequence: Some("42".to_owned()), ..new.clone() };
        let ended = ShardPosition { ended: true, ..moved.clone() };
        for position in [&new, &moved, &ended] {
            assert_eq!(ShardPosition::read(&position.item()).unwrap(), *position);
        }
        let condition = |seen: &ShardPosition| {
            let write = moved.write("usage", seen).unwrap();
            write.put().unwrap().condition_expression().unwrap().to_owned()
        };
        assert_eq!(condition(&new), "attribute_not_exists(#sequence)");
        assert_eq!(condition(&moved), "#sequence = :seen");
    }
}
