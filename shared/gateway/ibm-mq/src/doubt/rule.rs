//! Rules that decide which messages have to be found on the queue to prove the outcome of a commit.
//!
//! A model checker tests these rules in every sequence of events that a small model allows
//! (`model.rs`).

use libmqm_sys as mqi;

/// Number of messages of a unit of work that have to be found on the queue to prove the outcome of
/// its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Needed {
    One,
    All,
}

impl Needed {
    /// Returns the number needed for a unit of work that put messages. In the first attempt at a
    /// request, one message on the queue proves the commit, since no other put uses its id. In a
    /// later attempt, all have to be found, since an earlier attempt may have put some.
    pub(crate) fn of_put(is_first_attempt: bool) -> Self {
        if is_first_attempt { Self::One } else { Self::All }
    }

    /// Number needed for a unit of work that got messages: all have to be back on the queue. A
    /// single one proves nothing: it may be a copy of a removed message, put by a retry with the
    /// same id and time. If all are there, as originals or copies, no message is lost.
    pub(crate) const OF_GOT: Self = Self::All;

    /// Returns the conclusion of a search after a message that was found or not (`is_there`): true
    /// if the outcome of the commit is proven, false if it stays unknown, and `None` if the search
    /// has to go on with the next message.
    pub(crate) fn settled_by(self, is_there: bool) -> Option<bool> {
        (is_there == (self == Self::One)).then_some(is_there)
    }

    /// Returns the conclusion of a search that has looked for all messages, none of which was
    /// decisive: true if the outcome of the commit is proven.
    pub(crate) fn at_the_end(self) -> bool {
        self == Self::All
    }
}

/// Ids, put time and backout count of a received message, by which a search of the queue recognizes
/// it. A higher backout count distinguishes the message after a backout from a copy that a retry
/// put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(super) message_id: mqi::MQBYTE24,
    pub(super) correlation_id: mqi::MQBYTE24,
    pub(super) put_date: mqi::MQCHAR8,
    pub(super) put_time: mqi::MQCHAR8,
    pub(super) backout_count: mqi::MQLONG,
}

impl Evidence {
    pub(crate) fn of(md: &mqi::MQMD) -> Self {
        Self {
            message_id: md.MsgId,
            correlation_id: md.CorrelId,
            put_date: md.PutDate,
            put_time: md.PutTime,
            backout_count: md.BackoutCount,
        }
    }

    /// True if `found` is this message after a backout: it has the same ids and put time, and a
    /// higher backout count.
    pub(super) fn came_back_as(&self, found: &Self) -> bool {
        let same = Self { backout_count: found.backout_count, ..*self };
        same == *found && found.backout_count > self.backout_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqi::{descriptor, fill};

    #[test]
    fn only_the_message_itself_proves_that_it_came_back() {
        let mut md = descriptor();
        md.MsgId = [1; 24];
        md.BackoutCount = 1;
        fill(&mut md.PutTime, "12000000");
        let taken = Evidence::of(&md);
        // It was not backed out since, so it is a copy that was there before.
        assert!(!taken.came_back_as(&taken));
        let mut back = md;
        back.BackoutCount = 2;
        assert!(taken.came_back_as(&Evidence::of(&back)));
        let mut copy = back;
        fill(&mut copy.PutTime, "12000001");
        assert!(!taken.came_back_as(&Evidence::of(&copy)));
        let mut other = back;
        other.CorrelId = [9; 24];
        assert!(!taken.came_back_as(&Evidence::of(&other)));
    }
}
