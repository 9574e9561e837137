//! Plan of the messages to take, and the result.

use std::time::Instant;

use libmqm_sys as mqi;
use mq::Consumed;

use crate::doubt::Evidence;

/// Messages that a consume takes, and its waits.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) queue: String,
    pub(crate) most: usize,
    pub(crate) max_bytes: usize,
    pub(crate) selection: Selection,
    pub(crate) convert: bool,
    pub(crate) is_browse: bool,
    /// True if messages past the backout threshold are moved.
    pub(crate) moves_poison: bool,
    pub(crate) wait: Wait,
    /// Time until which a first message is waited for.
    pub(crate) wait_until: Instant,
    /// Time at which the consume stops taking messages.
    pub(crate) stop_at: Instant,
}

impl Plan {
    /// True if the queue manager finds the only message, or that there is none, without a search.
    pub(super) fn is_quick(&self) -> bool {
        let Selection { message_id, correlation_id, expression } = &self.selection;
        self.most == 1 && message_id.is_none() && correlation_id.is_none() && expression.is_none()
    }
}

/// Conditions that select messages; all of them are `None` if every message is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) message_id: Option<mqi::MQBYTE24>,
    pub(crate) correlation_id: Option<mqi::MQBYTE24>,
    /// Condition on the properties of a message.
    pub(crate) expression: Option<String>,
}

/// The wait that is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) seconds: u32,
    pub(crate) is_cut: bool,
}

/// Messages that were taken. They are in the connection's unit of work.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) consumed: Consumed,
    /// Evidence of the messages, for a commit in doubt.
    pub(crate) evidence: Vec<Evidence>,
    /// Number of messages that were moved to the backout queue.
    pub(crate) moved: usize,
    /// True if the first message alone exceeds a response.
    pub(crate) first_is_too_large: bool,
}

impl Taken {
    pub(super) fn nothing(plan: &Plan) -> Self {
        let mut taken = Self::default();
        taken.consumed.wait_seconds_applied = plan.wait.seconds;
        if plan.wait.is_cut {
            let warning = "the wait was cut short by the time that the request has";
            taken.consumed.warnings.push(warning);
        }
        taken
    }
}
