//! Messages in flight: published messages to which the publisher has not read the broker's answer
//! yet.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::time::Instant;

use broker::load::MOST_IN_FLIGHT;

use crate::errors::Failure;
use crate::publish::{Answer, Outcome, Publish};

/// Number of answers to wait for at once if many are missing, since each wake-up costs more than
/// processing an answer.
pub(crate) const BATCH: usize = 64;

/// Published messages whose answer (the broker's confirm or refusal) was not read yet, in the order
/// of publishing. Answers are read in this order, so that only the oldest message has to be
/// awaited. `T` is a value that the publisher attaches to each message (its mark).
pub(crate) struct InFlight<'a, T> {
    messages: VecDeque<Message<'a, T>>,
    bytes: usize,
    /// Ids of the messages that the broker returned as unroutable, according to the answers read so
    /// far.
    pub(crate) returned: HashSet<String>,
    /// True if the broker refused a message with `basic.nack`.
    pub(crate) was_refused: bool,
    pub(crate) failure: Option<Failure>,
}

struct Message<'a, T> {
    mark: T,
    bytes: usize,
    at: Instant,
    publish: Publish<'a>,
}

/// Published message whose answer (the broker's confirm or refusal) was read, or will not arrive
/// any more.
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

    /// True if another message may be published: fewer than `most` messages and fewer than
    /// [`MOST_IN_FLIGHT`] bytes of message bodies are unconfirmed.
    pub(crate) fn has_room(&self, most: usize) -> bool {
        self.messages.len() < most && self.bytes < MOST_IN_FLIGHT
    }

    /// Adds a message that was published at the time `at`, with a body of `bytes` bytes. `mark` is
    /// the publisher's value for the message.
    pub(crate) fn push(&mut self, mark: T, bytes: usize, at: Instant, publish: Publish<'a>) {
        self.bytes += bytes;
        self.messages.push_back(Message { mark, bytes, at, publish });
    }

    /// Waits until an eighth of the messages in flight are answered, at most [`BATCH`].
    pub(crate) async fn some_answered(&mut self) {
        self.answered(BATCH.min(self.messages.len() / 8)).await;
    }

    /// Waits for the answer to the message at `index` (at most the last one), and then for the
    /// answer to the oldest message. Answers usually arrive in order, so the first wait covers all
    /// messages before `index` with one wake-up. The second wait is needed if the order differs.
    pub(crate) async fn answered(&mut self, index: usize) {
        let index = index.min(self.messages.len().saturating_sub(1));
        for index in [index, 0] {
            if let Some(Message { publish, .. }) = self.messages.get_mut(index) {
                poll_fn(|cx| publish.poll_answer(cx)).await;
            }
        }
    }

    /// Removes and returns the oldest message, if it is answered; otherwise returns `None`.
    pub(crate) fn take_answered(&mut self) -> Option<Landed<T>> {
        let answer = self.messages.front_mut()?.publish.take_answer()?;
        let Message { mark, bytes, at, .. } = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(self.land(mark, at, answer))
    }

    /// Removes and returns all messages. Unlike [`Self::take_answered`], it also reads the answers
    /// to messages after one whose answer is missing.
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

    /// Records why publishing failed. The failure replaces an earlier one only if it has a reply
    /// code of the broker, which explains more.
    pub(crate) fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() || failure.reply().is_some() {
            self.failure = Some(failure);
        }
    }
}
