//! What the caller is told of the limits that a queue has.

use mq::Deadline;

use super::{MOST_SETTLEMENTS, Taking};
use crate::queue_facts;
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
}
