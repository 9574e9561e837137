//! Marks of the stream's shards, and the transactions that move them.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use jiff::Timestamp;

use super::update::addition;
use super::{UsageTable, iso, key_of, malformed, number, sort_key, string, text};
use crate::chunk::{Change, Chunk, Targets};
use crate::contribution::Item;
use crate::error::UsageError;
use crate::key;

/// Position in a stream shard up to which the changes are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Id of the shard of the DynamoDB stream.
    pub shard: String,
    /// Sequence number of the last counted change; `None` if no change is counted.
    pub sequence: Option<String>,
    /// Time of the last counted change, or else the time at which the shard was discovered.
    pub at: Timestamp,
    /// True if the shard is closed and all of its changes are counted.
    pub ended: bool,
}

/// Result of counting the changes of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The changes are counted, and this is the shard's new mark (position of the last counted
    /// change).
    Upto(Mark),
    /// Another reader has moved the shard's mark meanwhile, so a write was refused. The caller must
    /// read the changes again, from the mark in the table.
    Fenced,
}

impl Mark {
    /// Creates the mark of a shard whose changes are not counted yet.
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
        item.insert("ttl".to_owned(), number(key::ttl_of_mark(self.at)));
        item.extend(self.sequence.as_ref().map(|sequence| ("sequence".to_owned(), string(sequence))));
        if self.ended {
            item.insert("ended".to_owned(), AttributeValue::Bool(true));
        }
        item
    }

    /// Builds the write that replaces the mark, on the condition that it is still at the position
    /// of `seen`.
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
    /// Returns the marks of all known shards.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn marks(&self) -> Result<Vec<Mark>, UsageError> {
        self.query(key::MARK, None, true).await?.iter().map(Mark::read).collect()
    }

    /// Returns the targets that have their own totals.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn targets(&self) -> Result<Targets, UsageError> {
        let totals = self.totals().await?.into_iter();
        let own = totals.filter(|total| !total.target.is_empty());
        Ok(Targets::of(own.map(|total| (total.operation, total.target))))
    }

    /// Counts changes of a shard that follow the mark `seen` (the last counted position), in their
    /// order. Each transaction moves the mark and adds to the counters, so a change is never
    /// counted twice.
    ///
    /// # Errors
    /// If the table is unavailable. The mark in the table then shows which of the changes are
    /// counted.
    pub async fn count(
        &self,
        seen: &Mark,
        changes: &[Change],
        targets: &mut Targets,
    ) -> Result<Counted, UsageError> {
        let (mut mark, mut rest) = (seen.clone(), changes);
        while let Some((chunk, others)) = Chunk::take(rest, targets) {
            let Chunk { counters, sequence, at } = chunk;
            let moved = Mark { sequence: Some(sequence), at, ..mark.clone() };
            let mut writes = vec![moved.write(&self.table, &mark)?];
            for (key, delta) in &counters {
                writes.push(addition(key, *delta).write(&self.table, None)?);
            }
            if !self.transact(writes).await? {
                return Ok(Counted::Fenced);
            }
            (mark, rest) = (moved, others);
        }
        Ok(Counted::Upto(mark))
    }

    /// Records at `at` that a shard is closed and all of its changes are counted.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn end_shard(&self, seen: &Mark, at: Timestamp) -> Result<Counted, UsageError> {
        let ended = Mark { at, ended: true, ..seen.clone() };
        let is_ended = self.transact(vec![ended.write(&self.table, seen)?]).await?;
        Ok(if is_ended { Counted::Upto(ended) } else { Counted::Fenced })
    }

    /// Deletes the mark of a shard that the stream no longer contains.
    ///
    /// # Errors
    /// If the table is unavailable.
    pub async fn forget_shard(&self, mark: &Mark) -> Result<(), UsageError> {
        let key = key_of(key::MARK, &mark.shard);
        let delete = self.dynamodb.delete_item().table_name(&self.table).set_key(Some(key));
        delete.send().await.map(drop).map_err(UsageError::unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_moves_only_from_what_was_seen() {
        let at = "2026-11-27T02:30:00Z".parse().unwrap();
        let new = Mark::new("shardId-1".to_owned(), at);
        let moved = Mark { sequence: Some("42".to_owned()), ..new.clone() };
        let ended = Mark { ended: true, ..moved.clone() };
        for mark in [&new, &moved, &ended] {
            assert_eq!(Mark::read(&mark.item()).unwrap(), *mark);
        }
        let condition = |seen: &Mark| {
            let write = moved.write("usage", seen).unwrap();
            write.put().unwrap().condition_expression().unwrap().to_owned()
        };
        assert_eq!(condition(&new), "attribute_not_exists(#sequence)");
        assert_eq!(condition(&moved), "#sequence = :seen");
    }
}
