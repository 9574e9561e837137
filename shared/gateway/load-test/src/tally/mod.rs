//! Counts of a step, and the sum of all steps.

mod figures;
mod latencies;
mod points;
mod sequences;
mod sum;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use figures::Figures;
pub(crate) use latencies::Latencies;
pub(crate) use sequences::Sequences;
pub use sum::Sum;
pub(crate) use times::Times;

use crate::micros::Micros;
use crate::plan::Step;

/// Counts of one step so far. A step stores its tally again and again, each time in place of the
/// one before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tally {
    step: Step,
    from: Micros,
    until: Micros,
    is_last: bool,
    figures: Figures,
    #[serde(skip)]
    recording: Recording,
}

/// State of a step while it counts messages.
#[derive(Clone, Debug, Default)]
struct Recording {
    producers: u32,
    measured_from: Micros,
    /// Last sequence number that was received of each producer.
    last: BTreeMap<u32, u64>,
}

/// State of a producer from when a message was due until it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The broker let the producer send. If the message is late, the producer is the reason.
    Free,
    /// The broker held the producer back: too many confirms were outstanding, the connection was
    /// blocked, or a commit took its time.
    HeldBack,
}

/// Reason why bytes are not a tally.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum TallyError {
    #[error("the tally has format {0:?}, which this version does not know")]
    Version(Option<u8>),
    #[error("the tally is damaged")]
    Damaged(#[source] postcard::Error),
}

impl Tally {
    /// Lateness from which a message counts as late: the imprecision of a timer.
    pub const LATE: Micros = Micros::new(10_000);
    const VERSION: u8 = 2;

    /// Begins to count for a step that works from `from` on. Latencies of messages that are due
    /// before `measured_from` are not recorded.
    #[must_use]
    pub fn new(step: Step, from: Micros, producers: u32, measured_from: Micros) -> Self {
        let recording = Recording { producers, measured_from, last: BTreeMap::new() };
        Self { step, from, until: from, is_last: false, figures: Figures::new(producers), recording }
    }

    /// Returns the step whose work the tally counts.
    #[must_use]
    pub const fn step(&self) -> Step {
        self.step
    }

    /// Counts a message that was due at `due` and handed to the broker at `at`.
    pub fn sent(&mut self, sequence: u64, due: Micros, at: Micros, sender: Sender) {
        self.figures.sent.insert(sequence);
        let point = self.figures.points.at(at);
        point.sent = point.sent.saturating_add(1);
        self.figures.sent_at.note(at);
        if due < self.recording.measured_from {
            return;
        }
        self.figures.lateness.record(due, at);
        if at.since(due) > Self::LATE {
            let late = match sender {
                Sender::Free => &mut self.figures.late,
                Sender::HeldBack => &mut self.figures.held_back,
            };
            *late = late.saturating_add(1);
        }
    }

    /// Counts a message that the broker confirmed at `at`.
    pub fn confirmed(&mut self, sequence: u64, due: Micros, at: Micros) {
        self.figures.confirmed.insert(sequence);
        let point = self.figures.points.at(at);
        point.confirmed = point.confirmed.saturating_add(1);
        self.figures.confirmed_at.note(at);
        if due >= self.recording.measured_from {
            self.figures.put.record(due, at);
        }
    }

    /// Counts a message that the broker refused.
    pub fn refused(&mut self, sequence: u64) {
        self.figures.refused.insert(sequence);
    }

    /// Counts a message of the test that a consumer received at `at`. A message that came before to
    /// this step is only doubled: it is not in the points, its latency is not recorded again, and
    /// its order does not count.
    pub fn received(&mut self, sequence: u64, due: Micros, at: Micros) {
        if !self.figures.received.insert(sequence) {
            self.figures.doubled.insert(sequence);
            return;
        }
        self.took_at(at);
        if due >= self.recording.measured_from {
            self.figures.end_to_end.record(due, at);
        }
        let producers = u64::from(self.recording.producers.max(1));
        let producer = u32::try_from(sequence % producers).unwrap_or(u32::MAX);
        let last = self.recording.last.entry(producer).or_insert(sequence);
        if sequence < *last {
            let count = self.figures.out_of_order.entry(producer).or_default();
            *count = count.saturating_add(1);
        } else {
            *last = sequence;
        }
    }

    /// Counts a foreign message that a consumer took at `at`. It counts as received only in a test
    /// without producers: next to messages of the test it would not be part of the throughput.
    pub fn foreign(&mut self, at: Micros) {
        self.figures.foreign_taken = self.figures.foreign_taken.saturating_add(1);
        if self.recording.producers == 0 {
            self.took_at(at);
        }
    }

    /// Counts a message in the points.
    fn took_at(&mut self, at: Micros) {
        let point = self.figures.points.at(at);
        point.received = point.received.saturating_add(1);
        self.figures.received_at.note(at);
    }

    /// Records the number of messages on all queues of the test, measured at `at`.
    pub fn retained(&mut self, at: Micros, messages: u64) {
        let point = self.figures.points.at(at);
        point.retained = point.retained.max(Some(messages));
    }

    /// Records how far the step has come: it did, or gave up, everything that was due before
    /// `until`.
    pub fn worked_until(&mut self, until: Micros) {
        self.until = self.until.max(until);
    }

    /// Records that the worker has nothing left to do in later windows: its messages are all sent,
    /// the queue is drained, or the test is being stopped.
    pub const fn was_last(&mut self) {
        self.is_last = true;
    }

    /// Records the time of the invocation, and the processor's share of it, so far.
    pub fn took(&mut self, billed: Duration, cpu: Duration) {
        self.figures.billed = billed.into();
        self.figures.cpu = cpu.into();
    }

    /// Returns the number of messages that the step sent or took: foreign ones included, and each
    /// message of the test once.
    #[must_use]
    pub fn handled_count(&self) -> u64 {
        let Figures { sent, received, foreign_taken, .. } = &self.figures;
        [sent.len(), received.len(), *foreign_taken].into_iter().fold(0, u64::saturating_add)
    }

    /// Encodes the tally: a version, and its members in postcard. Sets are in the portable form of
    /// Roaring bitmaps, histograms in HdrHistogram's V2 format with deflate.
    ///
    /// # Errors
    /// Only if compression itself fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_extend(self, vec![Self::VERSION])
    }

    /// Decodes a tally, which takes no further counts.
    ///
    /// # Errors
    /// If the bytes are of another version, or not complete.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TallyError> {
        match bytes.split_first() {
            Some((&Self::VERSION, members)) => postcard::from_bytes(members).map_err(TallyError::Damaged),
            other => Err(TallyError::Version(other.map(|(version, _)| *version))),
        }
    }
}
