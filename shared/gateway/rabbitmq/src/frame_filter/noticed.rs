//! What the filter saw pass.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::events::{self, Peer};
use crate::intake::Intake;

/// The class and the method by which a broker says that it reads nothing more, and that it reads
/// again.
const CONNECTION_BLOCKED: [u8; 4] = [0, 10, 0, 60];
const CONNECTION_UNBLOCKED: [u8; 4] = [0, 10, 0, 61];

/// What a broker is short of that blocks a connection. Its own words are for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    Memory,
    Disk,
    MemoryAndDisk,
    Other,
}

impl Shortage {
    fn of(reason: &str) -> Self {
        match (reason.contains("memory"), reason.contains("disk")) {
            (true, true) => Self::MemoryAndDisk,
            (true, false) => Self::Memory,
            (false, true) => Self::Disk,
            (false, false) => Self::Other,
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "low on memory",
            Self::Disk => "low on disk space",
            Self::MemoryAndDisk => "low on memory and disk space",
            Self::Other => "for a reason of its own",
        })
    }
}

/// What was noticed on the way, and what may pass.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Whom the log names.
    peer: Option<Peer>,
    greeting: OnceLock<Vec<u8>>,
    returns: AtomicU64,
    /// Why the broker reads nothing more, while it does not.
    blocked: watch::Sender<Option<Shortage>>,
    intake: Intake,
}

impl Noticed {
    pub(crate) fn of(peer: Peer) -> Self {
        Self { peer: Some(peer), ..Self::default() }
    }

    /// The broker's first frame.
    pub(crate) fn greeting(&self) -> Option<&[u8]> {
        self.greeting.get().map(Vec::as_slice)
    }

    pub(super) fn greet(&self, frame: impl FnOnce() -> Vec<u8>) {
        self.greeting.get_or_init(frame);
    }

    /// How many messages the broker has given back as unroutable. It counts before the library
    /// learns anything from the same or a later frame.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Acquire)
    }

    pub(super) fn note_return(&self) {
        self.returns.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Why, if the broker has said that it reads nothing more from the connection.
    pub(crate) fn blocked(&self) -> Option<Shortage> {
        *self.blocked.borrow()
    }

    /// Waits until the broker says that it reads nothing more, and why.
    pub(crate) async fn until_blocked(&self) -> Shortage {
        let mut changes = self.blocked.subscribe();
        loop {
            let shortage = *changes.borrow_and_update();
            if let Some(shortage) = shortage {
                return shortage;
            }
            if changes.changed().await.is_err() {
                // Not while `self` lives, which has the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Looks at a method of the connection itself, and logs each change.
    pub(super) fn note_connection(&self, method: &[u8]) {
        if let Some(rest) = method.strip_prefix(&CONNECTION_BLOCKED) {
            let reason = reason(rest);
            if self.blocked.send_replace(Some(Shortage::of(&reason))).is_none()
                && let Some(peer) = &self.peer
            {
                events::blocked(peer, &reason);
            }
        } else if method.starts_with(&CONNECTION_UNBLOCKED)
            && self.blocked.send_replace(None).is_some()
            && let Some(peer) = &self.peer
        {
            events::unblocked(peer);
        }
    }
}

/// The only argument of `connection.blocked`, a short string.
fn reason(arguments: &[u8]) -> String {
    let text = arguments.split_first().and_then(|(length, text)| text.get(..usize::from(*length)));
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}
