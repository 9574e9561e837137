//! Settings of a consume or browse for the connection's thread, and the result.

use std::time::Instant;

use libmqm_sys as mqi;
use mq::Consumed;

use crate::doubt::Evidence;

/// Settings of a consume or browse: which messages it takes, and until when.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) queue: String,
    pub(crate) most: usize,
    pub(crate) max_bytes: usize,
    pub(crate) selection: Selection,
    pub(crate) convert: bool,
    pub(crate) is_browse: bool,
    /// True if messages at the backout threshold or past it are moved to the backout queue.
    pub(crate) moves_poison: bool,
    pub(crate) wait: Wait,
    /// Time until which the consume waits for its first message.
    pub(crate) wait_until: Instant,
    /// Time at which the consume stops, even if there are more messages.
    pub(crate) stop_at: Instant,
}

impl Plan {
    /// True if the consume takes a single message, and any will do, so that the queue manager need
    /// not search for it.
    pub(super) fn is_quick(&self) -> bool {
        let Selection { message_id, correlation_id, expression } = &self.selection;
        self.most == 1 && message_id.is_none() && correlation_id.is_none() && expression.is_none()
    }
}

/// Conditions that the messages of a consume must meet; all are `None` if any message is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) message_id: Option<mqi::MQBYTE24>,
    pub(crate) correlation_id: Option<mqi::MQBYTE24>,
    /// Selector expression over the properties of a message (JMS syntax); `None` selects by no
    /// expression.
    pub(crate) expression: Option<String>,
}

/// Time in whole seconds that a consume waits for its first message, and whether its deadline made
/// that shorter than the request asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) seconds: u32,
    pub(crate) is_shortened: bool,
}

/// Messages that a consume has received in the connection's unit of work, or that a browse has
/// read.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) consumed: Consumed,
    /// Ids and times of the received messages. After a commit of unknown outcome, a search of the
    /// queue compares them, to find out whether all messages are back.
    pub(crate) evidence: Vec<Evidence>,
    /// Number of received messages that were moved to the backout queue.
    pub(crate) moved: usize,
    /// True if the first message alone does not fit into a response, so the consume has no message.
    pub(crate) first_is_too_large: bool,
}

impl Taken {
    pub(super) fn nothing(plan: &Plan) -> Self {
        let mut taken = Self::default();
        taken.consumed.wait_seconds_applied = plan.wait.seconds;
        if plan.wait.is_shortened {
            let warning = "the wait was cut short by the time that the request has";
            taken.consumed.warnings.push(warning);
        }
        taken
    }
}
