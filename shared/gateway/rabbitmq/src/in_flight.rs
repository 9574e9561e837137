//! Messages in flight: published, and not answered yet as far as their publisher has looked.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Instant;

use broker::load::MOST_IN_FLIGHT;

use crate::publish::{Answer, Publish};

/// Number of answers to wait for at once if many are missing: waking up for each of them costs more
/// than handling them.
pub(crate) const BATCH: usize = 64;

/// Messages in flight in the order of publishing, each with its publisher's mark. Answers are read
/// in this order, because then only the oldest has to be awaited.
pub(crate) struct InFlight<'a, T> {
    messages: VecDeque<Message<'a, T>>,
    bytes: usize,
}

struct Message<'a, T> {
    mark: T,
    bytes: usize,
    at: Instant,
    publish: Publish<'a>,
}

/// A message that is not in flight any more.
#[derive(Debug)]
pub(crate) struct Landed<T> {
    pub(crate) mark: T,
    /// Time at which the message was published.
    pub(crate) at: Instant,
    pub(crate) answer: Answer,
}

impl<T> Default for InFlight<'_, T> {
    fn default() -> Self {
        Self { messages: VecDeque::new(), bytes: 0 }
    }
}

impl<'a, T> InFlight<'a, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// True if another message may be in flight beside at most `most - 1` others.
    pub(crate) fn has_room(&self, most: usize) -> bool {
        self.messages.len() < most && self.bytes < MOST_IN_FLIGHT
    }

    /// Adds a message with a body of `bytes` bytes that was published `at` this time.
    pub(crate) fn push(&mut self, mark: T, bytes: usize, at: Instant, publish: Publish<'a>) {
        self.bytes += bytes;
        self.messages.push_back(Message { mark, bytes, at, publish });
    }

    /// Waits until several messages have their confirms, fewer if few are in flight.
    pub(crate) async fn some_answered(&mut self) {
        self.answered(BATCH.min(self.messages.len() / 8)).await;
    }

    /// Waits for the answers to the message at `index`, or the last one, and to the oldest. The
    /// first is usually the last to arrive, so one wake-up covers all those before it; the second
    /// is the one without which no other is read if answers arrive in another order.
    pub(crate) async fn answered(&mut self, index: usize) {
        let index = index.min(self.messages.len().saturating_sub(1));
        for index in [index, 0] {
            if let Some(Message { publish, .. }) = self.messages.get_mut(index) {
                poll_fn(|cx| publish.poll_answer(cx)).await;
            }
        }
    }

    /// Takes the oldest message if it was answered.
    pub(crate) fn take_answered(&mut self) -> Option<Landed<T>> {
        let answer = self.messages.front_mut()?.publish.take_answer()?;
        let Message { mark, bytes, at, .. } = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(Landed { mark, at, answer })
    }

    /// Takes all messages. Later answers count even after a missing one.
    pub(crate) fn take_all(&mut self) -> Vec<Landed<T>> {
        self.bytes = 0;
        let landed = |Message { mark, at, mut publish, .. }: Message<'a, T>| {
            let answer = publish.take_answer().unwrap_or(Answer::MISSING);
            Landed { mark, at, answer }
        };
        self.messages.drain(..).map(landed).collect()
    }
}
