//! Times of the first and of the last event of one kind.

use serde::{Deserialize, Serialize};

use crate::micros::Micros;

/// Times since the run's start of the first and of the last event of one kind, such as the sending
/// of a message; `None` before the first event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times(Option<(Micros, Micros)>);

impl Times {
    /// Records an event at `at`, a time since the run's start.
    pub(crate) fn note(&mut self, at: Micros) {
        self.add(Self(Some((at, at))));
    }

    /// Adds the events of another tally, so that the two times span the events of both tallies.
    pub(crate) fn add(&mut self, other: Self) {
        self.0 = match (self.0, other.0) {
            (Some((first, last)), Some((other_first, other_last))) => {
                Some((first.min(other_first), last.max(other_last)))
            }
            (own, other) => own.or(other),
        };
    }

    /// Returns the times of the first and of the last event; `None` without events.
    pub(crate) const fn bounds(self) -> Option<(Micros, Micros)> {
        self.0
    }

    /// Returns the time one microsecond after the last event; zero without events.
    pub(crate) fn end(self) -> Micros {
        self.0.map_or(Micros::ZERO, |(_, last)| last.plus(Micros::new(1)))
    }
}
