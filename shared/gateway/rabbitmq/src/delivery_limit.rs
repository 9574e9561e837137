//! Delivery limit of a quorum queue: how often a message may return or fail before the queue drops
//! or dead-letters it.

use broker::Deadline;

use mq::QueueName;

use crate::queue_facts::{DELIVERY_LIMIT, QueueFacts, QueueKind, ask_quorum_queue};
use crate::server::Counted;
use crate::session::Session;

/// Delivery limit of a quorum queue, as a client can determine it. A policy may set a lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryLimit {
    times: u64,
    /// True if the queue was declared with this limit. False for the broker's default, which a
    /// policy may replace.
    is_declared: bool,
    counted: Counted,
}

impl DeliveryLimit {
    /// Returns the delivery limit of `queue`; `None` if it has none. If `facts` is `None`, because
    /// the broker did not disclose any, assumes a quorum queue with the broker's default limit.
    pub(crate) async fn of(
        session: &Session,
        queue: &QueueName,
        facts: Option<&QueueFacts>,
        deadline: Deadline,
    ) -> Option<Self> {
        let counted = session.server.counted();
        let declared = match facts {
            Some(facts) if facts.kind != QueueKind::Quorum => return None,
            // A negative one means no limit.
            Some(facts) => ask_quorum_queue(DELIVERY_LIMIT, session, queue, facts, deadline).await,
            None => None,
        };
        let (times, is_declared) = match declared {
            Some(declared) => (u64::try_from(declared).ok()?, true),
            None => (session.server.default_delivery_limit()?, false),
        };
        Some(Self { times, is_declared, counted })
    }

    /// True if a message that has `count` returns or failures so far has used up the limit: at the
    /// next one that the queue counts, the queue drops or dead-letters the message.
    const fn is_reached_by(self, count: u64) -> bool {
        count >= self.times
    }

    /// True if a message that has `count` returns or failures so far is certain to be dropped or
    /// dead-lettered when it is requeued.
    pub(crate) fn is_passed_by_a_return(self, count: u64) -> bool {
        self.is_declared && self.counted == Counted::EveryReturn && self.is_reached_by(count)
    }

    /// Returns a warning about messages that have reached the limit; `None` if there are none.
    /// `counts` has each message's count of returns or failures, and `when` is text that says when
    /// they are dropped.
    pub(crate) fn warning(self, counts: &[u64], when: &str) -> Option<String> {
        let at_the_limit = counts.iter().filter(|count| self.is_reached_by(**count)).count();
        if at_the_limit == 0 {
            return None;
        }
        let times = self.times;
        let how = match self.counted {
            Counted::EveryReturn => "went back to the queue",
            Counted::Failures => "failed",
        };
        let whose = match self.is_declared {
            true => "as its owner set the delivery limit",
            false => "unless its owner set another delivery limit than RabbitMQ's default",
        };
        Some(format!(
            "{at_the_limit} of the messages {how} {times} times or more: {whose}, the queue drops or dead-letters them {when}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(times: u64, is_declared: bool, counted: Counted) -> DeliveryLimit {
        DeliveryLimit { times, is_declared, counted }
    }

    #[test]
    fn a_message_is_known_to_go_only_past_a_limit_that_its_queue_was_declared_with() {
        for (limit, count, is_gone) in [
            (limit(1, true, Counted::EveryReturn), 1, true),
            (limit(1, true, Counted::EveryReturn), 0, false),
            (limit(0, true, Counted::EveryReturn), 0, true),
            (limit(20, false, Counted::EveryReturn), 25, false),
            (limit(1, true, Counted::Failures), 5, false),
        ] {
            assert_eq!(limit.is_passed_by_a_return(count), is_gone, "{limit:?} {count}");
        }
    }

    #[test]
    fn the_warning_counts_those_at_the_limit() {
        let limit = limit(2, true, Counted::EveryReturn);
        assert_eq!(limit.warning(&[0, 1], "now"), None);
        let warning = limit.warning(&[2, 1, 7], "now").unwrap();
        assert!(warning.starts_with("2 of the messages went back to the queue 2 times"), "{warning}");
    }
}
