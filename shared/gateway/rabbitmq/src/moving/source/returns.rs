//! Counts how often messages were returned to the source queue of a move, and warns about those
//! that the queue may drop because of their returns.

use broker::Deadline;
use lapin::message::Delivery;

use super::Source;
use crate::delivery_limit::DeliveryLimit;
use crate::leader::Leadership;
use crate::message::{counted_returns, times_back};
use crate::queue_facts::{self, QueueFacts, QueueKind};
use crate::server::Counted;

impl Source {
    /// Returns how often a message was returned before, and records the returns that count towards
    /// a delivery limit. On a classic queue the count header is the publisher's, and is ignored.
    pub(super) async fn count(&mut self, delivery: &Delivery, deadline: Deadline) -> u64 {
        let times = times_back(delivery);
        if times.is_some_and(|times| times > 0) && self.is_classic(deadline).await {
            return delivery.redelivered.into();
        }
        if let Some(counted) = counted_returns(delivery).filter(|counted| *counted > 0) {
            self.counts.insert(delivery.delivery_tag, counted);
        }
        times.unwrap_or(u64::from(delivery.redelivered))
    }

    /// True if the source queue counts every return of a message, and may drop it past a limit.
    pub(in crate::moving) async fn counts_returns(&mut self, deadline: Deadline) -> bool {
        self.session.server.counted() == Counted::EveryReturn
            && self.session.known_queues.get(&self.queue) != Some(Leadership::Absent)
            && !self.is_classic(deadline).await
    }

    /// Returns the properties of the source queue, such as its type; `None` if they are unknown.
    /// The broker is not asked once the deliveries have exceeded the connection's limit (its
    /// intake), since no more answers arrive then.
    async fn learn(&mut self, deadline: Deadline) -> Option<&QueueFacts> {
        if self.facts.is_none() && !self.has_exceeded_the_intake {
            let facts = queue_facts::learn(&self.session, &self.queue, deadline).await.ok();
            let leadership = facts.as_ref().map(|facts| Leadership::from(&facts.kind));
            if leadership == Some(Leadership::Absent) {
                self.session.known_queues.insert(&self.queue, Leadership::Absent);
            }
            self.leadership = self.leadership.or(leadership);
            self.facts = Some(facts);
        }
        self.facts.as_ref()?.as_ref()
    }

    /// True if the source queue is known to be a classic queue, which does not count returns.
    pub(super) async fn is_classic(&mut self, deadline: Deadline) -> bool {
        self.learn(deadline).await.is_some_and(|facts| facts.kind == QueueKind::Classic)
    }

    /// Adds warnings about the messages that return to their queue (the held ones and `more`
    /// others), and about those that the queue will then drop or dead-letter. Returns the number of
    /// messages that the queue is certain to drop or dead-letter.
    pub(super) async fn tell_of_returns(&mut self, more: u64, deadline: Deadline) -> u64 {
        let returning = self.held.saturating_add(more);
        if returning == 0 {
            return 0;
        }
        let counts_returns = self.counts_returns(deadline).await;
        if counts_returns {
            let end = match self.stopped_at_first_kept {
                true => ", so the move ended at the first message that stays",
                false => "",
            };
            self.report.warnings.push(format!(
                "the queue `{}` counts what returns to it and may drop it past a limit{end}: messages that return now: {returning}",
                self.queue
            ));
        }
        if self.has_exceeded_the_intake || (!counts_returns && self.counts.is_empty()) {
            return 0;
        }
        self.learn(deadline).await;
        let facts = self.facts.as_ref().and_then(Option::as_ref);
        let limit = DeliveryLimit::of(&self.session, &self.queue, facts, deadline).await;
        let Some(limit) = limit else { return 0 };
        let mut counts: Vec<_> = self.counts.values().copied().collect();
        counts.resize(usize::try_from(returning).unwrap_or(usize::MAX).max(counts.len()), 0);
        let when = if counts_returns { "now that they return" } else { "the next time" };
        self.report.warnings.extend(limit.warning(&counts, when));
        let gone = counts.iter().filter(|count| limit.is_passed_by_a_return(**count)).count();
        u64::try_from(gone).unwrap_or(u64::MAX)
    }
}
