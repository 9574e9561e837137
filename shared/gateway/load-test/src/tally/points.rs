//! Figures of each second.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::micros::Micros;

/// Events in one second of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) sent: u64,
    pub(crate) confirmed: u64,
    pub(crate) received: u64,
    /// Messages on the queues; `None` if they were not measured in this second.
    pub(crate) retained: Option<u64>,
}

/// Points by the second since the test's start. A second without events has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Points(BTreeMap<u32, Point>);

impl Point {
    /// Adds the counts of another tally in the same second. Workers measure the same queues, so
    /// the largest number of messages on them counts.
    fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.confirmed = self.confirmed.saturating_add(other.confirmed);
        self.received = self.received.saturating_add(other.received);
        self.retained = self.retained.max(other.retained);
    }
}

impl Points {
    /// Returns the point that counts the second of `at`, and makes it if it is missing.
    pub(crate) fn at(&mut self, at: Micros) -> &mut Point {
        let second = u32::try_from(at.whole_seconds()).unwrap_or(u32::MAX);
        self.0.entry(second).or_default()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (second, point) in &other.0 {
            self.0.entry(*second).or_default().add(point);
        }
    }

    /// Returns the seconds and their points, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Point)> {
        self.0.iter().map(|(second, point)| (*second, point))
    }

    /// Returns the sum over the seconds from `from` until before `to`.
    pub(crate) fn sum(&self, from: Micros, to: Micros) -> Point {
        let mut sum = Point::default();
        for (second, point) in self.iter() {
            if (from.whole_seconds()..to.whole_seconds()).contains(&u64::from(second)) {
                sum.add(point);
            }
        }
        sum
    }

    /// Returns the largest number of messages on the queues in any second; `None` if they were not
    /// measured.
    pub(crate) fn most_retained(&self) -> Option<u64> {
        self.0.values().filter_map(|point| point.retained).max()
    }
}
