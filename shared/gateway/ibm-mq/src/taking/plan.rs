//! What is to be taken, and what was.

use std::time::Instant;

use libmqm_sys as mqi;
use mq::Consumed;

use crate::doubt::Evidence;

/// What is to be taken.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) queue: String,
    pub(crate) most: usize,
    pub(crate) max_bytes: usize,
    pub(crate) selection: Selection,
    pub(crate) convert: bool,
    pub(crate) is_browse: bool,
    /// Whether messages past the backout threshold are moved.
    pub(crate) moves_poison: bool,
    pub(crate) wait: Wait,
    /// Until when a first message is waited for.
    pub(crate) wait_until: Instant,
    /// Until when messages are taken.
    pub(crate) stop_at: Instant,
}

/// Which messages are wanted, if not all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) message_id: Option<mqi::MQBYTE24>,
    pub(crate) correlation_id: Option<mqi::MQBYTE24>,
    /// Properties that messages have to have.
    pub(crate) expression: Option<String>,
}

/// The wait that is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) seconds: u32,
    pub(crate) is_cut: bool,
}

/// What was taken. It is in the connection's unit of work.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) consumed: Consumed,
    /// The messages, for a commit in doubt.
    pub(crate) evidence: Vec<Evidence>,
    /// How many messages were moved to the backout queue.
    pub(crate) moved: usize,
    /// The first message alone exceeds what an answer can carry.
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
