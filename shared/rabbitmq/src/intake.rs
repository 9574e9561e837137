//! How many bytes of a queue's messages are in memory at most. The client library assembles every
//! message that a broker delivers, and RabbitMQ has no prefetch by bytes, so what lies on a queue
//! would decide how much memory a function needs. The filter under the library sees a message's
//! size before its body: what exceeds the intake gets no further.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The most bytes that the messages of one fetch take in memory, whatever lies on the queue.
pub const MOST_HELD: usize = 32 * 1024 * 1024;

/// What a delivery takes beside its content: the library's own notes, and the gateway's form of a
/// message.
const DELIVERY: usize = 1024;

/// What a connection lets in. It is bound for a fetch; whoever uses a channel directly takes what
/// comes.
#[derive(Debug)]
pub(crate) struct Intake {
    left: AtomicUsize,
    is_closed: AtomicBool,
    /// The tag of the delivery that exceeded the intake; tags begin at 1.
    exceeded_by: AtomicU64,
    exceeded: Notify,
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Whole,
    /// The first that exceeds the intake: the library is given it without its content, so that the
    /// fetch learns of it.
    Hollow,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            left: AtomicUsize::new(usize::MAX),
            is_closed: AtomicBool::new(false),
            exceeded_by: AtomicU64::new(0),
            exceeded: Notify::new(),
        }
    }
}

impl Intake {
    /// Lets in deliveries of `bytes` altogether.
    pub(crate) fn bind(&self, bytes: usize) {
        self.exceeded_by.store(0, Ordering::Release);
        self.left.store(bytes, Ordering::Release);
        self.is_closed.store(false, Ordering::Release);
    }

    /// Lets in whatever comes.
    pub(crate) fn unbind(&self) {
        self.bind(usize::MAX);
    }

    /// Whether deliveries are dropped with all that belongs to them, because one has exceeded the
    /// intake. They go back when their channel ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Judges a delivery whose body and properties take `bytes`. The first one that does not fit
    /// closes the intake.
    pub(crate) fn admit(&self, tag: u64, bytes: usize) -> Admission {
        let bytes = bytes.saturating_add(DELIVERY);
        let taken = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| match left {
            usize::MAX => Some(left),
            left => left.checked_sub(bytes),
        });
        if taken.is_ok() {
            return Admission::Whole;
        }
        self.exceeded_by.store(tag, Ordering::Release);
        self.is_closed.store(true, Ordering::Release);
        self.exceeded.notify_one();
        Admission::Hollow
    }

    /// Whether this delivery came without its content.
    pub(crate) fn was_exceeded_by(&self, tag: u64) -> bool {
        self.exceeded_by.load(Ordering::Acquire) == tag
    }

    /// Whether a delivery has exceeded it since it was opened.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded_by.load(Ordering::Acquire) != 0
    }

    /// Ends when a delivery has exceeded the intake.
    pub(crate) async fn exceeded(&self) {
        while !self.is_exceeded() {
            self.exceeded.notified().await;
        }
    }
}
