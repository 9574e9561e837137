//! Runs over a stream and a ledger in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use aws_sdk_dynamodb::types::AttributeValue;
use usage::State;

use super::*;

/// Shard of a stream in memory.
#[derive(Clone, Default)]
struct Part {
    parent: Option<&'static str>,
    changes: Vec<Change>,
    is_closed: bool,
    /// Number of changes at the beginning that the stream has dropped.
    forgotten: usize,
}

#[derive(Default)]
struct MemoryStream {
    parts: BTreeMap<&'static str, Part>,
    /// Number of empty responses before the first change of each shard.
    hesitates: u32,
}

impl MemoryStream {
    fn of<const N: usize>(parts: [(&'static str, Part); N]) -> Self {
        Self { parts: parts.into(), hesitates: 0 }
    }
}

/// Maximum number of changes on a page of the stream in memory.
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
    marks: BTreeMap<String, Mark>,
    /// Sequence numbers of the counted changes, in the order in which they were counted.
    counted: Vec<String>,
    gaps: Vec<Gap>,
    counted_from: Option<Timestamp>,
    read_until: Option<Timestamp>,
    /// Number of transactions after which the ledger fails; `None` if it never does.
    fails_after: Option<usize>,
    /// Mark that another invocation writes before the next transaction, with the changes that it
    /// counts.
    other_run: Option<(Mark, Vec<String>)>,
}

#[derive(Default)]
struct MemoryLedger(Mutex<Kept>);

/// Maximum number of changes that one transaction of the ledger in memory counts.
const PORTION: usize = 2;

impl MemoryLedger {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }

    /// Replaces the mark `seen` of a shard, and counts changes. Returns false if the shard has
    /// another mark.
    fn put(&self, seen: &Mark, mark: &Mark, counted: Vec<String>) -> bool {
        let mut kept = self.kept();
        if let Some((mark, counted)) = kept.other_run.take() {
            kept.counted.extend(counted);
            kept.marks.insert(mark.shard.clone(), mark);
        }
        if kept.marks.get(&mark.shard).and_then(|mark| mark.sequence.as_ref()) != seen.sequence.as_ref() {
            return false;
        }
        kept.counted.extend(counted);
        kept.marks.insert(mark.shard.clone(), mark.clone());
        true
    }
}

fn away() -> UsageError {
    UsageError::Unavailable("the table is away".into())
}

impl Ledger for MemoryLedger {
    async fn begin(&self, now: Timestamp) -> Result<(), UsageError> {
        self.kept().counted_from.get_or_insert(now);
        Ok(())
    }

    async fn state(&self) -> Result<State, UsageError> {
        let kept = self.kept();
        Ok(State { read_until: kept.read_until, counted_from: kept.counted_from, ..State::default() })
    }

    async fn targets(&self) -> Result<Targets, UsageError> {
        Ok(Targets::default())
    }

    async fn marks(&self) -> Result<Vec<Mark>, UsageError> {
        Ok(self.kept().marks.values().cloned().collect())
    }

    async fn count(
        &self,
        seen: &Mark,
        changes: &[Change],
        _targets: &mut Targets,
    ) -> Result<Counted, UsageError> {
        let mut seen = seen.clone();
        for portion in changes.chunks(PORTION) {
            if let Some(left) = &mut self.kept().fails_after {
                *left = left.checked_sub(1).ok_or_else(away)?;
            }
            let last = portion.last().unwrap();
            let mark = Mark { sequence: Some(last.sequence.clone()), at: last.at, ..seen.clone() };
            let counted = portion.iter().map(|change| change.sequence.clone()).collect();
            if !self.put(&seen, &mark, counted) {
                return Ok(Counted::Fenced);
            }
            seen = mark;
        }
        Ok(Counted::Upto(seen))
    }

    async fn end_shard(&self, seen: &Mark, at: Timestamp) -> Result<Counted, UsageError> {
        let mark = Mark { at, ended: true, ..seen.clone() };
        let is_ended = self.put(seen, &mark, Vec::new());
        Ok(if is_ended { Counted::Upto(mark) } else { Counted::Fenced })
    }

    async fn forget_shard(&self, mark: &Mark) -> Result<(), UsageError> {
        self.kept().marks.remove(&mark.shard);
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

async fn run(stream: &MemoryStream, ledger: &MemoryLedger, now: Timestamp) -> Result<Reading, ReadError> {
    run_from(&Places::default(), stream, ledger, now).await
}

async fn run_from(
    places: &Places,
    stream: &MemoryStream,
    ledger: &MemoryLedger,
    now: Timestamp,
) -> Result<Reading, ReadError> {
    read(stream, ledger, places, now, Deadline::after(Duration::from_mins(1))).await
}

fn numbers(range: impl IntoIterator<Item = u64>) -> Vec<String> {
    range.into_iter().map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn every_change_is_counted_once_whatever_the_runs() {
    let ledger = MemoryLedger::default();
    for last in [9, 9, 14] {
        let stream = MemoryStream::of([("a", open(1..=last))]);
        let reading = run(&stream, &ledger, noon()).await.unwrap();
        assert_eq!(reading.read_until, Some(noon()));
    }
    assert_eq!(ledger.kept().counted, numbers(1..=14));
    let kept = ledger.kept();
    assert_eq!((kept.gaps.len(), kept.read_until), (0, Some(noon())));
}

#[tokio::test]
async fn an_empty_stream_and_an_empty_shard_are_read_to_their_tips() {
    let ledger = MemoryLedger::default();
    for stream in [MemoryStream::default(), MemoryStream::of([("a", open([]))])] {
        let reading = run(&stream, &ledger, noon()).await.unwrap();
        assert_eq!(reading, Reading { read_until: Some(noon()), ..Reading::default() });
    }
}

#[tokio::test]
async fn an_empty_answer_is_not_the_tip() {
    let ledger = MemoryLedger::default();
    let stream = MemoryStream { hesitates: EMPTY_AT_TIP - 1, ..MemoryStream::of([("a", open(1..=2))]) };
    run(&stream, &ledger, noon()).await.unwrap();
    assert_eq!(ledger.kept().counted, numbers(1..=2));
}

#[tokio::test]
async fn runs_get_through_empty_answers_together_and_a_closed_shard_is_read_to_its_end() {
    let (ledger, places) = (MemoryLedger::default(), Places::default());
    let stream = MemoryStream { hesitates: EMPTY_AT_TIP + 1, ..MemoryStream::of([("a", open(1..=2))]) };
    for counted in [numbers([]), numbers(1..=2)] {
        run_from(&places, &stream, &ledger, noon()).await.unwrap();
        assert_eq!(ledger.kept().counted, counted);
    }
    // The place is behind these changes, and each change comes once.
    let stream = MemoryStream::of([("a", open(1..=5))]);
    run_from(&places, &stream, &ledger, noon()).await.unwrap();
    assert_eq!(ledger.kept().counted, numbers(1..=5));
    // Another run has moved the mark, so the place is of no use.
    let mark = ledger.kept().marks["a"].clone();
    ledger.kept().marks.insert("a".to_owned(), Mark { sequence: Some("7".to_owned()), ..mark });
    run_from(&places, &MemoryStream::of([("a", open(1..=8))]), &ledger, noon()).await.unwrap();
    assert_eq!(ledger.kept().counted, numbers([1, 2, 3, 4, 5, 8]));

    let ledger = MemoryLedger::default();
    let stream = MemoryStream { hesitates: EMPTY_AT_TIP + 1, ..MemoryStream::of([("a", closed(1..=2))]) };
    run(&stream, &ledger, noon()).await.unwrap();
    assert!(ledger.kept().marks["a"].ended);
}

#[tokio::test]
async fn a_child_is_read_after_the_end_of_its_parent() {
    let ledger = MemoryLedger::default();
    // The child comes first by its name.
    let parts =
        [("a", child_of("b", open(8..=9))), ("b", closed(1..=7)), ("c", child_of("gone", open([20])))];
    let reading = run(&MemoryStream::of(parts), &ledger, noon()).await.unwrap();
    let mut order = ledger.kept().counted.clone();
    order.retain(|number| number != "20");
    assert_eq!(order, numbers(1..=9));
    assert_eq!((reading.changes, reading.read_until), (10, Some(noon())));
    assert!(ledger.kept().marks["b"].ended);
}

#[tokio::test]
async fn a_child_waits_while_its_parent_is_open_and_a_closed_shard_may_be_empty() {
    let ledger = MemoryLedger::default();
    let parts = [("a", child_of("b", open([8]))), ("b", open([1]))];
    let reading = run(&MemoryStream::of(parts), &ledger, noon()).await.unwrap();
    assert_eq!((ledger.kept().counted.clone(), reading.read_until), (numbers([1]), None));
    let parts = [("a", child_of("b", open([8]))), ("b", child_of("c", closed([1]))), ("c", closed([]))];
    let reading = run(&MemoryStream::of(parts), &ledger, noon()).await.unwrap();
    assert_eq!((ledger.kept().counted.clone(), reading.read_until), (numbers([1, 8]), Some(noon())));
}

#[tokio::test]
async fn a_run_that_dies_between_portions_has_counted_whole_ones() {
    let ledger = MemoryLedger::default();
    let stream = MemoryStream::of([("a", open(1..=9))]);
    ledger.kept().fails_after = Some(3);
    let died = run(&stream, &ledger, noon()).await;
    assert!(matches!(died, Err(ReadError::Ledger(_))), "{died:?}");
    {
        let mut kept = ledger.kept();
        assert_eq!((kept.counted.clone(), kept.read_until), (numbers(1..=5), None));
        kept.fails_after = None;
    }
    run(&stream, &ledger, noon()).await.unwrap();
    assert_eq!(ledger.kept().counted, numbers(1..=9));
}

#[tokio::test]
async fn a_run_beside_another_one_goes_on_behind_what_that_one_counted() {
    let ledger = MemoryLedger::default();
    let stream = MemoryStream::of([("a", open(1..=9))]);
    let sequence = Some("4".to_owned());
    let mark = Mark { shard: "a".to_owned(), sequence, at: noon(), ended: false };
    ledger.kept().other_run = Some((mark, numbers(1..=4)));
    let reading = run(&stream, &ledger, noon()).await.unwrap();
    assert_eq!((reading.changes, reading.read_until), (5, Some(noon())));
    assert_eq!(ledger.kept().counted, numbers(1..=9));
}

#[tokio::test]
async fn a_run_whose_time_is_over_leaves_the_rest_to_the_next() {
    let ledger = MemoryLedger::default();
    let stream = MemoryStream::of([("a", open(1..=9))]);
    let places = Places::default();
    let reading = read(&stream, &ledger, &places, noon(), Deadline::after(Duration::ZERO)).await.unwrap();
    assert_eq!((reading, ledger.kept().read_until), (Reading::default(), None));
}

#[tokio::test]
async fn changes_that_the_stream_forgot_while_nobody_read_are_a_gap() {
    let ledger = MemoryLedger::default();
    run(&MemoryStream::of([("a", open(1..=3))]), &ledger, noon()).await.unwrap();
    let stream = MemoryStream::of([("a", Part { forgotten: 5, ..open(1..=9) })]);
    let later = at("28T12:30:00");
    let reading = run(&stream, &ledger, later).await.unwrap();
    assert_eq!((reading.gaps, reading.read_until), (1, Some(later)));
    assert_eq!(ledger.kept().gaps, [Gap::of_stream(noon(), later)]);
    assert_eq!(ledger.kept().counted, numbers([1, 2, 3, 6, 7, 8, 9]));
}

#[tokio::test]
async fn an_idle_shard_whose_last_change_was_forgotten_is_no_gap() {
    let ledger = MemoryLedger::default();
    run(&MemoryStream::of([("a", open(1..=3))]), &ledger, noon()).await.unwrap();
    let stream = MemoryStream::of([("a", Part { forgotten: 3, ..open(1..=5) })]);
    let reading = run(&stream, &ledger, at("28T11:00:00")).await.unwrap();
    assert_eq!((reading.gaps, ledger.kept().counted.clone()), (0, numbers(1..=5)));
}

#[tokio::test]
async fn a_shard_that_is_gone_before_its_end_was_read_is_a_gap() {
    let ledger = MemoryLedger::default();
    run(&MemoryStream::of([("a", open([1])), ("b", closed([2]))]), &ledger, noon()).await.unwrap();
    let later = at("27T12:01:00");
    let reading = run(&MemoryStream::default(), &ledger, later).await.unwrap();
    assert_eq!((reading.gaps, reading.read_until), (1, Some(later)));
    assert_eq!(ledger.kept().gaps, [Gap::of_stream(noon(), later)]);
    assert!(ledger.kept().marks.is_empty(), "the mark of a shard that ended goes without a gap");
    let reading = run(&MemoryStream::default(), &ledger, later).await.unwrap();
    assert_eq!((reading.gaps, ledger.kept().gaps.len()), (0, 1));
}

#[test]
fn numbers_of_changes_have_no_bound() {
    assert!(is_after(
        "100000000000000000000000000000000000000002",
        "99999999999999999999999999999999999999999"
    ));
    assert!(is_after("0010", "9") && !is_after("9", "9") && !is_after("9", "10"));
}
