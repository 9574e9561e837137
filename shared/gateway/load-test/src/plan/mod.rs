//! Plan of a load test: its workers, and the minutes in which each of their invocations works.
//!
//! A worker is a producer or a consumer. Time is cut into windows of a minute, counted from the
//! run's start, and one invocation works in one window. So that the next invocation is connected
//! before its window opens, a worker has two lanes (series of invocations): lane A works in the
//! even windows, lane B in the odd ones. The work of an invocation follows from the run's start,
//! the lane and the window alone.

mod lane;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use lane::{Lane, MinuteParity, NameError, Role, Step, Worker};
pub use window::Window;

use crate::definition::LoadTest;
use crate::micros::Micros;

/// Plan of a run of a load test: the number of producers and consumers, and the times since the
/// run's start at which they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    producers: u32,
    consumers: u32,
    produced_until: Micros,
    consumed_until: Micros,
}

impl Plan {
    /// Time by which the invocation for a window (a minute of the test) starts earlier than the
    /// window: 3 seconds for a cold start and the handshakes with the broker.
    pub const LEAD: Duration = Duration::from_secs(3);
    /// Longest time for which consumers continue after the last message is due, to empty the
    /// queues: 300 seconds.
    pub const DRAIN: Micros = Micros::from_seconds(300);

    /// Builds the plan of one run of a load test: the single run of `test`, or a probe of a search.
    #[must_use]
    pub fn of(test: &LoadTest) -> Self {
        let longest = test.longest();
        let has_both = test.producers.is_some() && test.consumers.is_some();
        let drain = if has_both { Self::DRAIN } else { Micros::ZERO };
        Self {
            producers: test.producer_count(),
            consumers: test.consumer_count(),
            produced_until: longest,
            consumed_until: longest.plus(drain),
        }
    }

    /// Returns all workers of the run: first the producers, then the consumers.
    pub fn workers(&self) -> impl Iterator<Item = Worker> {
        let of_role = |role, count| (0..count).map(move |number| Worker { role, number });
        of_role(Role::Producer, self.producers).chain(of_role(Role::Consumer, self.consumers))
    }

    /// Returns the lanes (series of invocations) of all workers of the run. Each worker has two
    /// lanes, which take turns by the minute; a worker with a single minute of work has only one.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.workers()
            .flat_map(|worker| [MinuteParity::Even, MinuteParity::Odd].map(|parity| Lane { worker, parity }))
            .filter(|lane| self.next(*lane, None).is_some())
    }

    /// Returns the planned end of the producers or of the consumers, as time since the run's start.
    #[must_use]
    pub const fn until(&self, role: Role) -> Micros {
        match role {
            Role::Producer => self.produced_until,
            Role::Consumer => self.consumed_until,
        }
    }

    /// Returns the number of windows (minutes of the test) in which a producer or a consumer works.
    /// A partial last minute counts.
    #[must_use]
    pub fn windows(&self, role: Role) -> u32 {
        let windows = self.until(role).get().div_ceil(Window::LENGTH.get());
        u32::try_from(windows).unwrap_or(u32::MAX)
    }

    /// Returns the window (minute of the test) in which the lane (a worker's series of invocations)
    /// works after the window `last`. If `last` is `None`, returns the lane's first window. `None`
    /// if the lane has no window left.
    #[must_use]
    pub fn next(&self, lane: Lane, last: Option<Window>) -> Option<Window> {
        let next = match (last, lane.parity) {
            (None, MinuteParity::Even) => 0,
            (None, MinuteParity::Odd) => 1,
            (Some(last), _) => last.number().checked_add(2)?,
        };
        (next < self.windows(lane.worker.role)).then_some(Window::new(next))
    }

    /// Returns the time since the run's start until which a worker of this role works in a window
    /// (minute of the test): the window's end, or the planned end of the role's work if that is
    /// earlier.
    #[must_use]
    pub fn end_of(&self, role: Role, window: Window) -> Micros {
        window.closes().min(self.until(role))
    }

    /// Returns the time at which the invocation for a window (minute of the test) starts,
    /// [`Plan::LEAD`] before the window opens. `start` is the run's start.
    #[must_use]
    pub fn starts_at(start: Timestamp, window: Window) -> Timestamp {
        window.opens().of_day(start).checked_sub(Self::LEAD).unwrap_or(start)
    }
}
