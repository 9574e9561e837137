//! Finds out how many messages earlier attempts at a produce have put, by searching the queue for
//! their ids.
//!
//! Each attempt puts the messages in order, in units of work that are committed or backed out as a
//! whole, and begins after the messages that were known to be put. So a message on the queue proves
//! that all messages before it were put as well, even if consumers have taken those since. The
//! search looks for the last message that is on the queue. An absent message proves nothing: it was
//! never put, or a consumer has taken it. If earlier attempts may have used another queue, all
//! messages have to be found.

use std::collections::BTreeSet;

use broker::Deadline;
use libmqm_sys as mqi;
use mq::ContentSeed;

use crate::doubt;
use crate::mqi::{Connection, Object, Properties, Refusal};

/// Number of messages to look up at equal distances, over the range of messages that may have been
/// put.
const EVENLY: u64 = 64;

/// Search of a queue for messages that earlier attempts at a produce put.
pub(crate) struct EarlierSearch {
    /// Number of the produce's messages, counted from the first, that are known to have been put
    /// before the search.
    pub(crate) from: u64,
    /// Maximum number of the produce's messages, counted from the first, that may have been put.
    pub(crate) end: u64,
    /// True if the earlier attempts are known to have put their messages on this queue only.
    /// Otherwise some may have been moved here from another queue, so each message has to be found.
    pub(crate) is_here: bool,
    /// Seed from which the ids of the produce's messages are derived.
    pub(crate) seed: ContentSeed,
    /// Time at which the search ends; messages not found by then count as absent.
    pub(crate) until: Deadline,
}

impl EarlierSearch {
    /// Searches the queue, and returns how many of the produce's first messages are known to have
    /// been put. Only browses: neither the queue nor the unit of work changes.
    pub(crate) fn at(&self, connection: &Connection, queue: &str) -> Result<u64, Refusal> {
        let queue = Object::open_queue(connection, queue, mqi::MQOO_BROWSE)?;
        let properties = Properties::new(connection)?;
        let mut is_there = |index| {
            if self.until.has_passed() {
                return Ok(false);
            }
            Ok(doubt::find(&queue, &properties, self.seed.message_id(index).0)?.is_some())
        };
        let found = last(self.from, self.end, &mut is_there)?;
        if !self.is_here {
            for index in self.from..found {
                if !is_there(index)? {
                    return Ok(self.from);
                }
            }
        }
        Ok(found)
    }
}

/// Returns the index after the last message in `from..end` that is found; `from` if none is found.
///
/// Looks up the indices of [`chosen`], last first, until one is found. Then bisects the range up to
/// the next chosen index, which is absent. The result is exact if consumers took messages only from
/// the front and at least one chosen message is still on the queue.
fn last<E>(from: u64, end: u64, mut is_there: impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
    let mut absent = end;
    let mut there = None;
    for index in chosen(from, end).into_iter().rev() {
        if is_there(index)? {
            there = Some(index);
            break;
        }
        absent = index;
    }
    let Some(mut there) = there else { return Ok(from) };
    while there + 1 < absent {
        let middle = there + (absent - there) / 2;
        if is_there(middle)? {
            there = middle;
        } else {
            absent = middle;
        }
    }
    Ok(there + 1)
}

/// Returns the indices of messages to look up: many near `from`, since few messages usually follow
/// the last recorded progress; [`EVENLY`] evenly spaced ones; and the last one before `end`.
fn chosen(from: u64, end: u64) -> BTreeSet<u64> {
    let length = end.saturating_sub(from);
    let near = (0..u64::BITS).map(|power| (1_u64 << power) - 1);
    let evenly =
        (0..EVENLY).map(|part| u64::try_from(u128::from(length) * u128::from(part) / u128::from(EVENLY)));
    let evenly = evenly.filter_map(Result::ok);
    let offsets = near.chain(evenly).chain(length.checked_sub(1));
    offsets.filter(|offset| *offset < length).map(|offset| from + offset).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Returns the result of a search that finds the messages for which `there` is true, and its
    /// number of lookups.
    fn searched(from: u64, end: u64, there: impl Fn(u64) -> bool) -> (u64, usize) {
        let mut looks = 0;
        let found = last(from, end, |index| {
            assert!((from..end).contains(&index), "{index} was never put by anybody");
            looks += 1;
            Ok::<_, Infallible>(there(index))
        });
        (found.unwrap(), looks)
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(searched(5, 5, |_| true), (5, 0));
        assert_eq!(searched(5, 6, |_| false), (5, 1));
        let (found, looks) = searched(0, 100_000, |_| false);
        assert_eq!(found, 0);
        assert!(looks < 90, "{looks}");
    }

    #[test]
    fn few_messages_are_found_whoever_took_the_first_ones() {
        for count in 1..=EVENLY {
            for put in 1..=count {
                for taken in 0..put {
                    let found = searched(7, 7 + count, |index| (7 + taken..7 + put).contains(&index)).0;
                    assert_eq!(found, 7 + put, "{taken} of {put} of {count}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_end_of_what_nobody_took_from_is_found(from in 0..1_000_u64, put in 0..100_000_u64, more in 0..100_000_u64) {
            let end = from + put + more;
            let (found, looks) = searched(from, end, |index| index < from + put);
            prop_assert_eq!(found, from + put);
            prop_assert!(looks < 110, "{}", looks);
        }

        #[test]
        fn nothing_is_called_put_behind_the_last_one_that_is_there(
            there in proptest::collection::btree_set(0..2_000_u64, 0..50),
            end in 0..2_000_u64,
        ) {
            let (found, _) = searched(0, end, |index| there.contains(&index));
            prop_assert!(found == 0 || there.contains(&(found - 1)), "{}", found);
        }
    }
}
