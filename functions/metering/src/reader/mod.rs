//! Reader of the stream: reads each shard from the last counted position to its end, and counts the
//! changes in transactions.
//!
//! Each transaction counts some changes and moves the shard's position behind them. So an
//! invocation that is cut off has counted whole transactions. An invocation beside it cannot count
//! a change again: its transaction fails by the condition on the position, and it continues from
//! the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use attempt::{Deadline, Remembered};
use jiff::Timestamp;
use usage::{Change, Gap, PositionUpdate, ShardPosition, Targets, UsageError};

use crate::counting_table::CountingTable;
use crate::stream::{Page, Shard, Start, Stream, StreamError};

/// Age up to which a change is certainly still in the stream. DynamoDB keeps a change for 24 hours.
const KEPT: Duration = Duration::from_mins(24 * 60 - 10);

/// Number of consecutive empty responses after which an open shard is taken to have no further
/// changes. DynamoDB does not mark this end, and also sends empty responses before it.
const EMPTY_AT_TIP: u32 = 3;
/// Maximum number of consecutive empty responses of a closed shard that an invocation reads.
/// DynamoDB marks the end of a closed shard.
const EMPTY_IN_CLOSED: u32 = 200;

/// Time for which the cached iterator of a shard is used. DynamoDB keeps an iterator for 15
/// minutes.
const ITERATOR_HOLDS: Duration = Duration::from_mins(10);
/// Maximum number of shards whose iterators are cached.
const MOST_ITERATORS: usize = 10_000;

/// Maximum number of times that an invocation reads the same shard. It reads a shard again if
/// another invocation has counted changes of it meanwhile. After that it leaves the shard to the
/// other one.
const MOST_READS_OF_A_SHARD: u32 = 3;

/// Failure of the stream or of the usage table while an invocation reads the stream. Changes that
/// were counted before stay counted.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the stream of the idempotency table cannot be read")]
    Stream(#[source] StreamError),
    #[error("the usage table cannot be read or written")]
    UsageTable(#[source] UsageError),
}

/// Result of one invocation's reading of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time up to which every change is counted; `None` if a shard was not read to its end.
    pub read_until: Option<Timestamp>,
    /// Number of changes that this invocation counted.
    pub changes: u64,
    /// Number of gaps that this invocation found: periods in which changes may have been lost
    /// uncounted.
    pub gaps: u64,
}

/// Result of reading one shard in an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardResult {
    /// Every change is counted that the shard had when the invocation began to read the stream;
    /// more may follow.
    AtTip,
    /// The shard is closed, and counted to its end.
    Ended,
    /// Some changes of the shard are not counted yet, because the time was over, the reading
    /// failed, or another invocation is counting the shard.
    Behind,
}

/// Cached iterators by shard, from which the next invocation continues to read. DynamoDB may send
/// many empty responses before the next change. A cached iterator comes after the empty responses
/// that were received so far, so that invocations of limited time reach the change in the end.
#[derive(Debug)]
pub struct CachedIterators(Remembered<String, CachedIterator>);

/// Position at which reading of a shard continues: the sequence number of the last counted change
/// (`None` before the first one), and the DynamoDB iterator that continues after it.
#[derive(Clone, Debug)]
struct CachedIterator {
    sequence: Option<String>,
    iterator: String,
}

impl Default for CachedIterators {
    fn default() -> Self {
        Self(Remembered::new(ITERATOR_HOLDS, MOST_ITERATORS))
    }
}

impl CachedIterators {
    /// Removes a shard's iterator from the cache, so that one that fails is not used twice. Returns
    /// it if `sequence`, the last counted change, is the one that it was cached with; otherwise
    /// `None`.
    fn take(&self, shard: &str, sequence: Option<&str>) -> Option<String> {
        let cached = self.0.get(shard);
        self.0.forget(shard);
        cached.filter(|cached| cached.sequence.as_deref() == sequence).map(|cached| cached.iterator)
    }
}

/// State of one invocation's reading of the stream.
struct StreamReading<'a, S, L> {
    stream: &'a S,
    table: &'a L,
    iterators: &'a CachedIterators,
    began: Timestamp,
    deadline: Deadline,
    targets: Targets,
    positions: BTreeMap<String, ShardPosition>,
    reading: Reading,
}

/// Reads all shards and counts their changes, until the end of each shard or until the deadline. A
/// shard is read after its parent. `began` is the time at which this reading of the stream begins.
///
/// # Errors
/// If the stream or the usage table fails. Changes that were counted before stay counted.
pub(crate) async fn read<S: Stream, L: CountingTable>(
    stream: &S,
    table: &L,
    iterators: &CachedIterators,
    began: Timestamp,
    deadline: Deadline,
) -> Result<Reading, ReadError> {
    table.begin(began).await.map_err(ReadError::UsageTable)?;
    let state = table.state().await.map_err(ReadError::UsageTable)?;
    let known_until = state.read_until.or(state.counted_from).unwrap_or(began);
    let targets = table.targets().await.map_err(ReadError::UsageTable)?;
    // The positions come before the shards: a run beside this one may count a shard that is newer.
    let positions = table.positions().await.map_err(ReadError::UsageTable)?;
    let positions = positions.into_iter().map(|position| (position.shard.clone(), position)).collect();
    let shards = stream.shards().await.map_err(ReadError::Stream)?;
    let reading = Reading::default();
    let mut run = StreamReading { stream, table, iterators, began, deadline, targets, positions, reading };
    run.find_gaps(&shards, known_until).await.map_err(ReadError::UsageTable)?;
    run.read_all(&shards).await?;
    Ok(run.reading)
}

impl<S: Stream, L: CountingTable> StreamReading<'_, S, L> {
    /// Records a gap from `known_until`, the time up to which every change is counted, until now,
    /// if changes may be lost: if the stream may have dropped some, or if it no longer has a shard
    /// that was not counted to its end. Deletes the positions of shards that the stream no longer
    /// has.
    async fn find_gaps(&mut self, shards: &[Shard], known_until: Timestamp) -> Result<(), UsageError> {
        let gone = |position: &&ShardPosition| !shards.iter().any(|shard| shard.id == position.shard);
        let gone: Vec<ShardPosition> = self.positions.values().filter(gone).cloned().collect();
        let silence = Duration::try_from(self.began.duration_since(known_until)).unwrap_or_default();
        if silence > KEPT || gone.iter().any(|position| !position.ended) {
            let gap = Gap::of_stream(known_until, self.began);
            self.table.note_gap(&gap).await?;
            self.reading.gaps = self.reading.gaps.saturating_add(1);
            let (from, until) = (gap.from, gap.until);
            tracing::error!(
                event_type = "usage.gap",
                %from,
                %until,
                "changes from {from} to {until} may be lost before they were counted"
            );
        }
        for position in gone {
            self.table.forget_shard(&position).await?;
            self.positions.remove(&position.shard);
        }
        Ok(())
    }

    /// Reads the shards one after another. A shard that fails does not stop the others; the first
    /// error is returned. If all were read to their ends, records the time up to which every change
    /// is counted.
    async fn read_all(&mut self, shards: &[Shard]) -> Result<(), ReadError> {
        let (mut left, mut failed) = (BTreeMap::new(), None);
        while let Some(shard) = self.next(shards, &left) {
            let outcome = self.read_shard(shard).await.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                ShardResult::Behind
            });
            left.insert(shard.id.as_str(), outcome);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let is_read = |shard: &Shard| {
            self.has_ended(&shard.id) || left.get(shard.id.as_str()) == Some(&ShardResult::AtTip)
        };
        if shards.iter().all(is_read) {
            self.table.read_until(self.began).await.map_err(ReadError::UsageTable)?;
            self.reading.read_until = Some(self.began);
        }
        Ok(())
    }

    /// Returns the next shard to read, if any: one that this invocation has not tried (`left` has
    /// the tried ones), that is not counted to its end, and that has no parent still to be read. A
    /// shard without a position comes first, then the shard with the oldest position.
    fn next<'s>(&self, shards: &'s [Shard], left: &BTreeMap<&str, ShardResult>) -> Option<&'s Shard> {
        let ids: BTreeSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
        let follows = |shard: &&Shard| {
            let parent = shard.parent.as_deref().filter(|parent| ids.contains(parent));
            parent.is_none_or(|parent| self.has_ended(parent))
        };
        let is_open = |shard: &&Shard| !left.contains_key(shard.id.as_str()) && !self.has_ended(&shard.id);
        let age = |shard: &&Shard| self.positions.get(&shard.id).map(|position| position.at);
        shards.iter().filter(is_open).filter(follows).min_by_key(age)
    }

    fn has_ended(&self, shard: &str) -> bool {
        self.positions.get(shard).is_some_and(|position| position.ended)
    }

    async fn read_shard(&mut self, shard: &Shard) -> Result<ShardResult, ReadError> {
        for _ in 0..MOST_READS_OF_A_SHARD {
            if self.deadline.has_passed() {
                return Ok(ShardResult::Behind);
            }
            if let Some(left) = self.read_from_position(shard).await? {
                return Ok(left);
            }
            // Another run counted these changes. Its position says how far.
            let positions = self.table.positions().await.map_err(ReadError::UsageTable)?;
            let Some(position) = positions.into_iter().find(|position| position.shard == shard.id) else {
                return Ok(ShardResult::Behind);
            };
            let has_ended = position.ended;
            self.positions.insert(shard.id.clone(), position);
            if has_ended {
                return Ok(ShardResult::Ended);
            }
        }
        Ok(ShardResult::Behind)
    }

    /// Reads a shard from its position on, and counts the changes. Returns `None` if another
    /// invocation has moved the position meanwhile.
    async fn read_from_position(&mut self, shard: &Shard) -> Result<Option<ShardResult>, ReadError> {
        let Shard { id: shard, is_closed, .. } = shard;
        let most_empty = if *is_closed { EMPTY_IN_CLOSED } else { EMPTY_AT_TIP };
        let mut iterator = match self.iterators.take(shard, self.position(shard).sequence.as_deref()) {
            Some(iterator) => iterator,
            None => self.iterator(shard).await?,
        };
        let mut empty = 0_u32;
        loop {
            if self.deadline.has_passed() {
                return Ok(Some(ShardResult::Behind));
            }
            let page = match self.stream.page(iterator).await {
                // The oldest changes were dropped between the two calls.
                Err(StreamError::Trimmed) => {
                    let oldest = self.stream.iterator(shard, Start::Oldest).await;
                    self.stream.page(oldest.map_err(ReadError::Stream)?).await
                }
                page => page,
            };
            let Page { changes, next } = page.map_err(ReadError::Stream)?;
            if !self.count(shard, &changes).await? {
                return Ok(None);
            }
            let Some(next) = next else { return self.end(shard).await };
            iterator = next;
            empty = if changes.is_empty() { empty.saturating_add(1) } else { 0 };
            let is_newer = changes.last().is_some_and(|change| self.began <= change.at);
            if (is_newer && !is_closed) || empty >= most_empty {
                let sequence = self.position(shard).sequence;
                self.iterators.0.put(shard.clone(), CachedIterator { sequence, iterator });
                return Ok(Some(ShardResult::AtTip));
            }
        }
    }

    /// Returns a DynamoDB iterator that begins after the shard's position. Without a position, or
    /// if the stream has dropped the change at it, it begins with the oldest change. The dropped
    /// changes were counted before, or `find_gaps` has recorded a gap.
    async fn iterator(&self, shard: &str) -> Result<String, ReadError> {
        let sequence = self.positions.get(shard).and_then(|position| position.sequence.as_deref());
        if let Some(sequence) = sequence {
            match self.stream.iterator(shard, Start::After(sequence)).await {
                Err(StreamError::Trimmed) => {}
                iterator => return iterator.map_err(ReadError::Stream),
            }
        }
        self.stream.iterator(shard, Start::Oldest).await.map_err(ReadError::Stream)
    }

    /// Counts those of the shard's `changes` that come after its position. Returns false if another
    /// invocation has moved the position meanwhile.
    async fn count(&mut self, shard: &str, changes: &[Change]) -> Result<bool, ReadError> {
        let seen = self.position(shard);
        let is_counted =
            |change: &&Change| seen.sequence.as_deref().is_some_and(|at| !is_after(&change.sequence, at));
        let counted = changes.iter().take_while(is_counted).count();
        let changes = changes.get(counted..).unwrap_or_default();
        if changes.is_empty() {
            return Ok(true);
        }
        let counting = self.table.count(&seen, changes, &mut self.targets).await;
        let is_counted = self.moved(counting.map_err(ReadError::UsageTable)?);
        if is_counted {
            let number = u64::try_from(changes.len()).unwrap_or_default();
            self.reading.changes = self.reading.changes.saturating_add(number);
        }
        Ok(is_counted)
    }

    /// Records that a closed shard is counted to its end. Returns `None` if another invocation has
    /// moved the shard's position.
    async fn end(&mut self, shard: &str) -> Result<Option<ShardResult>, ReadError> {
        let ending = self.table.end_shard(&self.position(shard), self.began).await;
        Ok(self.moved(ending.map_err(ReadError::UsageTable)?).then_some(ShardResult::Ended))
    }

    /// Returns the shard's position, or a position before the first change if no change of the
    /// shard is counted.
    fn position(&self, shard: &str) -> ShardPosition {
        self.positions.get(shard).cloned().unwrap_or_else(|| ShardPosition::new(shard.to_owned(), self.began))
    }

    /// Keeps the new position of a shard in memory. Returns false, and keeps the old one, if
    /// another invocation has moved the position.
    fn moved(&mut self, counted: PositionUpdate) -> bool {
        match counted {
            PositionUpdate::Upto(position) => {
                self.positions.insert(position.shard.clone(), position);
                true
            }
            PositionUpdate::Fenced => false,
        }
    }
}

/// Returns whether the sequence number `sequence` is greater than `other`. Both are decimal numbers
/// of any length.
fn is_after(sequence: &str, other: &str) -> bool {
    let number = |text: &str| {
        let digits = text.trim_start_matches('0');
        (digits.len(), digits.to_owned())
    };
    number(sequence) > number(other)
}

#[cfg(test)]
mod tests;
