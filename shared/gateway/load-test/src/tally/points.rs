//! Figures of each second of a load test's run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::micros::Micros;

/// Figures of one second of a run: the number of messages sent, confirmed and received, and the
/// number of messages on the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) sent: u64,
    pub(crate) confirmed: u64,
    pub(crate) received: u64,
    /// Number of messages on all queues of the test; `None` if they were not measured in this
    /// second.
    pub(crate) retained: Option<u64>,
}

/// Figures of each second of a run, by the number of the second since the run's start. A second
/// without events has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Points(BTreeMap<u32, Point>);

impl Point {
    /// Adds other figures of the same second. The number of messages on the queues becomes the
    /// larger of the two numbers and not their sum, because both are of the same queues.
    fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.confirmed = self.confirmed.saturating_add(other.confirmed);
        self.received = self.received.saturating_add(other.received);
        self.retained = self.retained.max(other.retained);
    }
}

impl Points {
    /// Returns the figures of the second that contains `at`, and creates them if they are missing.
    pub(crate) fn at(&mut self, at: Micros) -> &mut Point {
        let second = u32::try_from(at.whole_seconds()).unwrap_or(u32::MAX);
        self.0.entry(second).or_default()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (second, point) in &other.0 {
            self.0.entry(*second).or_default().add(point);
        }
    }

    /// Returns the number and the figures of each second that has events, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Point)> {
        self.0.iter().map(|(second, point)| (*second, point))
    }

    /// Returns the sum of the figures of several seconds: from the second that contains `from`
    /// until before the second that contains `to`.
    pub(crate) fn sum(&self, from: Micros, to: Micros) -> Point {
        let mut sum = Point::default();
        for (second, point) in self.iter() {
            if (from.whole_seconds()..to.whole_seconds()).contains(&u64::from(second)) {
                sum.add(point);
            }
        }
        sum
    }

    /// Returns the largest number of messages on the queues in any second of the run; `None` if the
    /// queues were never measured.
    pub(crate) fn most_retained(&self) -> Option<u64> {
        self.0.values().filter_map(|point| point.retained).max()
    }
}
