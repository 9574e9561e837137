//! Chunks: changes of idempotency records that one transaction counts, with the differences that it
//! adds to the usage counters.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::contribution::{Item, contribution, created_at};
use crate::counts::{COUNTERS, Counts};
use crate::key::Key;

/// Maximum number of items in a DynamoDB transaction. One of them stores the position up to which
/// the stream's shard is counted.
const MOST_ITEMS: usize = 100;
/// Maximum number of pairs of an operation and a target (such as a queue) with totals of their own,
/// in a deployment.
const MOST_TARGETS: usize = 500;
/// Name that stands in the totals for all targets beyond [`MOST_TARGETS`] together.
const OTHER: &str = "other";

/// Change of an item of the idempotency table, as a record of the table's DynamoDB stream reports
/// it.
#[derive(Clone, Debug)]
pub struct Change {
    /// Sequence number of the change in its shard of the stream.
    pub sequence: String,
    /// Time at which the change was made, to the second.
    pub at: Timestamp,
    /// Item before the change; `None` if the change created it.
    pub old: Option<Item>,
    /// Item after the change; `None` if the change deleted it.
    pub new: Option<Item>,
}

/// Differences to add to the usage counters of one item. Counters of a day or an hour may decrease:
/// if a retry completes a failed request, there is one failed request less. Totals since the
/// installation never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta([i64; COUNTERS]);

impl Delta {
    fn between(old: &Counts, new: &Counts) -> Self {
        let (old, new) = (old.values(), new.values());
        let mut delta = Self::default();
        for (to, (old, new)) in delta.0.iter_mut().zip(old.into_iter().zip(new)) {
            *to = whole(new).saturating_sub(whole(old));
        }
        delta
    }

    /// Creates the differences that add `counts`.
    pub(crate) fn adding(counts: &Counts) -> Self {
        Self::between(&Counts::default(), counts)
    }

    fn add(&mut self, other: Self) {
        for (to, from) in self.0.iter_mut().zip(other.0) {
            *to = to.saturating_add(from);
        }
    }

    /// Returns the differences with 0 in place of each negative one, for totals that never
    /// decrease.
    fn upwards(self) -> Self {
        Self(self.0.map(|number| number.max(0)))
    }

    pub(crate) fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// Returns the differences that are not 0, each with the name of its counter.
    pub(crate) fn named(self) -> impl Iterator<Item = (&'static str, i64)> {
        Counts::NAMES.into_iter().zip(self.0).filter(|(_, number)| *number != 0)
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Pairs of an operation and a target that have totals of their own. Their number is limited. So
/// arbitrary queue names in requests cannot fill the usage table and the response of `GET
/// /metrics`.
#[derive(Clone, Debug, Default)]
pub struct Targets(BTreeSet<(String, String)>);

impl Targets {
    pub(crate) fn of(known: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(known.into_iter().collect())
    }

    /// Returns the key in the usage table of an operation's totals on a target, and remembers a new
    /// target. Beyond [`MOST_TARGETS`] pairs, returns the key of the target [`OTHER`].
    fn key(&mut self, operation: &str, target: &str) -> Key {
        let pair = (operation.to_owned(), target.to_owned());
        if target.is_empty() || self.0.contains(&pair) {
            return Key::total(operation, target);
        }
        if self.0.len() >= MOST_TARGETS {
            return Key::total(operation, OTHER);
        }
        self.0.insert(pair);
        Key::total(operation, target)
    }
}

/// Changes of a stream shard that are counted in one transaction, summed up by counter.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) counters: BTreeMap<Key, Delta>,
    /// Sequence number of the chunk's last change in the stream's shard.
    pub(crate) sequence: String,
    pub(crate) at: Timestamp,
}

impl Chunk {
    /// Builds a chunk of as many changes from the beginning of `changes` as one transaction can
    /// count. Returns the chunk and the remaining changes; `None` if `changes` is empty.
    pub(crate) fn take<'a>(changes: &'a [Change], targets: &mut Targets) -> Option<(Self, &'a [Change])> {
        let (first, mut rest) = changes.split_first()?;
        let counters = additions(first, targets);
        let mut chunk = Self { counters, sequence: first.sequence.clone(), at: first.at };
        while let Some((change, others)) = rest.split_first() {
            let added = additions(change, targets);
            let further = added.keys().filter(|key| !chunk.counters.contains_key(*key)).count();
            if chunk.counters.len().saturating_add(further) >= MOST_ITEMS {
                break;
            }
            for (key, delta) in added {
                chunk.counters.entry(key).or_default().add(delta);
            }
            chunk.sequence.clone_from(&change.sequence);
            chunk.at = change.at;
            rest = others;
        }
        chunk.counters.retain(|_, delta| !delta.is_zero());
        Some((chunk, rest))
    }
}

/// Returns the differences to add to each counter for a change of an idempotency record. If the
/// record is deleted, or replaced by the record of a later request, its usage stays counted.
fn additions(change: &Change, targets: &mut Targets) -> BTreeMap<Key, Delta> {
    let mut additions: BTreeMap<Key, Delta> = BTreeMap::new();
    let Some(new) = change.new.as_ref().and_then(contribution) else { return additions };
    let is_same = |old: &&Item| created_at(old) == change.new.as_ref().and_then(created_at);
    let old = change.old.as_ref().filter(is_same).and_then(contribution);
    let mut add = |key: Key, delta: Delta| {
        if !delta.is_zero() {
            additions.entry(key).or_default().add(delta);
        }
    };
    let before = old.as_ref().map_or_else(Counts::default, |old| old.counts);
    let total = Delta::between(&before, &new.counts).upwards();
    if !total.is_zero() {
        add(targets.key(&new.line.operation, &new.target), total);
    }
    let subtracted = old.iter().map(|old| (&old.line, Delta::between(&old.counts, &Counts::default())));
    for (line, delta) in subtracted.chain([(&new.line, Delta::adding(&new.counts))]) {
        add(Key::day(line), delta);
        add(Key::hour(line), delta);
    }
    additions
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use crate::contribution::tests::image;

    const CREATED: &str = "2026-11-27T02:30:00.000Z";
    const LATER: &str = "2026-11-28T02:30:00.000Z";
    const VOLUME: &[(&str, u64)] = &[("messages", 3), ("bytes", 40), ("durationMs", 5)];

    fn change(old: Option<Item>, new: Option<Item>) -> Change {
        Change { sequence: "7".to_owned(), at: LATER.parse().unwrap(), old, new }
    }

    /// Counts the changes in chunks, and returns each counter that is not 0 by its key.
    fn counted(changes: &[Change]) -> BTreeMap<String, Vec<(&'static str, i64)>> {
        let (mut targets, mut rest) = (Targets::default(), changes);
        let mut sums: BTreeMap<Key, Delta> = BTreeMap::new();
        while let Some((chunk, others)) = Chunk::take(rest, &mut targets) {
            assert!(chunk.counters.len() < MOST_ITEMS, "the position has a place too");
            for (key, delta) in chunk.counters {
                sums.entry(key).or_default().add(delta);
            }
            rest = others;
        }
        sums.retain(|_, delta| !delta.is_zero());
        sums.into_iter()
            .map(|(key, delta)| (format!("{} {}", key.pk, key.sk), delta.named().collect()))
            .collect()
    }

    fn lines(
        day: &str,
        hour: &str,
        counts: &[(&'static str, i64)],
    ) -> BTreeMap<String, Vec<(&'static str, i64)>> {
        let line = |period: &str| (format!("{period} acme#produce#till 1"), counts.to_vec());
        BTreeMap::from([line(day), line(hour)])
    }

    fn totals(counts: &[(&'static str, i64)]) -> (String, Vec<(&'static str, i64)>) {
        ("TOTAL produce#QM1:ORDERS".to_owned(), counts.to_vec())
    }

    const DAY: (&str, &str) = ("DAY#2026-11-27", "HOUR#2026-11-27T02");
    const DONE: [(&str, i64); 3] = [("requests", 1), ("messages", 3), ("bytes", 40)];

    /// Returns the changes of one idempotency record from the claim to the expiry. The first
    /// attempt fails.
    fn life() -> Vec<Change> {
        let begun = image("IN_PROGRESS", CREATED, &[]);
        let failed = image("FAILED", CREATED, &[("messages", 1), ("bytes", 10), ("durationMs", 5)]);
        let retried = image("IN_PROGRESS", CREATED, &[("messages", 1), ("bytes", 10), ("durationMs", 5)]);
        let done = image("COMPLETED", CREATED, VOLUME);
        let states = [None, Some(begun), Some(failed), Some(retried), Some(done), None];
        states.windows(2).map(|pair| change(pair[0].clone(), pair[1].clone())).collect()
    }

    #[test]
    fn a_request_counts_once_with_the_volume_of_its_last_image() {
        let mut expected = lines(DAY.0, DAY.1, &DONE);
        expected.extend([totals(&[("requests", 1), ("failed", 1), ("messages", 3), ("bytes", 40)])]);
        assert_eq!(counted(&life()), expected);
        let mut failed =
            lines(DAY.0, DAY.1, &[("requests", 1), ("failed", 1), ("messages", 1), ("bytes", 10)]);
        failed.extend([totals(&[("requests", 1), ("failed", 1), ("messages", 1), ("bytes", 10)])]);
        assert_eq!(counted(&life()[..2]), failed);
    }

    #[test]
    fn a_change_that_comes_late_counts_in_the_hour_of_its_request() {
        let late =
            change(Some(image("IN_PROGRESS", CREATED, &[])), Some(image("COMPLETED", CREATED, VOLUME)));
        let counters = counted(&[Change { at: "2026-11-29T00:00:00Z".parse().unwrap(), ..late }]);
        assert!(counters.contains_key("DAY#2026-11-27 acme#produce#till 1"), "{counters:?}");
    }

    #[test]
    fn the_portions_in_which_changes_are_read_do_not_matter() {
        let whole = counted(&life());
        for cut in 1..life().len() {
            let (mut sums, life) = (BTreeMap::new(), life());
            for part in [&life[..cut], &life[cut..]] {
                for (key, counts) in counted(part) {
                    for (name, number) in counts {
                        *sums.entry((key.clone(), name)).or_insert(0) += number;
                    }
                }
            }
            sums.retain(|_, number| *number != 0);
            let flat: BTreeMap<_, _> = whole
                .iter()
                .flat_map(|(key, counts)| counts.iter().map(|(name, number)| ((key.clone(), *name), *number)))
                .collect();
            assert_eq!(sums, flat, "{cut}");
        }
    }

    /// Tests that a request stays counted after its expired record is replaced by the record of
    /// another request with the same key.
    #[test]
    fn a_record_that_is_replaced_stays_counted() {
        let (old, new) = (image("COMPLETED", CREATED, VOLUME), image("IN_PROGRESS", LATER, &[]));
        let done = image("COMPLETED", LATER, VOLUME);
        let replaced = [change(Some(old), Some(new.clone())), change(Some(new), Some(done))];
        let mut expected = lines("DAY#2026-11-28", "HOUR#2026-11-28T02", &DONE);
        expected.extend([totals(&DONE)]);
        assert_eq!(counted(&replaced), expected);
    }

    #[test]
    fn a_record_that_is_deleted_and_an_item_of_another_kind_change_nothing() {
        let other = Item::from([("pk".to_owned(), AttributeValue::S("REUSE#acme".to_owned()))]);
        let changes = [
            change(Some(image("COMPLETED", CREATED, VOLUME)), None),
            change(Some(other.clone()), Some(other.clone())),
            change(None, Some(other)),
        ];
        assert!(counted(&changes).is_empty());
        let (chunk, rest) = Chunk::take(&changes, &mut Targets::default()).unwrap();
        assert_eq!((chunk.sequence.as_str(), rest.len()), ("7", 0), "the position moves on all the same");
        assert!(Chunk::take(&[], &mut Targets::default()).is_none());
    }

    #[test]
    fn changes_of_many_tenants_are_split_in_order() {
        let of_tenant = |number: usize| {
            let mut done = image("COMPLETED", CREATED, VOLUME);
            done.insert("tenantId".to_owned(), AttributeValue::S(format!("tenant-{number}")));
            Change { sequence: number.to_string(), ..change(None, Some(done)) }
        };
        let changes: Vec<_> = (0..120).map(of_tenant).collect();
        let (mut targets, mut rest, mut last) = (Targets::default(), &changes[..], Vec::new());
        while let Some((chunk, others)) = Chunk::take(rest, &mut targets) {
            last.push(chunk.sequence);
            rest = others;
        }
        // Each has a day and an hour, and all of them share a total: 49 to a transaction.
        assert_eq!(last, ["48", "97", "119"]);
        assert_eq!(counted(&changes).len(), 241);
    }

    #[test]
    fn targets_beyond_the_bound_share_a_total() {
        let known = (0..MOST_TARGETS).map(|number| ("produce".to_owned(), format!("QM1:{number}")));
        let mut targets = Targets::of(known);
        assert_eq!(targets.key("produce", "QM1:1").sk, "produce#QM1:1");
        assert_eq!(targets.key("produce", "QM1:NEW").sk, "produce#other");
        assert_eq!(targets.key("consume", "QM1:1").sk, "consume#other");
        assert_eq!(targets.key("ingest", "").sk, "ingest#");
        let mut targets = Targets::default();
        assert_eq!(targets.key("produce", "QM1:NEW").sk, "produce#QM1:NEW");
        assert_eq!(targets.0.len(), 1);
    }
}
