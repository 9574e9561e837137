//! Run through the stream: reads each shard from its mark to its tip, and counts the changes in
//! portions.
//!
//! The mark of a shard moves in the transaction that counts the changes before it. So a run that is
//! cut off has counted whole portions, and a run beside it cannot count one of them again: its
//! transaction fails by the mark's condition, and it goes on from the new mark.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use attempt::{Deadline, Remembered};
use jiff::Timestamp;
use usage::{Change, Counted, Gap, Mark, Targets, UsageError};

use crate::ledger::Ledger;
use crate::stream::{Page, Shard, Start, Stream, StreamError};

/// Age up to which the stream surely contains every change. DynamoDB keeps a change for 24 hours.
const KEPT: Duration = Duration::from_mins(24 * 60 - 10);

/// Number of consecutive empty responses after which the end of an open shard is assumed. DynamoDB
/// does not mark it, and also sends empty responses before it.
const EMPTY_AT_TIP: u32 = 3;
/// Maximum number of consecutive empty responses that are read of a closed shard. DynamoDB marks
/// its end.
const EMPTY_IN_CLOSED: u32 = 200;

/// Time for which a cached read position is used. DynamoDB keeps an iterator for 15 minutes.
const PLACE_HOLDS: Duration = Duration::from_mins(10);
/// Maximum number of shards whose read positions are cached.
const MOST_PLACES: usize = 10_000;

/// Maximum number of times that a run reads a shard again because another run has moved the shard's
/// mark meanwhile. Then it leaves the shard to the other run.
const MOST_FENCES: u32 = 3;

/// Reason why an invocation stopped reading the stream.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the stream of the idempotency table cannot be read")]
    Stream(#[source] StreamError),
    #[error("the usage table cannot be read or written")]
    Ledger(#[source] UsageError),
}

/// Result of reading the stream once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time up to which every change is counted; `None` if a shard was not read to its end.
    pub read_until: Option<Timestamp>,
    /// Number of changes that were counted.
    pub changes: u64,
    /// Number of gaps that were found: periods in which changes may have been lost uncounted.
    pub gaps: u64,
}

/// Result of reading one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Every change is counted that was in the shard before this reading of the stream began.
    AtTip,
    /// The shard is closed, and counted to its end.
    Ended,
    /// Some changes are not counted yet, because the time was over or another invocation is
    /// counting the shard.
    Behind,
}

/// Cached read positions by shard, from which the next run continues. DynamoDB may send many empty
/// responses before the next change. A cached position is after those that were received already,
/// so that runs of limited time reach the change in the end.
#[derive(Debug)]
pub struct Places(Remembered<String, Place>);

/// Read position in a shard: the last counted change, and the DynamoDB iterator that continues
/// after it.
#[derive(Clone, Debug)]
struct Place {
    sequence: Option<String>,
    iterator: String,
}

impl Default for Places {
    fn default() -> Self {
        Self(Remembered::new(PLACE_HOLDS, MOST_PLACES))
    }
}

impl Places {
    /// Removes a read position and returns its iterator, if `sequence` is still the last counted
    /// change. So an iterator that fails is not used twice.
    fn take(&self, shard: &str, sequence: Option<&str>) -> Option<String> {
        let place = self.0.get(shard);
        self.0.forget(shard);
        place.filter(|place| place.sequence.as_deref() == sequence).map(|place| place.iterator)
    }
}

/// State of reading the stream once.
struct Run<'a, S, L> {
    stream: &'a S,
    ledger: &'a L,
    places: &'a Places,
    began: Timestamp,
    deadline: Deadline,
    targets: Targets,
    marks: BTreeMap<String, Mark>,
    reading: Reading,
}

/// Reads all shards, parents before their children, until the end of each or until the deadline.
///
/// # Errors
/// If the stream or the usage table fails. Changes that were counted before stay counted.
pub(crate) async fn read<S: Stream, L: Ledger>(
    stream: &S,
    ledger: &L,
    places: &Places,
    began: Timestamp,
    deadline: Deadline,
) -> Result<Reading, ReadError> {
    ledger.begin(began).await.map_err(ReadError::Ledger)?;
    let state = ledger.state().await.map_err(ReadError::Ledger)?;
    let known_until = state.read_until.or(state.counted_from).unwrap_or(began);
    let targets = ledger.targets().await.map_err(ReadError::Ledger)?;
    // The marks come before the shards: a run beside this one may mark a shard that is newer.
    let marks = ledger.marks().await.map_err(ReadError::Ledger)?;
    let marks = marks.into_iter().map(|mark| (mark.shard.clone(), mark)).collect();
    let shards = stream.shards().await.map_err(ReadError::Stream)?;
    let reading = Reading::default();
    let mut run = Run { stream, ledger, places, began, deadline, targets, marks, reading };
    run.find_gaps(&shards, known_until).await.map_err(ReadError::Ledger)?;
    run.read_all(&shards).await?;
    Ok(run.reading)
}

impl<S: Stream, L: Ledger> Run<'_, S, L> {
    /// Records a gap from the last complete run until now if changes may be lost: if the stream may
    /// have dropped some, or if a shard is gone that was not counted to its end.
    async fn find_gaps(&mut self, shards: &[Shard], known_until: Timestamp) -> Result<(), UsageError> {
        let gone = |mark: &&Mark| !shards.iter().any(|shard| shard.id == mark.shard);
        let gone: Vec<Mark> = self.marks.values().filter(gone).cloned().collect();
        let silence = Duration::try_from(self.began.duration_since(known_until)).unwrap_or_default();
        if silence > KEPT || gone.iter().any(|mark| !mark.ended) {
            let gap = Gap::of_stream(known_until, self.began);
            self.ledger.note_gap(&gap).await?;
            self.reading.gaps = self.reading.gaps.saturating_add(1);
            let (from, until) = (gap.from, gap.until);
            tracing::error!(
                event_type = "usage.gap",
                %from,
                %until,
                "changes from {from} to {until} may be lost before they were counted"
            );
        }
        for mark in gone {
            self.ledger.forget_shard(&mark).await?;
            self.marks.remove(&mark.shard);
        }
        Ok(())
    }

    /// Reads the shards one after another. A shard that fails does not stop the others; the first
    /// error is returned.
    async fn read_all(&mut self, shards: &[Shard]) -> Result<(), ReadError> {
        let (mut left, mut failed) = (BTreeMap::new(), None);
        while let Some(shard) = self.next(shards, &left) {
            let outcome = self.read_shard(shard).await.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                Left::Behind
            });
            left.insert(shard.id.as_str(), outcome);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let is_read =
            |shard: &Shard| self.has_ended(&shard.id) || left.get(shard.id.as_str()) == Some(&Left::AtTip);
        if shards.iter().all(is_read) {
            self.ledger.read_until(self.began).await.map_err(ReadError::Ledger)?;
            self.reading.read_until = Some(self.began);
        }
        Ok(())
    }

    /// Returns the next shard to read, if any: not tried in this run, not counted to its end, and
    /// without a parent that is still to be read. A shard without a mark (counted position) comes
    /// first, then the shard with the oldest mark.
    fn next<'s>(&self, shards: &'s [Shard], left: &BTreeMap<&str, Left>) -> Option<&'s Shard> {
        let ids: BTreeSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
        let follows = |shard: &&Shard| {
            let parent = shard.parent.as_deref().filter(|parent| ids.contains(parent));
            parent.is_none_or(|parent| self.has_ended(parent))
        };
        let is_open = |shard: &&Shard| !left.contains_key(shard.id.as_str()) && !self.has_ended(&shard.id);
        let age = |shard: &&Shard| self.marks.get(&shard.id).map(|mark| mark.at);
        shards.iter().filter(is_open).filter(follows).min_by_key(age)
    }

    fn has_ended(&self, shard: &str) -> bool {
        self.marks.get(shard).is_some_and(|mark| mark.ended)
    }

    async fn read_shard(&mut self, shard: &Shard) -> Result<Left, ReadError> {
        for _ in 0..MOST_FENCES {
            if self.deadline.has_passed() {
                return Ok(Left::Behind);
            }
            if let Some(left) = self.read_from_mark(shard).await? {
                return Ok(left);
            }
            // Another run counted these changes. Its mark says how far.
            let marks = self.ledger.marks().await.map_err(ReadError::Ledger)?;
            let Some(mark) = marks.into_iter().find(|mark| mark.shard == shard.id) else {
                return Ok(Left::Behind);
            };
            let has_ended = mark.ended;
            self.marks.insert(shard.id.clone(), mark);
            if has_ended {
                return Ok(Left::Ended);
            }
        }
        Ok(Left::Behind)
    }

    /// Reads a shard from its mark on; `None` if another run has moved the mark meanwhile.
    async fn read_from_mark(&mut self, shard: &Shard) -> Result<Option<Left>, ReadError> {
        let Shard { id: shard, is_closed, .. } = shard;
        let most_empty = if *is_closed { EMPTY_IN_CLOSED } else { EMPTY_AT_TIP };
        let mut iterator = match self.places.take(shard, self.mark(shard).sequence.as_deref()) {
            Some(iterator) => iterator,
            None => self.iterator(shard).await?,
        };
        let mut empty = 0_u32;
        loop {
            if self.deadline.has_passed() {
                return Ok(Some(Left::Behind));
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
                let sequence = self.mark(shard).sequence;
                self.places.0.put(shard.clone(), Place { sequence, iterator });
                return Ok(Some(Left::AtTip));
            }
        }
    }

    /// Returns an iterator that begins after the shard's mark. Without a mark, or if the stream has
    /// dropped the marked change, it begins with the oldest change. The dropped changes were
    /// counted before, or `find_gaps` has recorded a gap.
    async fn iterator(&self, shard: &str) -> Result<String, ReadError> {
        let sequence = self.marks.get(shard).and_then(|mark| mark.sequence.as_deref());
        if let Some(sequence) = sequence {
            match self.stream.iterator(shard, Start::After(sequence)).await {
                Err(StreamError::Trimmed) => {}
                iterator => return iterator.map_err(ReadError::Stream),
            }
        }
        self.stream.iterator(shard, Start::Oldest).await.map_err(ReadError::Stream)
    }

    /// Counts the changes of a page that come after the mark. Returns false if another run has
    /// moved the mark.
    async fn count(&mut self, shard: &str, changes: &[Change]) -> Result<bool, ReadError> {
        let seen = self.mark(shard);
        let is_counted =
            |change: &&Change| seen.sequence.as_deref().is_some_and(|at| !is_after(&change.sequence, at));
        let counted = changes.iter().take_while(is_counted).count();
        let changes = changes.get(counted..).unwrap_or_default();
        if changes.is_empty() {
            return Ok(true);
        }
        let counting = self.ledger.count(&seen, changes, &mut self.targets).await;
        let is_counted = self.moved(counting.map_err(ReadError::Ledger)?);
        if is_counted {
            let number = u64::try_from(changes.len()).unwrap_or_default();
            self.reading.changes = self.reading.changes.saturating_add(number);
        }
        Ok(is_counted)
    }

    /// Records that a closed shard is counted to its end; `None` if another run has moved its mark.
    async fn end(&mut self, shard: &str) -> Result<Option<Left>, ReadError> {
        let ending = self.ledger.end_shard(&self.mark(shard), self.began).await;
        Ok(self.moved(ending.map_err(ReadError::Ledger)?).then_some(Left::Ended))
    }

    /// Returns the shard's mark, or a mark before its first change if nothing of it is counted.
    fn mark(&self, shard: &str) -> Mark {
        self.marks.get(shard).cloned().unwrap_or_else(|| Mark::new(shard.to_owned(), self.began))
    }

    /// Stores the new mark of a shard. Returns false if another run has moved the mark.
    fn moved(&mut self, counted: Counted) -> bool {
        match counted {
            Counted::Upto(mark) => {
                self.marks.insert(mark.shard.clone(), mark);
                true
            }
            Counted::Fenced => false,
        }
    }
}

/// Returns whether the first sequence number is after the second. They are decimal numbers of any
/// length.
fn is_after(sequence: &str, other: &str) -> bool {
    let number = |text: &str| {
        let digits = text.trim_start_matches('0');
        (digits.len(), digits.to_owned())
    };
    number(sequence) > number(other)
}

#[cfg(test)]
mod tests;
