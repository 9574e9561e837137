//! Warnings about the limits of the queue that messages were taken from.

use broker::Deadline;

use mq::ReceivedMessage;

use super::{MOST_SETTLEMENTS, Taking};
use crate::delivery_limit::DeliveryLimit;
use crate::queue_facts::QueueKind;
use crate::session::Session;

impl Taking<'_> {
    pub(super) fn tell_of_settlements(&mut self) {
        self.consumed.truncated = true;
        self.consumed.warnings.push(format!(
            "only {MOST_SETTLEMENTS} messages can be taken one by one from a queue that is not known to be a classic one"
        ));
    }

    /// Evaluates the counts of earlier returns: ignores those that a publisher wrote, and warns
    /// about messages at their delivery limit.
    pub(super) async fn judge_the_counts(&mut self, session: &Session, deadline: Deadline) {
        self.forget_what_publishers_counted(session, deadline).await;
        self.tell_of_the_limit(session, deadline).await;
    }

    /// Warns about messages that their queue drops or dead-letters when they are returned once
    /// more.
    async fn tell_of_the_limit(&mut self, session: &Session, deadline: Deadline) {
        // A connection that is over its intake answers nothing any more.
        if self.counts_of_returns.is_empty() || self.has_exceeded_the_intake {
            return;
        }
        let queue = self.queue;
        let facts = self.ask(session, deadline).await;
        let limit = DeliveryLimit::of(session, queue, facts, deadline).await;
        let warning = limit.and_then(|limit| limit.warning(&self.counts_of_returns, "the next time"));
        self.consumed.warnings.extend(warning);
    }

    /// Removes the counts of returns from the messages of a classic queue: it does not count, so
    /// their publishers wrote them.
    async fn forget_what_publishers_counted(&mut self, session: &Session, deadline: Deadline) {
        let is_counted = |message: &ReceivedMessage| message.delivery_count.is_some_and(|count| count > 0);
        if self.has_exceeded_the_intake || !self.consumed.messages.iter().any(is_counted) {
            return;
        }
        if self.ask(session, deadline).await.is_none_or(|facts| facts.kind != QueueKind::Classic) {
            return;
        }
        self.counts_of_returns.clear();
        for message in &mut self.consumed.messages {
            message.delivery_count = None;
            message.backout_count = message.redelivered.into();
        }
    }

    /// Returns the queue's type; `None` if the broker was not asked for it, or did not disclose it.
    pub(crate) fn kind(&self) -> Option<QueueKind> {
        Some(self.facts.as_ref()?.as_ref()?.kind.clone())
    }

    /// Returns the number of consumers that a quorum queue counts for the kept messages: one for
    /// each `basic.get`, and one for each consumer that delivered. If there are excess deliveries
    /// after the kept messages, the last one is left out, because it may still hold them.
    pub(crate) fn consumers_to_settle(&self) -> usize {
        self.settlements.saturating_sub(usize::from(self.has_excess))
    }
}
