//! What earlier attempts at a produce put, found on the queue by the messages' ids.
//!
//! Each attempt puts the messages in their order, in units of work that happen wholly or not at
//! all, and begins behind what was known to be put. So a message that is there proves that all
//! before it were put as well, even if somebody has taken those since. The search is for the last
//! one that is there. Nothing is proved by one that is not there: it was never put, or somebody has
//! taken it. Where nobody noted on which queue the attempts before were, all have to be there.

use std::collections::BTreeSet;

use clock::Deadline;
use libmqm_sys as mqi;
use mq::ContentSeed;

use crate::doubt;
use crate::mqi::{Connection, Object, Properties, Refusal};

/// How many messages are looked for that lie evenly between the first one and the last one.
const EVENLY: u64 = 64;

/// A look for messages that may be on a queue.
pub(crate) struct Look {
    /// How many of the first messages are known to have been put.
    pub(crate) from: u64,
    /// How many of them can have been put.
    pub(crate) end: u64,
    /// Whether they were put on this queue. If nobody knows, somebody may have brought some of them
    /// here, and one proves nothing of another.
    pub(crate) is_here: bool,
    /// What their ids are made from.
    pub(crate) seed: ContentSeed,
    /// When what was found has to do.
    pub(crate) until: Deadline,
}

impl Look {
    /// How many of the first messages were put for certain. Changes nothing on the queue, and
    /// nothing in the connection's unit of work.
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

/// Up to where messages turned out to be there, of those from index `from` on and before `end`;
/// `from` if none did.
///
/// Looks for some of them, the last ones first, and between the last one that is there and the
/// next one that is not by halves. Where others took only the first ones, or none, that finds the
/// end, if any of the chosen ones is there.
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

/// More of the first ones, since a checkpoint is not long ago; some of all; and the last one.
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

    /// What the search comes to where the messages of `there` are on the queue, and how many were
    /// looked for.
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
