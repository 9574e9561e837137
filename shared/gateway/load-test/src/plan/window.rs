use serde::{Deserialize, Serialize};

use super::MinuteParity;
use crate::micros::Micros;

/// Window: one minute of a load test's run. Window 0 begins at the run's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Window(u32);

impl Window {
    /// Length of a window: one minute.
    pub const LENGTH: Micros = Micros::from_seconds(60);

    /// Creates the window with this number; the run's first minute is window 0.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the window that contains `at`, a time since the run's start.
    #[must_use]
    pub fn of(at: Micros) -> Self {
        Self(u32::try_from(at.get() / Self::LENGTH.get()).unwrap_or(u32::MAX))
    }

    /// Returns the number of the window, counted from 0.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the time at which the window opens, measured from the run's start.
    #[must_use]
    pub const fn opens(self) -> Micros {
        Micros::new(Self::LENGTH.get() * self.0 as u64)
    }

    /// Returns the time since the run's start at which the window closes, and the next one opens.
    #[must_use]
    pub const fn closes(self) -> Micros {
        self.opens().plus(Self::LENGTH)
    }

    /// Returns which of a worker's two lanes (series of invocations) works in this window: lane A
    /// in windows with an even number, lane B in windows with an odd number.
    #[must_use]
    pub const fn parity(self) -> MinuteParity {
        if self.0.is_multiple_of(2) { MinuteParity::Even } else { MinuteParity::Odd }
    }
}
