//! Observations of the bytes that a broker sends, which the frame filter records for the
//! connection.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use broker::{Peer, events};
use tokio::sync::watch;

use crate::intake::Intake;

/// Class and method number of `connection.blocked`, which announces that the broker stops reading.
const CONNECTION_BLOCKED: [u8; 4] = [0, 10, 0, 60];
const CONNECTION_UNBLOCKED: [u8; 4] = [0, 10, 0, 61];

/// Resource of which the broker is short, so that it blocks a connection. The broker's own text
/// only goes to the log.
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

/// Record of the time at which bytes were last received from the broker.
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

/// Observations of a connection's transport and frame filter, such as the broker's greeting and the
/// number of returned messages, with the limit on deliveries.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Address and login of the connection, for log lines; `None` in tests without a connection.
    peer: Option<Peer>,
    greeting: OnceLock<Vec<u8>>,
    returns: AtomicU64,
    /// Resource of which the broker is short while it blocks the connection; `None` while it does
    /// not.
    blocked: watch::Sender<Option<Shortage>>,
    intake: Intake,
    pub(crate) pulse: Arc<Pulse>,
    /// Error that ended reading from the socket, which the client library does not always report.
    pub(crate) broken_by: OnceLock<Arc<io::Error>>,
}

impl Noticed {
    pub(crate) fn of(peer: Peer) -> Self {
        Self { peer: Some(peer), ..Self::default() }
    }

    /// Returns the broker's first frame (`connection.start`); `None` before it has arrived.
    pub(crate) fn greeting(&self) -> Option<&[u8]> {
        self.greeting.get().map(Vec::as_slice)
    }

    pub(super) fn greet(&self, frame: impl FnOnce() -> Vec<u8>) {
        self.greeting.get_or_init(frame);
    }

    /// Returns the number of messages that the broker has returned as unroutable on this
    /// connection. A return is counted before the client library receives it or a later frame.
    pub(crate) fn returns(&self) -> u64 {
        self.returns.load(Ordering::Acquire)
    }

    pub(super) fn note_return(&self) {
        self.returns.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Returns the resource for whose shortage the broker blocks the connection; `None` if it does
    /// not.
    pub(crate) fn blocked(&self) -> Option<Shortage> {
        *self.blocked.borrow()
    }

    /// Waits until the broker blocks the connection, and returns the resource of which it is short.
    pub(crate) async fn until_blocked(&self) -> Shortage {
        let mut changes = self.blocked.subscribe();
        let blocked = changes.wait_for(Option::is_some).await.ok().and_then(|shortage| *shortage);
        match blocked {
            Some(shortage) => shortage,
            // Cannot happen while `self` lives, because it owns the sender.
            None => std::future::pending().await,
        }
    }

    /// Processes a method on channel 0: records and logs if the broker blocks or unblocks the
    /// connection.
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

/// Returns the text of `connection.blocked`, a short string.
fn reason(arguments: &[u8]) -> String {
    let text = arguments.split_first().and_then(|(length, text)| text.get(..usize::from(*length)));
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}
