//! Sets of the sequence numbers of messages.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schedule::MinuteMessages;

/// Set of sequence numbers of messages, such as of all messages that were received. It is divided
/// by producer, because the messages of one producer are consecutive and compress to almost
/// nothing. In the worst case a number takes two bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sequences {
    /// Number of producers of the test: the producer of message `i` is `i` modulo this number. 0 in
    /// a test without producers, and in a default set to which no other set was added.
    producers: u64,
    /// Messages of each producer, by the producer's number. A message is stored as its position
    /// among the producer's messages.
    of_each: BTreeMap<u64, Positions>,
}

/// Set of the positions of messages among the messages of one producer. It is serialized in the
/// portable format of Roaring bitmaps.
#[derive(Clone, Debug, Default, PartialEq)]
struct Positions(RoaringTreemap);

impl Sequences {
    /// Creates an empty set for a test with this number of producers.
    pub(crate) fn new(producers: u32) -> Self {
        Self { producers: u64::from(producers), of_each: BTreeMap::new() }
    }

    /// Adds a sequence number; returns true if it was not in the set before.
    pub(crate) fn insert(&mut self, sequence: u64) -> bool {
        let (producer, own) = self.place(sequence);
        self.of_each.entry(producer).or_default().0.insert(own)
    }

    /// Returns the number of messages of `share` (successive messages of one producer) that are in
    /// the set, without visiting each.
    pub(crate) fn count_of(&self, share: MinuteMessages) -> u64 {
        let (producer, first) = self.place(share.first);
        let own = first..first.saturating_add(share.count);
        self.of_each.get(&producer).map_or(0, |positions| positions.0.range_cardinality(own))
    }

    /// Returns the producer of the message with this sequence number, and its position among that
    /// producer's messages.
    const fn place(&self, sequence: u64) -> (u64, u64) {
        match (sequence.checked_rem(self.producers), sequence.checked_div(self.producers)) {
            (Some(producer), Some(own)) => (producer, own),
            _ => (0, sequence),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.of_each.values().map(|positions| positions.0.len()).sum()
    }

    /// Returns the number of sequence numbers in the set that are below `limit`.
    pub(crate) fn count_below(&self, limit: u64) -> u64 {
        let below = |(producer, positions): (&u64, &Positions)| {
            let own = limit.saturating_sub(*producer).div_ceil(self.producers.max(1));
            own.checked_sub(1).map_or(0, |last| positions.0.rank(last))
        };
        self.of_each.iter().map(below).sum()
    }

    /// Adds the sequence numbers of another set of the same test.
    pub(crate) fn add(&mut self, other: &Self) {
        self.producers = self.producers.max(other.producers);
        for (producer, positions) in &other.of_each {
            self.of_each.entry(*producer).or_default().0 |= &positions.0;
        }
    }

    /// Returns the sequence numbers that are in both this set and `other`.
    pub(crate) fn common(&self, other: &Self) -> Self {
        self.each(|producer, positions| other.of_each.get(&producer).map(|others| &positions.0 & &others.0))
    }

    /// Returns the sequence numbers of this set that are not in `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        self.each(|producer, positions| match other.of_each.get(&producer) {
            Some(others) => Some(&positions.0 - &others.0),
            None => Some(positions.0.clone()),
        })
    }

    fn each(&self, change: impl Fn(u64, &Positions) -> Option<RoaringTreemap>) -> Self {
        let changed = |(producer, positions): (&u64, &Positions)| {
            let positions = change(*producer, positions).filter(|positions| !positions.is_empty())?;
            Some((*producer, Positions(positions)))
        };
        Self { producers: self.producers, of_each: self.of_each.iter().filter_map(changed).collect() }
    }

    /// Returns the union of several sets of the same test.
    pub(crate) fn all_of<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for set in sets {
            all.add(set);
        }
        all
    }
}

impl Serialize for Positions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut compact = self.0.clone();
        compact.optimize();
        let mut bytes = Vec::with_capacity(compact.serialized_size());
        compact.serialize_into(&mut bytes).map_err(S::Error::custom)?;
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Positions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes: Vec<u8> = Deserialize::deserialize(deserializer)?;
        RoaringTreemap::deserialize_from(bytes.as_slice()).map(Self).map_err(D::Error::custom)
    }
}
