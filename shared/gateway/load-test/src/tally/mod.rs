//! Tallies, which are the counts of a worker in one minute of the test, and the sum of all tallies
//! of a run.

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

/// Tally: counts and latencies of the messages that one step (a worker's attempt at one minute of
/// the test) has sent or received so far. A worker stores its tally about once a second, each time
/// in place of the previous one.
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

/// State that a worker needs while it counts messages in a tally. It is not stored with the tally.
#[derive(Clone, Debug, Default)]
struct Recording {
    producers: u32,
    measured_from: Micros,
    /// Highest sequence number that was received so far, by the number of the producer.
    last: BTreeMap<u32, u64>,
}

/// Reason why a message is late, if it is: the producer itself, or the broker that held the
/// producer back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateReason {
    /// The broker did not hold the producer back from when the message was due until it was sent,
    /// so the producer is the reason if the message is late.
    Producer,
    /// The broker held the producer back: too many confirms were outstanding, the connection was
    /// blocked, or a commit took its time.
    Broker,
}

/// Reason why stored bytes cannot be decoded as a tally (counts of a worker in one minute).
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum TallyError {
    #[error("the tally has format {0:?}, which this version does not know")]
    Version(Option<u8>),
    #[error("the tally is damaged")]
    Damaged(#[source] postcard::Error),
}

impl Tally {
    /// Time by which a message may be sent later than it was due without counting as late: 10 ms,
    /// because timers are not precise.
    pub const LATE: Micros = Micros::new(10_000);
    const VERSION: u8 = 2;

    /// Creates an empty tally for a step (a worker's attempt at one minute) that works from `from`
    /// on, in a test with `producers` producers. Times are measured from the run's start. For
    /// messages that are due before `measured_from`, the end of the warm-up, no latency is
    /// recorded.
    #[must_use]
    pub fn new(step: Step, from: Micros, producers: u32, measured_from: Micros) -> Self {
        let recording = Recording { producers, measured_from, last: BTreeMap::new() };
        Self { step, from, until: from, is_last: false, figures: Figures::new(producers), recording }
    }

    /// Returns the step (lane, minute of the test and attempt) whose work the tally counts.
    #[must_use]
    pub const fn step(&self) -> Step {
        self.step
    }

    /// Counts a message that was due at `due` and handed to the broker at `at`. `late_reason` tells
    /// whether the broker held the producer back meanwhile, which is the reason if the message is
    /// late.
    pub fn sent(&mut self, sequence: u64, due: Micros, at: Micros, late_reason: LateReason) {
        self.figures.sent.insert(sequence);
        let point = self.figures.points.at(at);
        point.sent = point.sent.saturating_add(1);
        self.figures.sent_at.note(at);
        if due < self.recording.measured_from {
            return;
        }
        self.figures.lateness.record(due, at);
        if at.since(due) > Self::LATE {
            let late = match late_reason {
                LateReason::Producer => &mut self.figures.late,
                LateReason::Broker => &mut self.figures.held_back,
            };
            *late = late.saturating_add(1);
        }
    }

    /// Counts a message that was due at `due` and that the broker confirmed at `at`.
    pub fn confirmed(&mut self, sequence: u64, due: Micros, at: Micros) {
        self.figures.confirmed.insert(sequence);
        let point = self.figures.points.at(at);
        point.confirmed = point.confirmed.saturating_add(1);
        self.figures.confirmed_at.note(at);
        if due >= self.recording.measured_from {
            self.figures.put.record(due, at);
        }
    }

    /// Counts a message that the broker refused, by its sequence number.
    pub fn refused(&mut self, sequence: u64) {
        self.figures.refused.insert(sequence);
    }

    /// Counts a message of this load test that was due at `due` and that a consumer received at
    /// `at`. If this step (attempt at a minute) received the message before, the message only
    /// counts as doubled, and not again in the figures of the second, the latencies or the messages
    /// out of order.
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

    /// Counts a foreign message, which a consumer took at `at` and which this load test did not
    /// put. It counts as received only if the test has no producers, so that it never adds to the
    /// throughput of the test's own messages.
    pub fn foreign(&mut self, at: Micros) {
        self.figures.foreign_taken = self.figures.foreign_taken.saturating_add(1);
        if self.recording.producers == 0 {
            self.took_at(at);
        }
    }

    /// Counts a received message in the figures of the second that contains `at`.
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

    /// Records that the worker has done, or given up, everything that was due before `until`.
    pub fn worked_until(&mut self, until: Micros) {
        self.until = self.until.max(until);
    }

    /// Records that the worker has nothing left to do in later minutes of the test: its messages
    /// are all sent, its queue is drained, or the test is being stopped.
    pub const fn was_last(&mut self) {
        self.is_last = true;
    }

    /// Records the billed duration of the invocation so far, and the processor time that it used.
    pub fn took(&mut self, billed: Duration, cpu: Duration) {
        self.figures.billed = billed.into();
        self.figures.cpu = cpu.into();
    }

    /// Returns the number of messages that the worker sent or took, as far as this tally counts
    /// them. Foreign messages (which the test did not put) are included. A message of the test that
    /// was received twice counts once.
    #[must_use]
    pub fn handled_count(&self) -> u64 {
        let Figures { sent, received, foreign_taken, .. } = &self.figures;
        [sent.len(), received.len(), *foreign_taken].into_iter().fold(0, u64::saturating_add)
    }

    /// Encodes the tally: one byte with the version, then the members in postcard. Sets are in the
    /// portable format of Roaring bitmaps, histograms in HdrHistogram's V2 format with deflate.
    ///
    /// # Errors
    /// If a histogram or a set cannot be serialized or compressed.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_extend(self, vec![Self::VERSION])
    }

    /// Decodes a stored tally. It can be read and added up, but must not count further messages.
    ///
    /// # Errors
    /// If the bytes have another version, or are not a complete tally.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TallyError> {
        match bytes.split_first() {
            Some((&Self::VERSION, members)) => postcard::from_bytes(members).map_err(TallyError::Damaged),
            other => Err(TallyError::Version(other.map(|(version, _)| *version))),
        }
    }
}
