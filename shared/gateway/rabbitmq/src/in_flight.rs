//! Messages in flight: published, and not answered yet as far as their publisher has looked.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::time::Instant;

use broker::load::MOST_IN_FLIGHT;

use crate::errors::Failure;
use crate::publish::{Answer, Outcome, Publish};

/// Number of answers to wait for at once if many are missing: waking up for each of them costs more
/// than handling them.
pub(crate) const BATCH: usize = 64;

/// Messages in flight in the order of publishing, each with its publisher's mark. Answers are read
/// in this order, because then only the oldest has to be awaited.
pub(crate) struct InFlight<'a, T> {
    messages: VecDeque<Message<'a, T>>,
    bytes: usize,
    /// Ids of the messages that the broker returned as unroutable, as far as the answers are read.
    pub(crate) returned: HashSet<String>,
    /// True if the broker refused a message.
    pub(crate) was_refused: bool,
    pub(crate) failure: Option<Failure>,
}

struct Message<'a, T> {
    mark: T,
    bytes: usize,
    at: Instant,
    publish: Publish<'a>,
}

/// Message whose answer has arrived, or is missing for good.
#[derive(Debug)]
pub(crate) struct Landed<T> {
    pub(crate) mark: T,
    /// Time at which the message was published.
    pub(crate) at: Instant,
    pub(crate) outcome: Outcome,
}

impl<T> Default for InFlight<'_, T> {
    fn default() -> Self {
        Self {
            messages: VecDeque::new(),
            bytes: 0,
            returned: HashSet::new(),
            was_refused: false,
            failure: None,
        }
    }
}

impl<'a, T> InFlight<'a, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// True if another message may be published: fewer than `most` messages, and fewer than
    /// [`MOST_IN_FLIGHT`] bytes, are in flight.
    pub(crate) fn has_room(&self, most: usize) -> bool {
        self.messages.len() < most && self.bytes < MOST_IN_FLIGHT
    }

    /// Adds a message with a body of `bytes` bytes that was published `at` this time.
    pub(crate) fn push(&mut self, mark: T, bytes: usize, at: Instant, publish: Publish<'a>) {
        self.bytes += bytes;
        self.messages.push_back(Message { mark, bytes, at, publish });
    }

    /// Waits until the broker has answered several messages, or fewer if few are in flight.
    pub(crate) async fn some_answered(&mut self) {
        self.answered(BATCH.min(self.messages.len() / 8)).await;
    }

    /// Waits for the answer to the message at `index`, or to the last one if there are fewer, and
    /// then for the answer to the oldest. Answers usually arrive in order, so the first wait covers
    /// all messages before `index` with one wake-up. The second wait is for answers in another
    /// order, which cannot be read before the oldest has its own.
    pub(crate) async fn answered(&mut self, index: usize) {
        let index = index.min(self.messages.len().saturating_sub(1));
        for index in [index, 0] {
            if let Some(Message { publish, .. }) = self.messages.get_mut(index) {
                poll_fn(|cx| publish.poll_answer(cx)).await;
            }
        }
    }

    /// Takes the oldest message if its answer has arrived.
    pub(crate) fn take_answered(&mut self) -> Option<Landed<T>> {
        let answer = self.messages.front_mut()?.publish.take_answer()?;
        let Message { mark, bytes, at, .. } = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(self.land(mark, at, answer))
    }

    /// Takes all messages. A message without an answer does not hold back the answers to later
    /// ones.
    pub(crate) fn take_all(&mut self) -> Vec<Landed<T>> {
        self.bytes = 0;
        let messages = std::mem::take(&mut self.messages);
        let land = |Message { mark, at, mut publish, .. }: Message<'a, T>| {
            let answer = publish.take_answer().unwrap_or(Answer::MISSING);
            self.land(mark, at, answer)
        };
        messages.into_iter().map(land).collect()
    }

    fn land(&mut self, mark: T, at: Instant, Answer { outcome, returned, failure }: Answer) -> Landed<T> {
        self.was_refused |= outcome == Outcome::Refused;
        self.returned.extend(returned);
        if let Some(failure) = failure {
            self.fail(failure);
        }
        Landed { mark, at, outcome }
    }

    /// Keeps the most informative failure: the broker's own reply, if there is one.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() || failure.reply().is_some() {
            self.failure = Some(failure);
        }
    }
}
