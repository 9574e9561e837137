//! Rules about the messages that have to be found before something is certain.
//!
//! A model checker tests these rules against every course of events that a small model allows
//! (`model.rs`).

use libmqm_sys as mqi;

/// Number of the messages that have to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Needed {
    One,
    All,
}

impl Needed {
    /// Rule for a unit of work that put messages. Only this produce puts messages under these ids,
    /// so in a first attempt a message on the queue was put by this unit. In a later attempt, an
    /// earlier one may have put it, in a unit of work that ended differently.
    pub(crate) fn of_put(is_first_attempt: bool) -> Self {
        if is_first_attempt { Self::One } else { Self::All }
    }

    /// Rule for a unit of work that got messages. A retry may have put copies with the same ids and
    /// the same time, so a message that is back may be the copy of one that is gone. If all are
    /// there, then nothing is lost, whichever of them are copies.
    pub(crate) const OF_GOT: Self = Self::All;

    /// Conclusion after a message was found, or not; `None` if the next one decides.
    pub(crate) fn settled_by(self, is_there: bool) -> Option<bool> {
        (is_there == (self == Self::One)).then_some(is_there)
    }

    /// Returns the conclusion if no message decided.
    pub(crate) fn at_the_end(self) -> bool {
        self == Self::All
    }
}

/// Properties that distinguish a received message from a copy of it.
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

    /// True if `found` is the same message, after it was backed out. A copy may have the same id,
    /// but was put at another time, or was not backed out since.
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
