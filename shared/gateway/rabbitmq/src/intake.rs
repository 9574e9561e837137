//! Limit on the bytes of a queue's messages that are in memory at once. The client library
//! assembles every message that a broker delivers, and RabbitMQ has no prefetch by bytes, so the
//! contents of a queue would decide how much memory a function needs. The frame filter under the
//! library sees a message's size before its body, and keeps deliveries over the limit from the
//! library.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Default maximum number of bytes of memory for the messages of one fetch.
pub const MOST_HELD: usize = 32 * 1024 * 1024;

/// Bytes of memory reserved for the headers of a message that is fetched alone.
const HEADERS: usize = 4 * 1024 * 1024;

/// Returns the maximum number of bytes of memory for one message with a body of `body` bytes that
/// is fetched alone. The body counts twice: the client library's buffer grows while assembling it,
/// and storing it takes a copy.
#[must_use]
pub const fn held_alone(body: usize) -> usize {
    body.saturating_mul(2).saturating_add(HEADERS)
}

/// Bytes of memory for a delivery besides its content: records of the client library, and the
/// gateway's form of the message.
const DELIVERY: usize = 1024;

/// Limit on the bytes of the deliveries that a connection passes on to the client library. A fetch,
/// a move or the consumer of a load test sets it; otherwise there is no limit.
#[derive(Debug)]
pub(crate) struct Intake {
    left: AtomicUsize,
    /// Bytes that the next delivery may take even beyond the remaining limit; 0 means that it has
    /// no exception.
    alone: AtomicUsize,
    is_closed: AtomicBool,
    /// Tag of the delivery that exceeded the limit; 0 if none did, since tags begin at 1.
    exceeded_by: AtomicU64,
    exceeded: Notify,
    /// Bytes of each delivery that the caller has not taken yet, oldest first, if the limit applies
    /// only to these ([`Self::bind_stream`]). `None` if it applies to all deliveries together.
    held: Mutex<Option<VecDeque<usize>>>,
}

/// Decision about a delivery: which part of it is passed on to the client library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Whole,
    /// The delivery is passed on without its body, because it is the first that exceeds the limit.
    /// The fetch recognizes it by its tag.
    WithoutBody,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            left: AtomicUsize::new(usize::MAX),
            alone: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            exceeded_by: AtomicU64::new(0),
            exceeded: Notify::new(),
            held: Mutex::default(),
        }
    }
}

impl Intake {
    /// Sets the limit to `bytes` for all later deliveries together, and forgets that the limit was
    /// exceeded.
    pub(crate) fn bind(&self, bytes: usize) {
        self.limit(bytes, None);
    }

    /// Sets the limit to `bytes` for the deliveries that are not [released](Self::release) yet, and
    /// forgets that the limit was exceeded.
    pub(crate) fn bind_stream(&self, bytes: usize) {
        self.limit(bytes, Some(VecDeque::new()));
    }

    fn limit(&self, bytes: usize, held: Option<VecDeque<usize>>) {
        self.exceeded_by.store(0, Ordering::Release);
        self.alone.store(0, Ordering::Release);
        *self.held() = held;
        self.left.store(bytes, Ordering::Release);
        self.is_closed.store(false, Ordering::Release);
    }

    /// Frees the bytes of the oldest delivery, which the caller has taken, for a limit that was set
    /// by [`Self::bind_stream`].
    pub(crate) fn release(&self) {
        let oldest = self.held().as_mut().and_then(VecDeque::pop_front);
        if let Some(bytes) = oldest {
            self.left.fetch_add(bytes, Ordering::AcqRel);
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<VecDeque<usize>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows the next delivery up to `bytes`, even beyond the remaining limit. It still counts
    /// towards the limit; if it uses that up, no later delivery fits.
    pub(crate) fn let_in_alone(&self, bytes: usize) {
        self.alone.store(bytes, Ordering::Release);
    }

    /// Removes the limit.
    pub(crate) fn unbind(&self) {
        self.bind(usize::MAX);
    }

    /// True if a limit is set. The caller that set it can handle deliveries that the frame filter
    /// has changed, for example those without their bodies.
    pub(crate) fn is_bound(&self) -> bool {
        self.left.load(Ordering::Acquire) != usize::MAX
    }

    /// True if a delivery has exceeded the limit. Later deliveries are dropped completely; the
    /// broker requeues them when their channel ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Decides about the delivery `tag`, whose body and properties take `bytes`. The first delivery
    /// that exceeds the limit closes the intake, so that later deliveries are dropped.
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
            if let Some(held) = self.held().as_mut() {
                held.push_back(bytes);
            }
            return Admission::Whole;
        }
        self.exceeded_by.store(tag, Ordering::Release);
        self.is_closed.store(true, Ordering::Release);
        self.exceeded.notify_one();
        Admission::WithoutBody
    }

    /// True if the delivery with this tag exceeded the limit and was passed on without its body.
    pub(crate) fn was_exceeded_by(&self, tag: u64) -> bool {
        self.exceeded_by.load(Ordering::Acquire) == tag
    }

    /// True if a delivery has exceeded the limit since the limit was last set.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded_by.load(Ordering::Acquire) != 0
    }

    /// Waits until a delivery has exceeded the limit.
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
            (100_000, 90_000, 0, (Admission::Whole, Some(Admission::WithoutBody))),
            (100_000, 100_000, 0, (Admission::WithoutBody, None)),
            (100_000, 1_000, 2_000, (Admission::Whole, Some(Admission::Whole))),
            (100_000, 1_000, 90_000, (Admission::Whole, Some(Admission::WithoutBody))),
            (0, 90_000, 0, (Admission::WithoutBody, None)),
        ] {
            intake.bind(10_000);
            intake.let_in_alone(alone);
            let admitted = intake.admit(1, first);
            let next = (!intake.is_closed()).then(|| intake.admit(2, more));
            assert_eq!((admitted, next), expected, "{alone} {first} {more}");
        }
        intake.let_in_alone(100_000);
        intake.bind(10_000);
        assert_eq!(intake.admit(1, 90_000), Admission::WithoutBody, "a new bound begins anew");
    }

    #[test]
    fn a_stream_may_be_longer_than_its_limit_as_long_as_deliveries_are_released() {
        let intake = Intake::default();
        intake.bind_stream(10_000);
        for tag in 1..100 {
            assert_eq!(intake.admit(tag, 3_000), Admission::Whole);
            if tag > 1 {
                intake.release();
            }
        }
        assert_eq!(intake.admit(100, 3_000), Admission::Whole);
        assert_eq!(intake.admit(101, 3_000), Admission::WithoutBody, "two are held");
        intake.bind(10_000);
        assert_eq!(intake.admit(1, 9_000), Admission::WithoutBody);
        intake.bind(20_000);
        assert_eq!(intake.admit(1, 9_000), Admission::Whole);
        intake.release();
        assert_eq!(intake.admit(2, 15_000), Admission::WithoutBody, "a fetch releases nothing");
    }
}
