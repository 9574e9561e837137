//! Sessions: the queue manager's side of a connection.

use std::collections::BTreeMap;

use super::queue::QueuePlace;
use crate::protocol::{Chars, Context};
use crate::selector::Selector;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) channel: Chars,
    pub(crate) application: Chars,
    pub(crate) handles: BTreeMap<i32, Handle>,
    pub(crate) next_handle: i32,
    /// Operations of the open unit of work, in the order of the calls.
    pub(crate) work: Vec<Work>,
}

/// Put or get of a message in a unit of work that is not committed yet.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) queue: Chars,
    pub(crate) place: QueuePlace,
    pub(crate) is_put: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Handle {
    /// Queue that messages are put on and got from; `None` for the queue manager, and for an alias
    /// or remote queue that is only inquired.
    pub(crate) queue: Option<Chars>,
    /// Name of the opened object; for an alias, its own name.
    pub(crate) opened: Chars,
    pub(crate) is_manager: bool,
    pub(crate) options: i32,
    pub(crate) selector: Option<Selector>,
    pub(crate) cursor: Option<QueuePlace>,
    pub(crate) locked: Option<QueuePlace>,
    /// Context of the last message that was got, if the handle was opened with
    /// MQOO_SAVE_ALL_CONTEXT.
    pub(crate) context: Option<Context>,
}

impl Handle {
    pub(crate) fn has(&self, option: i32) -> bool {
        self.options & option != 0
    }
}
