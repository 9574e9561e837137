//! Tests of reading the stream, with a stream and a usage table in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use aws_sdk_dynamodb::types::AttributeValue;
use usage::MeteringState;

use super::*;

/// Shard of the stream in memory.
#[derive(Clone, Default)]
struct Part {
    parent: Option<&'static str>,
    changes: Vec<Change>,
    is_closed: bool,
    /// Number of the shard's oldest changes that the stream has dropped.
    forgotten: usize,
}

#[derive(Default)]
struct MemoryStream {
    parts: BTreeMap<&'static str, Part>,
    /// Number of empty responses that precede the first changes of each new iterator.
    hesitates: u32,
}

impl MemoryStream {
    fn of<const N: usize>(parts: [(&'static str, Part); N]) -> Self {
        Self { parts: parts.into(), hesitates: 0 }
    }
}

/// Maximum number of changes in one response of the stream in memory.
const PAGE: usize = 3;

impl Stream for MemoryStream {
    async fn shards(&self) -> Result<Vec<Shard>, StreamError> {
        let shard = |(id, part): (&&str, &Part)| Shard {
            id: (*id).to_owned(),
            parent: part.parent.map(str::to_owned),
            is_closed: part.is_closed,
        };
        Ok(self.parts.iter().map(shard).collect())
    }

    async fn iterator(&self, shard: &str, start: Start<'_>) -> Result<String, StreamError> {
        let Part { changes, forgotten, .. } = &self.parts[shard];
        let at = match start {
            Start::Oldest => *forgotten,
            Start::After(sequence) => {
                let read = changes.iter().take_while(|change| !is_after(&change.sequence, sequence)).count();
                if read <= *forgotten && *forgotten > 0 {
                    return Err(StreamError::Trimmed);
                }
                read
            }
        };
        Ok(format!("{shard} {at} {}", self.hesitates))
    }

    async fn page(&self, iterator: String) -> Result<Page, StreamError> {
        let parts: Vec<&str> = iterator.split(' ').collect();
        let (shard, at, empty) =
            (parts[0], parts[1].parse::<usize>().unwrap(), parts[2].parse::<u32>().unwrap());
        if empty > 0 {
            let next = Some(format!("{shard} {at} {}", empty - 1));
            return Ok(Page { changes: Vec::new(), next });
        }
        let part = &self.parts[shard];
        let changes: Vec<Change> = part.changes.iter().skip(at).take(PAGE).cloned().collect();
        let after = at + changes.len();
        let is_end = part.is_closed && after == part.changes.len();
        Ok(Page { changes, next: (!is_end).then(|| format!("{shard} {after} 0")) })
    }
}

#[derive(Default)]
struct Kept {
    positions: BTreeMap<String, ShardPosition>,
    /// Sequence numbers of the counted changes, in the order in which they were counted.
    counted: Vec<String>,
    gaps: Vec<Gap>,
    counted_from: Option<Timestamp>,
    read_until: Option<Timestamp>,
    /// Number of transactions after which the usage table fails; `None` if it never does.
    fails_after: Option<usize>,
    /// Position of a shard and counted changes which another invocation writes before the next
    /// transaction; `None` if there is no other.
    other_invocation: Option<(ShardPosition, Vec<String>)>,
}

#[derive(Default)]
struct MemoryTable(Mutex<Kept>);

/// Maximum number of changes that one transaction of the usage table in memory counts.
const PORTION: usize = 2;

impl MemoryTable {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }

    /// Stores a shard's new position in place of `seen`, and adds counted changes. Returns false if
    /// the stored position is not `seen`.
    fn put(&self, seen: &ShardPosition, position: &ShardPosition, counted: Vec<String>) -> bool {
        let mut kept = self.kept();
        if let Some((position, counted)) = kept.other_invocation.take() {
            kept.counted.extend(counted);
            kept.positions.insert(position.shard.clone(), position);
        }
        let stored = kept.positions.get(&position.shard).and_then(|stored| stored.sequence.as_ref());
        if stored != seen.sequence.as_ref() {
            return false;
        }
        kept.counted.extend(counted);
        kept.positions.insert(position.shard.clone(), position.clone());
        true
    }
}

fn away() -> UsageError {
    UsageError::Unavailable("the table is away".into())
}

impl CountingTable for MemoryTable {
    async fn begin(&self, now: Timestamp) -> Result<(), UsageError> {
        self.kept().counted_from.get_or_insert(now);
        Ok(())
    }

    async fn state(&self) -> Result<MeteringState, UsageError> {
        let kept = self.kept();
        Ok(MeteringState {
            read_until: kept.read_until,
            counted_from: kept.counted_from,
            ..MeteringState::default()
        })
    }

    async fn targets(&self) -> Result<Targets, UsageError> {
        Ok(Targets::default())
    }

    async fn positions(&self) -> Result<Vec<ShardPosition>, UsageError> {
        Ok(self.kept().positions.values().cloned().collect())
    }

    async fn count(
        &self,
        seen: &ShardPosition,
        changes: &[Change],
        _targets: &mut Targets,
    ) -> Result<PositionUpdate, UsageError> {
        let mut seen = seen.clone();
        for portion in changes.chunks(PORTION) {
            if let Some(left) = &mut self.kept().fails_after {
                *left = left.checked_sub(1).ok_or_else(away)?;
            }
            let last = portion.last().unwrap();
            let next = ShardPosition { sequence: Some(last.sequence.clone()), at: last.at, ..seen.clone() };
            let counted = portion.iter().map(|change| change.sequence.clone()).collect();
            if !self.put(&seen, &next, counted) {
                return Ok(PositionUpdate::Fenced);
            }
            seen = next;
        }
        Ok(PositionUpdate::Upto(seen))
    }

    async fn end_shard(&self, seen: &ShardPosition, at: Timestamp) -> Result<PositionUpdate, UsageError> {
        let position = ShardPosition { at, ended: true, ..seen.clone() };
        let is_ended = self.put(seen, &position, Vec::new());
        Ok(if is_ended { PositionUpdate::Upto(position) } else { PositionUpdate::Fenced })
    }

    async fn forget_shard(&self, position: &ShardPosition) -> Result<(), UsageError> {
        self.kept().positions.remove(&position.shard);
        Ok(())
    }

    async fn note_gap(&self, gap: &Gap) -> Result<(), UsageError> {
        self.kept().gaps.push(*gap);
        Ok(())
    }

    async fn read_until(&self, at: Timestamp) -> Result<(), UsageError> {
        self.kept().read_until = Some(at);
        Ok(())
    }
}

fn at(time: &str) -> Timestamp {
    format!("2026-11-{time}Z").parse().unwrap()
}

fn noon() -> Timestamp {
    at("27T12:00:00")
}

fn changes(numbers: impl IntoIterator<Item = u64>) -> Vec<Change> {
    let new = || HashMap::from([("pk".to_owned(), AttributeValue::S("PROBE".to_owned()))]);
    let change = |number: u64| Change {
        sequence: number.to_string(),
        at: at("27T11:00:00"),
        old: None,
        new: Some(new()),
    };
    numbers.into_iter().map(change).collect()
}

fn open(numbers: impl IntoIterator<Item = u64>) -> Part {
    Part { changes: changes(numbers), ..Part::default() }
}

fn closed(numbers: impl IntoIterator<Item = u64>) -> Part {
    Part { is_closed: true, ..open(numbers) }
}

fn child_of(parent: &'static str, part: Part) -> Part {
    Part { parent: Some(parent), ..part }
}

async fn run(stream: &MemoryStream, table: &MemoryTable, now: Timestamp) -> Result<Reading, ReadError> {
    run_from(&CachedIterators::default(), stream, table, now).await
}

async fn run_from(
    iterators: &CachedIterators,
    stream: &MemoryStream,
    table: &MemoryTable,
    now: Timestamp,
) -> Result<Reading, ReadError> {
    read(stream, table, iterators, now, Deadline::after(Duration::from_mins(1))).await
}

fn numbers(range: impl IntoIterator<Item = u64>) -> Vec<String> {
    range.into_iter().map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn every_change_is_counted_once_whatever_the_runs() {
    let table = MemoryTable::default();
    for last in [9, 9, 14] {
        let stream = MemoryStream::of([("a", open(1..=last))]);
        let reading = run(&stream, &table, noon()).await.unwrap();
        assert_eq!(reading.read_until, Some(noon()));
    }
    assert_eq!(table.kept().counted, numbers(1..=14));
    let kept = table.kept();
    assert_eq!((kept.gaps.len(), kept.read_until), (0, Some(noon())));
}

#[tokio::test]
async fn an_empty_stream_and_an_empty_shard_are_read_to_their_tips() {
    let table = MemoryTable::default();
    for stream in [MemoryStream::default(), MemoryStream::of([("a", open([]))])] {
        let reading = run(&stream, &table, noon()).await.unwrap();
        assert_eq!(reading, Reading { read_until: Some(noon()), ..Reading::default() });
    }
}

#[tokio::test]
async fn an_empty_answer_is_not_the_tip() {
    let table = MemoryTable::default();
    let stream = MemoryStream { hesitates: EMPTY_AT_TIP - 1, ..MemoryStream::of([("a", open(1..=2))]) };
    run(&stream, &table, noon()).await.unwrap();
    assert_eq!(table.kept().counted, numbers(1..=2));
}

#[tokio::test]
async fn runs_get_through_empty_answers_together_and_a_closed_shard_is_read_to_its_end() {
    let (table, iterators) = (MemoryTable::default(), CachedIterators::default());
    let stream = MemoryStream { hesitates: EMPTY_AT_TIP + 1, ..MemoryStream::of([("a", open(1..=2))]) };
    for counted in [numbers([]), numbers(1..=2)] {
        run_from(&iterators, &stream, &table, noon()).await.unwrap();
        assert_eq!(table.kept().counted, counted);
    }
    // The cached iterator is behind these changes, and each change comes once.
    let stream = MemoryStream::of([("a", open(1..=5))]);
    run_from(&iterators, &stream, &table, noon()).await.unwrap();
    assert_eq!(table.kept().counted, numbers(1..=5));
    // Another run has moved the position, so the cached iterator is of no use.
    let stored = table.kept().positions["a"].clone();
    let moved = ShardPosition { sequence: Some("7".to_owned()), ..stored };
    table.kept().positions.insert("a".to_owned(), moved);
    run_from(&iterators, &MemoryStream::of([("a", open(1..=8))]), &table, noon()).await.unwrap();
    assert_eq!(table.kept().counted, numbers([1, 2, 3, 4, 5, 8]));

    let table = MemoryTable::default();
    let stream = MemoryStream { hesitates: EMPTY_AT_TIP + 1, ..MemoryStream::of([("a", closed(1..=2))]) };
    run(&stream, &table, noon()).await.unwrap();
    assert!(table.kept().positions["a"].ended);
}

#[tokio::test]
async fn a_child_is_read_after_the_end_of_its_parent() {
    let table = MemoryTable::default();
    // The child comes first by its name.
    let parts =
        [("a", child_of("b", open(8..=9))), ("b", closed(1..=7)), ("c", child_of("gone", open([20])))];
    let reading = run(&MemoryStream::of(parts), &table, noon()).await.unwrap();
    let mut order = table.kept().counted.clone();
    order.retain(|number| number != "20");
    assert_eq!(order, numbers(1..=9));
    assert_eq!((reading.changes, reading.read_until), (10, Some(noon())));
    assert!(table.kept().positions["b"].ended);
}

#[tokio::test]
async fn a_child_waits_while_its_parent_is_open_and_a_closed_shard_may_be_empty() {
    let table = MemoryTable::default();
    let parts = [("a", child_of("b", open([8]))), ("b", open([1]))];
    let reading = run(&MemoryStream::of(parts), &table, noon()).await.unwrap();
    assert_eq!((table.kept().counted.clone(), reading.read_until), (numbers([1]), None));
    let parts = [("a", child_of("b", open([8]))), ("b", child_of("c", closed([1]))), ("c", closed([]))];
    let reading = run(&MemoryStream::of(parts), &table, noon()).await.unwrap();
    assert_eq!((table.kept().counted.clone(), reading.read_until), (numbers([1, 8]), Some(noon())));
}

#[tokio::test]
async fn a_run_that_dies_between_portions_has_counted_whole_ones() {
    let table = MemoryTable::default();
    let stream = MemoryStream::of([("a", open(1..=9))]);
    table.kept().fails_after = Some(3);
    let died = run(&stream, &table, noon()).await;
    assert!(matches!(died, Err(ReadError::UsageTable(_))), "{died:?}");
    {
        let mut kept = table.kept();
        assert_eq!((kept.counted.clone(), kept.read_until), (numbers(1..=5), None));
        kept.fails_after = None;
    }
    run(&stream, &table, noon()).await.unwrap();
    assert_eq!(table.kept().counted, numbers(1..=9));
}

#[tokio::test]
async fn a_run_beside_another_one_goes_on_behind_what_that_one_counted() {
    let table = MemoryTable::default();
    let stream = MemoryStream::of([("a", open(1..=9))]);
    let sequence = Some("4".to_owned());
    let position = ShardPosition { shard: "a".to_owned(), sequence, at: noon(), ended: false };
    table.kept().other_invocation = Some((position, numbers(1..=4)));
    let reading = run(&stream, &table, noon()).await.unwrap();
    assert_eq!((reading.changes, reading.read_until), (5, Some(noon())));
    assert_eq!(table.kept().counted, numbers(1..=9));
}

#[tokio::test]
async fn a_run_whose_time_is_over_leaves_the_rest_to_the_next() {
    let table = MemoryTable::default();
    let stream = MemoryStream::of([("a", open(1..=9))]);
    let iterators = CachedIterators::default();
    let reading = read(&stream, &table, &iterators, noon(), Deadline::after(Duration::ZERO)).await.unwrap();
    assert_eq!((reading, table.kept().read_until), (Reading::default(), None));
}

#[tokio::test]
async fn changes_that_the_stream_forgot_while_nobody_read_are_a_gap() {
    let table = MemoryTable::default();
    run(&MemoryStream::of([("a", open(1..=3))]), &table, noon()).await.unwrap();
    let stream = MemoryStream::of([("a", Part { forgotten: 5, ..open(1..=9) })]);
    let later = at("28T12:30:00");
    let reading = run(&stream, &table, later).await.unwrap();
    assert_eq!((reading.gaps, reading.read_until), (1, Some(later)));
    assert_eq!(table.kept().gaps, [Gap::of_stream(noon(), later)]);
    assert_eq!(table.kept().counted, numbers([1, 2, 3, 6, 7, 8, 9]));
}

#[tokio::test]
async fn an_idle_shard_whose_last_change_was_forgotten_is_no_gap() {
    let table = MemoryTable::default();
    run(&MemoryStream::of([("a", open(1..=3))]), &table, noon()).await.unwrap();
    let stream = MemoryStream::of([("a", Part { forgotten: 3, ..open(1..=5) })]);
    let reading = run(&stream, &table, at("28T11:00:00")).await.unwrap();
    assert_eq!((reading.gaps, table.kept().counted.clone()), (0, numbers(1..=5)));
}

#[tokio::test]
async fn a_shard_that_is_gone_before_its_end_was_read_is_a_gap() {
    let table = MemoryTable::default();
    run(&MemoryStream::of([("a", open([1])), ("b", closed([2]))]), &table, noon()).await.unwrap();
    let later = at("27T12:01:00");
    let reading = run(&MemoryStream::default(), &table, later).await.unwrap();
    assert_eq!((reading.gaps, reading.read_until), (1, Some(later)));
    assert_eq!(table.kept().gaps, [Gap::of_stream(noon(), later)]);
    assert!(table.kept().positions.is_empty(), "the position of a shard that ended goes without a gap");
    let reading = run(&MemoryStream::default(), &table, later).await.unwrap();
    assert_eq!((reading.gaps, table.kept().gaps.len()), (0, 1));
}

#[test]
fn numbers_of_changes_have_no_bound() {
    assert!(is_after(
        "100000000000000000000000000000000000000002",
        "99999999999999999999999999999999999999999"
    ));
    assert!(is_after("0010", "9") && !is_after("9", "9") && !is_after("9", "10"));
}
