//! How many bytes of a queue's messages are in memory at most. The client library assembles every
//! message that a broker delivers, and RabbitMQ has no prefetch by bytes, so what lies on a queue
//! would decide how much memory a function needs. The filter under the library sees a message's
//! size before its body: what exceeds the intake gets no further.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The most bytes that the messages of one fetch take in memory, whatever lies on the queue.
pub const MOST_HELD: usize = 32 * 1024 * 1024;

/// What the headers of a message that is held alone may take in memory.
const HEADERS: usize = 4 * 1024 * 1024;

/// The most bytes that a message takes in memory that is held alone, if its body has `body` bytes:
/// the library's buffer grows while it assembles the body, and a body that is stored is copied.
#[must_use]
pub const fn held_alone(body: usize) -> usize {
    body.saturating_mul(2).saturating_add(HEADERS)
}

/// What a delivery takes beside its content: the library's own notes, and the gateway's form of a
/// message.
const DELIVERY: usize = 1024;

/// What a connection lets in. It is bound for a fetch; whoever uses a channel directly takes what
/// comes.
#[derive(Debug)]
pub(crate) struct Intake {
    left: AtomicUsize,
    /// What the next delivery may take, whatever is left for all; 0 for nothing more than that.
    alone: AtomicUsize,
    is_closed: AtomicBool,
    /// The tag of the delivery that exceeded the intake; tags begin at 1.
    exceeded_by: AtomicU64,
    exceeded: Notify,
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Whole,
    /// The first that exceeds the intake: the library is given it without its body, so that the
    /// fetch learns of it.
    Hollow,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            left: AtomicUsize::new(usize::MAX),
            alone: AtomicUsize::new(0),
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
        self.alone.store(0, Ordering::Release);
        self.left.store(bytes, Ordering::Release);
        self.is_closed.store(false, Ordering::Release);
    }

    /// Lets in the next delivery also if it takes more than is left for all, up to `bytes`. Nothing
    /// is let in with it then.
    pub(crate) fn let_in_alone(&self, bytes: usize) {
        self.alone.store(bytes, Ordering::Release);
    }

    /// Lets in whatever comes.
    pub(crate) fn unbind(&self) {
        self.bind(usize::MAX);
    }

    /// Whether a fetch has bound it, which knows what a message looks like that was let in.
    pub(crate) fn is_bound(&self) -> bool {
        self.left.load(Ordering::Acquire) != usize::MAX
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
        if bytes <= self.alone.swap(0, Ordering::AcqRel) {
            self.left.store(self.left.load(Ordering::Acquire).saturating_sub(bytes), Ordering::Release);
            return Admission::Whole;
        }
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

    /// Whether this delivery came without its body.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_delivery_may_exceed_what_all_may_take_and_nothing_comes_in_with_it() {
        let intake = Intake::default();
        for (alone, first, more, expected) in [
            (100_000, 90_000, 0, (Admission::Whole, Some(Admission::Hollow))),
            (100_000, 100_000, 0, (Admission::Hollow, None)),
            (100_000, 1_000, 2_000, (Admission::Whole, Some(Admission::Whole))),
            (100_000, 1_000, 90_000, (Admission::Whole, Some(Admission::Hollow))),
            (0, 90_000, 0, (Admission::Hollow, None)),
        ] {
            intake.bind(10_000);
            intake.let_in_alone(alone);
            let admitted = intake.admit(1, first);
            let next = (!intake.is_closed()).then(|| intake.admit(2, more));
            assert_eq!((admitted, next), expected, "{alone} {first} {more}");
        }
        intake.let_in_alone(100_000);
        intake.bind(10_000);
        assert_eq!(intake.admit(1, 90_000), Admission::Hollow, "a new bound begins anew");
    }
}
