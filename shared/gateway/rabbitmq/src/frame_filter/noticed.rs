//! Observations of what the broker sends, shared with the connection.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use broker::{Peer, events};
use tokio::sync::watch;

use crate::intake::Intake;

/// Class and method numbers of `connection.blocked`, by which a broker announces that it stops
/// reading, and of `connection.unblocked`.
const CONNECTION_BLOCKED: [u8; 4] = [0, 10, 0, 60];
const CONNECTION_UNBLOCKED: [u8; 4] = [0, 10, 0, 61];

/// Resource that the broker lacks, so that it blocks a connection. The broker's own text is only
/// for the log.
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

/// Time of the last bytes received from the broker.
#[derive(Debug)]
pub struct Pulse {
    start: Instant,
    milliseconds: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { start: Instant::now(), milliseconds: AtomicU64::new(0) }
    }
}

impl Pulse {
    pub(crate) fn beat(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.milliseconds.store(elapsed, Ordering::Relaxed);
    }

    /// Returns the time since the last bytes were received.
    pub fn age(&self) -> Duration {
        let beat = Duration::from_millis(self.milliseconds.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(beat)
    }
}

/// Observations of the transport and its filter, and the limit on deliveries.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Peer to name in the log.
    peer: Option<Peer>,
    greeting: OnceLock<Vec<u8>>,
    returns: AtomicU64,
    /// Resource whose shortage made the broker block the connection; `None` while it is not
    /// blocked.
    blocked: watch::Sender<Option<Shortage>>,
    intake: Intake,
    pub(crate) pulse: Arc<Pulse>,
    /// Error that ended reading, which the library does not always pass on.
    pub(crate) broken_by: OnceLock<Arc<io::Error>>,
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

    /// Number of messages that the broker has returned as unroutable. A return is counted before
    /// the library sees the same or a later frame.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Acquire)
    }

    pub(super) fn note_return(&self) {
        self.returns.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// The broker's reason for blocking the connection, or `None` if it is not blocked.
    pub(crate) fn blocked(&self) -> Option<Shortage> {
        *self.blocked.borrow()
    }

    /// Waits until the broker blocks the connection, and returns the reason.
    pub(crate) async fn until_blocked(&self) -> Shortage {
        let mut changes = self.blocked.subscribe();
        let blocked = changes.wait_for(Option::is_some).await.ok().and_then(|shortage| *shortage);
        match blocked {
            Some(shortage) => shortage,
            // Cannot happen while `self` lives, because it owns the sender.
            None => std::future::pending().await,
        }
    }

    /// Evaluates a method on channel 0, and logs each change between blocked and unblocked.
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

/// Returns the only argument of `connection.blocked`, a short string.
fn reason(arguments: &[u8]) -> String {
    let text = arguments.split_first().and_then(|(length, text)| text.get(..usize::from(*length)));
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}
