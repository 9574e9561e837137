//! Sum of a run's tallies, which are the stored counts of each worker and minute.

use std::time::Duration;

use attempt::Retryable as _;
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::TryFutureExt as _;
use tokio::time::Instant;
use uuid::Uuid;

use super::key::{of_run, partitions};
use crate::store::item::text;
use crate::store::{Item, LONGEST, TestStore, TestStoreError};
use crate::{Sum, Tally};

/// Pauses between two attempts to read a page of tallies (the workers' counts): first pause, and
/// longest pause. The pause doubles with each further attempt. Each attempt includes the SDK's own
/// retries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// Sum of a run's tallies (counts of each worker and minute), built from items that are read in the
/// order of their keys.
#[derive(Debug, Default)]
struct Reader {
    sum: Sum,
    bytes: usize,
    /// Number of pages of items that were read so far.
    pages: usize,
    /// True if the counts of a worker in some minute could not be read, or not all parts of them
    /// were found, so that the sum lacks them.
    is_incomplete: bool,
    /// Counts of a worker in one minute that are stored in several items, while these items are
    /// being read; `None` at other times.
    open: Option<InParts>,
}

/// Counts of a worker in one minute (tally) that are stored in several items, as far as these items
/// have been read.
#[derive(Debug)]
struct InParts {
    name: String,
    /// Number of the write that stored the counts. Items with another number are left over from an
    /// earlier write, or belong to a newer one.
    written: AttributeValue,
    /// Number of the tally's items that are not read yet.
    left: usize,
    bytes: Vec<u8>,
}

impl TestStore {
    /// Adds up the tallies (counts of each worker and minute) of a run. Also returns true if the
    /// sum is complete. It is not if a tally was unreadable (which is logged), or was being
    /// rewritten in several items at the time, or is beyond a limit: reading ends after
    /// `most_bytes` bytes of tallies or after the time `within`. Until then, transient errors are
    /// retried.
    ///
    /// # Errors
    /// If the table does not return a single page in time, or refuses a request.
    pub async fn sum(
        &self,
        test_id: Uuid,
        run: u32,
        most_bytes: usize,
        within: Duration,
    ) -> Result<(Sum, bool), TestStoreError> {
        let begin = Instant::now();
        let until = begin.checked_add(within.min(LONGEST)).unwrap_or(begin);
        let mut reader = Reader::default();
        for partition in partitions(test_id) {
            let query = self
                .dynamodb
                .query()
                .table_name(&self.table)
                .key_condition_expression("pk = :pk AND begins_with(sk, :run)")
                .expression_attribute_values(":pk", text(partition))
                .expression_attribute_values(":run", text(of_run(run)))
                .projection_expression("sk, tally, parts, written")
                .consistent_read(true);
            let mut from = None;
            loop {
                let request = query.clone().set_exclusive_start_key(from);
                let read = move || request.clone().send().map_err(TestStoreError::unavailable);
                let page = match persist(until, read).await {
                    Ok(page) => page,
                    Err(error) if reader.pages > 0 && error.retry().is_transient() => {
                        return Ok((reader.sum, false));
                    }
                    Err(error) => return Err(error),
                };
                reader.pages = reader.pages.saturating_add(1);
                for item in page.items.unwrap_or_default() {
                    if reader.bytes >= most_bytes {
                        return Ok((reader.sum, false));
                    }
                    reader.read(&item);
                }
                from = page.last_evaluated_key;
                if from.is_none() {
                    break;
                }
            }
            reader.close();
        }
        Ok((reader.sum, !reader.is_incomplete))
    }
}

/// Repeats an operation until it succeeds, or fails with an error that no retry can help. Returns
/// the last error if there is no time for a further attempt before `until`.
async fn persist<T, F>(until: Instant, operation: impl Fn() -> F) -> Result<T, TestStoreError>
where
    F: Future<Output = Result<T, TestStoreError>>,
{
    if until <= Instant::now() {
        // A timer takes up to a millisecond to end, in which a table may answer.
        return Err(TestStoreError::Unavailable("no time was left to ask for it".into()));
    }
    let (mut pause, longest) = PAUSES;
    loop {
        let error = match tokio::time::timeout_at(until, operation()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => error,
            Err(elapsed) => return Err(TestStoreError::Unavailable(elapsed.into())),
        };
        if !error.retry().is_transient() || until.saturating_duration_since(Instant::now()) <= pause {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(longest);
    }
}

impl Reader {
    fn read(&mut self, item: &Item) {
        let name = item.get("sk").and_then(|name| name.as_s().ok()).map(String::as_str).unwrap_or_default();
        let tally = bytes(item);
        if name.contains("#part") {
            return self.read_part(item.get("written"), tally.unwrap_or_default());
        }
        self.close();
        let parts = item.get("parts").and_then(|parts| parts.as_n().ok()?.parse().ok());
        match (tally, parts, item.get("written")) {
            (Some(tally), _, _) => self.add(name, tally),
            (None, Some(left), Some(written)) => {
                let (name, written) = (name.to_owned(), written.clone());
                self.open = Some(InParts { name, written, left, bytes: Vec::new() });
            }
            // The step was claimed, or superseded, and has counted nothing.
            (None, ..) => {}
        }
    }

    fn read_part(&mut self, written: Option<&AttributeValue>, part: &[u8]) {
        let Some(open) = self.open.as_mut().filter(|open| Some(&open.written) == written) else { return };
        if let Some(left) = open.left.checked_sub(1) {
            open.left = left;
            open.bytes.extend_from_slice(part);
        }
    }

    /// Adds the counts of a worker in one minute, after the last of their items was read. If an
    /// item is missing, records that the sum lacks these counts.
    fn close(&mut self) {
        match self.open.take() {
            Some(InParts { name, left: 0, bytes, .. }) => self.add(&name, &bytes),
            Some(_) => self.is_incomplete = true,
            None => {}
        }
    }

    fn add(&mut self, name: &str, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len());
        match Tally::from_bytes(bytes) {
            Ok(tally) => self.sum.add(&tally),
            Err(error) => {
                self.is_incomplete = true;
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::error!(
                    event_type = "load_test.tally_unreadable",
                    step = name,
                    error,
                    "the tally of step `{name}` is left out of the sum: {error}"
                );
            }
        }
    }
}

fn bytes(item: &Item) -> Option<&[u8]> {
    match item.get("tally")? {
        AttributeValue::B(tally) => Some(tally.as_ref()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use aws_sdk_dynamodb::primitives::Blob;

    use super::*;
    use crate::store::item::{named, number};
    use crate::store::steps::key::StepKey;
    use crate::{LateReason, Micros, Step, Window};

    fn step(worker: u32) -> Step {
        Step { lane: format!("p{worker}a").parse().unwrap(), window: Window::new(0), attempt: 0 }
    }

    fn tally(worker: u32) -> Tally {
        let mut tally = Tally::new(step(worker), Micros::ZERO, 4, Micros::ZERO);
        for index in 0..100 {
            tally.sent(u64::from(worker) + 4 * index, Micros::ZERO, Micros::new(index), LateReason::Producer);
        }
        tally
    }

    fn item(key: &StepKey, attributes: Vec<(&'static str, AttributeValue)>) -> Item {
        let mut item = key.item();
        item.extend(named(attributes));
        item
    }

    /// Returns the items of a step whose counts are stored in parts of 20 bytes, as the write with
    /// the number `written` stored them.
    fn in_parts(worker: u32, written: u64) -> Vec<Item> {
        let key = StepKey::of(Uuid::nil(), 0, step(worker));
        let bytes = tally(worker).to_bytes().unwrap();
        let parts = bytes.chunks(20);
        let head = item(&key, vec![("parts", number(parts.len())), ("written", number(written))]);
        let part = |(part, index): (&[u8], u32)| {
            let part = AttributeValue::B(Blob::new(part));
            item(&key.part(index), vec![("tally", part), ("written", number(written))])
        };
        std::iter::once(head).chain(parts.zip(0..).map(part)).collect()
    }

    fn single(worker: u32) -> Item {
        let tally = AttributeValue::B(Blob::new(tally(worker).to_bytes().unwrap()));
        item(&StepKey::of(Uuid::nil(), 0, step(worker)), vec![("tally", tally), ("written", number(3))])
    }

    fn read(items: impl IntoIterator<Item = Item>) -> Reader {
        let mut reader = Reader::default();
        for item in items {
            reader.read(&item);
        }
        reader.close();
        reader
    }

    fn sum(workers: impl IntoIterator<Item = u32>) -> Sum {
        let mut sum = Sum::default();
        for worker in workers {
            sum.add(&tally(worker));
        }
        sum
    }

    #[test]
    fn a_tally_in_parts_counts_like_one_in_one_item() {
        let claimed = item(&StepKey::of(Uuid::nil(), 0, step(9)), vec![("written", number(0))]);
        let parts = in_parts(1, 7);
        assert!(parts.len() > 3);
        let items = [vec![single(0)], parts, vec![claimed, single(2)]].concat();
        let reader = read(items);
        assert_eq!((reader.sum, reader.is_incomplete), (sum(0..3), false));
    }

    #[test]
    fn parts_that_another_write_left_are_passed_over() {
        let (mut items, older) = (in_parts(0, 7), in_parts(0, 6));
        let mut beyond = older.last().unwrap().clone();
        let key = StepKey::of(Uuid::nil(), 0, step(0)).part(90);
        beyond.extend(key.item());
        items.push(beyond.clone());
        let reader = read(items);
        assert_eq!((reader.sum, reader.is_incomplete), (sum([0]), false));
        let reader = read([single(0), beyond]);
        assert_eq!((reader.sum, reader.is_incomplete), (sum([0]), false));
    }

    #[test]
    fn a_tally_that_is_stored_meanwhile_or_damaged_is_left_out_and_said_to_be() {
        let mut mixed = in_parts(0, 7);
        mixed.truncate(2);
        mixed.extend(in_parts(0, 8).into_iter().skip(2));
        let reader = read(mixed.into_iter().chain([single(1)]));
        assert_eq!((reader.sum, reader.is_incomplete), (sum([1]), true));
        let mut damaged = single(0);
        damaged.insert("tally".to_owned(), AttributeValue::B(Blob::new(vec![1, 2, 3])));
        let reader = read([damaged, single(1)]);
        assert_eq!((reader.sum, reader.is_incomplete), (sum([1]), true));
    }

    /// Calls [`persist`] with a time limit of 300 ms and an operation that fails `failures` times.
    /// Returns the result, and the number of calls of the operation.
    async fn persisted(failures: u32, error: fn() -> TestStoreError) -> (Result<(), TestStoreError>, u32) {
        let calls = Cell::new(0);
        let until = Instant::now() + Duration::from_millis(300);
        let result = persist(until, || {
            calls.set(calls.get() + 1);
            ready(if calls.get() > failures { Ok(()) } else { Err(error()) })
        });
        (result.await, calls.get())
    }

    #[tokio::test]
    async fn a_page_is_read_again_until_it_is_there_is_refused_or_the_time_is_over() {
        let out = || TestStoreError::Unavailable("out".into());
        let refused = || TestStoreError::Refused("refused".into());
        assert!(matches!(persisted(1, out).await, (Ok(()), 2)));
        assert!(matches!(persisted(9, out).await, (Err(TestStoreError::Unavailable(_)), 2)));
        assert!(matches!(persisted(1, refused).await, (Err(TestStoreError::Refused(_)), 1)));
    }

    #[tokio::test]
    async fn a_request_without_an_answer_ends_with_the_time() {
        let begin = Instant::now();
        let ended = persist(begin + Duration::from_millis(50), pending::<Result<(), _>>).await;
        assert!(matches!(ended, Err(TestStoreError::Unavailable(_))), "{ended:?}");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
