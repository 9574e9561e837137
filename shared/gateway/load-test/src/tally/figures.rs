//! Counts and latencies of a worker's messages, in a form that can be added up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::latencies::Latencies;
use super::points::Points;
use super::sequences::Sequences;
use super::times::Times;
use crate::micros::Micros;

/// Counts and latencies of one step (a worker's attempt at one minute of the test), or of several
/// steps of a run together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) sent: Sequences,
    pub(crate) confirmed: Sequences,
    pub(crate) refused: Sequences,
    pub(crate) received: Sequences,
    /// Sequence numbers of the messages that were received more than once.
    pub(crate) doubled: Sequences,
    /// Number of messages that were received after a later message of the same producer, by the
    /// number of the producer.
    pub(crate) out_of_order: BTreeMap<u32, u64>,
    /// Number of messages that the worker took although this load test did not put them.
    pub(crate) foreign_taken: u64,
    /// Number of messages that were sent more than 10 ms late although the broker did not hold the
    /// producer back.
    pub(crate) late: u64,
    /// Number of messages that were sent more than 10 ms late because the broker held the producer
    /// back.
    pub(crate) held_back: u64,
    pub(crate) put: Latencies,
    pub(crate) end_to_end: Latencies,
    pub(crate) lateness: Latencies,
    pub(crate) points: Points,
    pub(crate) sent_at: Times,
    pub(crate) confirmed_at: Times,
    /// Times of the first and of the last message that the figures of each second count as
    /// received.
    pub(crate) received_at: Times,
    /// Processor time of the invocations whose messages these figures count.
    pub(crate) cpu: Micros,
    /// Billed duration of the invocations whose messages these figures count.
    pub(crate) billed: Micros,
}

impl Figures {
    /// Creates the empty figures of a step (a worker's attempt at one minute of the test).
    /// `producers` is the test's number of producers.
    pub(crate) fn new(producers: u32) -> Self {
        let none = Sequences::new(producers);
        Self {
            sent: none.clone(),
            confirmed: none.clone(),
            refused: none.clone(),
            received: none.clone(),
            doubled: none,
            ..Self::default()
        }
    }

    /// Adds the figures of another step (a worker's attempt at one minute of the test). A message
    /// that both steps received counts as doubled.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent.add(&other.sent);
        self.confirmed.add(&other.confirmed);
        self.refused.add(&other.refused);
        self.doubled.add(&other.doubled);
        self.doubled.add(&self.received.common(&other.received));
        self.received.add(&other.received);
        for (producer, count) in &other.out_of_order {
            let total = self.out_of_order.entry(*producer).or_default();
            *total = total.saturating_add(*count);
        }
        self.foreign_taken = self.foreign_taken.saturating_add(other.foreign_taken);
        self.late = self.late.saturating_add(other.late);
        self.held_back = self.held_back.saturating_add(other.held_back);
        self.put.add(&other.put);
        self.end_to_end.add(&other.end_to_end);
        self.lateness.add(&other.lateness);
        self.points.add(&other.points);
        self.sent_at.add(other.sent_at);
        self.confirmed_at.add(other.confirmed_at);
        self.received_at.add(other.received_at);
        self.cpu = self.cpu.plus(other.cpu);
        self.billed = self.billed.plus(other.billed);
    }
}
