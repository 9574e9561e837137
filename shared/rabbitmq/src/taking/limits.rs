//! What is known of the queue when messages were taken, and what the caller is told of its limits.

use mq::Deadline;

use super::{Facts, MOST_SETTLEMENTS, Taking};
use crate::queue_facts::{self, QueueKind};
use crate::server::Counted;
use crate::session::Session;

impl Taking<'_> {
    pub(super) fn tell_of_settlements(&mut self) {
        self.consumed.truncated = true;
        self.consumed.warnings.push(format!(
            "only {MOST_SETTLEMENTS} messages can be taken one by one from a queue that is not known to be a classic one"
        ));
    }

    /// Warns of messages that their queue drops, or dead-letters, when they go back once more.
    pub(super) async fn tell_of_the_limit(&mut self, session: &Session, deadline: Deadline) {
        // A connection that brought too much answers nothing any more.
        if self.failed.is_empty() || self.has_exceeded_the_intake {
            return;
        }
        let queue = self.queue;
        let declared = match self.ask(session, deadline).await {
            Some(facts) => queue_facts::declared_delivery_limit(session, queue, facts, deadline).await,
            None => None,
        };
        let limit = match declared {
            Some(declared) => u64::try_from(declared).ok(),
            None => session.server().default_delivery_limit(),
        };
        let Some(limit) = limit else { return };
        let at_the_limit = self.failed.iter().filter(|failed| **failed >= limit).count();
        if at_the_limit == 0 {
            return;
        }
        let how = match session.server().counted() {
            Counted::EveryReturn => "went back to the queue",
            Counted::Failures => "failed",
        };
        let whose = match declared {
            Some(_) => "as its owner set the delivery limit",
            None => "unless its owner set another delivery limit than RabbitMQ's default",
        };
        self.consumed.warnings.push(format!(
            "{at_the_limit} of the messages {how} {limit} times or more: {whose}, the queue drops or dead-letters \
             them the next time"
        ));
    }

    /// The queue's kind, if it was asked.
    pub(crate) fn kind(&self) -> Option<QueueKind> {
        match &self.facts {
            Facts::Known(facts) => Some(facts.kind.clone()),
            Facts::Unknown | Facts::NotAsked => None,
        }
    }

    /// How many consumers hold what was kept, as a quorum queue counts: one for each message that
    /// was got alone, and each that brought some. Of these, the last one may hold the excess too.
    pub(crate) fn holders(&self) -> usize {
        self.settlements.saturating_sub(usize::from(self.has_excess))
    }
}
