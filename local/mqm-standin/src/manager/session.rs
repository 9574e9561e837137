//! What the queue manager knows of one connection.

use std::collections::BTreeMap;

use super::queue::Place;
use crate::protocol::{Chars, IdentityContext, OriginContext};
use crate::selector::Selector;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) channel: Chars,
    pub(crate) application: Chars,
    pub(crate) handles: BTreeMap<i32, Handle>,
    pub(crate) next_handle: i32,
    /// The unit of work, in the order of its calls.
    pub(crate) work: Vec<Work>,
}

#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) queue: Chars,
    pub(crate) id: u64,
    pub(crate) place: Place,
    pub(crate) kind: WorkKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    Put,
    Get,
}

#[derive(Debug)]
pub(crate) struct Handle {
    /// The queue that messages go to and come from, with its number; `None` for the queue manager
    /// and for definitions without messages.
    pub(crate) queue: Option<(Chars, u64)>,
    /// The object as it was opened: an alias by its own name.
    pub(crate) opened: Chars,
    pub(crate) is_manager: bool,
    pub(crate) options: i32,
    pub(crate) selector: Option<Selector>,
    pub(crate) cursor: Option<Place>,
    pub(crate) locked: Option<Place>,
    /// Of the message got last, if it was opened to save it.
    pub(crate) context: Option<(IdentityContext, OriginContext)>,
}

impl Handle {
    pub(crate) fn has(&self, option: i32) -> bool {
        self.options & option != 0
    }
}
