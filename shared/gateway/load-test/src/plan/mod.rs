//! Who works when: workers, their lanes, and the windows of each lane.
//!
//! A worker is a producer or a consumer. Time is cut into windows of a minute, counted from the
//! test's start, and one invocation works in one window. So that the next invocation is connected
//! before its window opens, a worker has two lanes: lane A takes the even windows, lane B the odd
//! ones. Nothing but start, lane and window decides what an invocation does.

mod lane;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use lane::{Half, Lane, NameError, Role, Step, Worker};
pub use window::Window;

use crate::definition::LoadTest;
use crate::micros::Micros;

/// Plan of a run: the number of producers and consumers, and the times at which they end.
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

    /// Builds the plan of a load test that runs once, or of one run of a search.
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

    /// Returns the lanes (series of invocations) to start. Each worker has two lanes, which take
    /// turns by the minute; a worker with a single minute of work needs only one.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> {
        self.workers()
            .flat_map(|worker| [Half::Even, Half::Odd].map(|half| Lane { worker, half }))
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

    /// Returns the window (minute of the test) in which the lane (series of invocations) works
    /// after `last`, or its first window if `last` is `None`. Returns `None` if no window is left.
    #[must_use]
    pub fn next(&self, lane: Lane, last: Option<Window>) -> Option<Window> {
        let next = match (last, lane.half) {
            (None, Half::Even) => 0,
            (None, Half::Odd) => 1,
            (Some(last), _) => last.number().checked_add(2)?,
        };
        (next < self.windows(lane.worker.role)).then_some(Window::new(next))
    }

    /// Returns the time until which a worker works in a window (minute of the test): the window's
    /// end, or the planned end of the worker's role if that is earlier.
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
