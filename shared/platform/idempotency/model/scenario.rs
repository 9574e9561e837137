//! What a run of the checker covers.

use idempotency::Execution;
use stateright::{Model, Property};

use crate::broken::Guard;
use crate::steps::{Action, successors};
use crate::world::World;

/// Kind of work that the workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Consume: gets one message, stores it, and then removes it.
    Consume,
    /// Two messages are put, one after the other, with checkpoints.
    Produce,
    /// Puts one of two messages at its new place, notes it, and then removes it from the old one.
    Move,
}

/// A client's request, sent again after each refusal, and the functions that work for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Party {
    /// Fingerprint that stands for the body.
    pub(crate) fingerprint: &'static str,
    /// Number of times that the request is sent.
    pub(crate) requests: u8,
    /// Seconds by which the clock of the function that claims is ahead.
    pub(crate) claims_ahead: i64,
    /// Seconds by which the clock of the function that works is ahead.
    pub(crate) works_ahead: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    pub(crate) parties: Vec<Party>,
    /// Number of workers that may crash.
    pub(crate) crashes: u8,
    /// Number of calls that may fail.
    pub(crate) faults: u8,
    /// Number of places at which an attempt may find itself.
    pub(crate) places: usize,
    /// Retention of a record in seconds.
    pub(crate) retention: u64,
    /// Guard that the model leaves out; `None` to check the real protocol.
    pub(crate) broken: Option<Guard>,
}

impl Scenario {
    pub(crate) fn of(kind: Kind, fingerprints: &[&'static str]) -> Self {
        let party = |fingerprint| Party { fingerprint, requests: 2, claims_ahead: 0, works_ahead: 0 };
        Self {
            kind,
            parties: fingerprints.iter().copied().map(party).collect(),
            crashes: 1,
            faults: 1,
            places: 1,
            retention: 7200,
            broken: None,
        }
    }

    /// The clock of one party's functions, in seconds ahead of the others'.
    pub(crate) fn clocks(mut self, party: usize, claims_ahead: i64, works_ahead: i64) -> Self {
        self.parties[party].claims_ahead = claims_ahead;
        self.parties[party].works_ahead = works_ahead;
        self
    }

    pub(crate) fn without(mut self, guard: Guard) -> Self {
        self.broken = Some(guard);
        self
    }

    /// True if records expire within the time that the checker covers.
    pub(crate) fn expires(&self) -> bool {
        self.retention < 3600
    }

    pub(crate) fn is_without(&self, guard: Guard) -> bool {
        self.broken == Some(guard)
    }

    /// The edges of what can begin or end, in seconds, for claims that are made at one of them; and
    /// moments between. Clocks that differ have edges of their own.
    pub(crate) fn next_moment(&self, now: i64) -> Option<i64> {
        let [start, work, skew] = [Execution::START_WITHIN, Execution::WORK, Execution::SKEW]
            .map(|duration| i64::try_from(duration.as_secs()).unwrap());
        let lease = start + skew + work + skew;
        let (latest, behind) = (start + skew, start + 2 * skew);
        let clocks_differ =
            self.parties.iter().any(|party| (party.claims_ahead, party.works_ahead) != (0, 0));
        let of_clocks = [start, behind, start + work].into_iter().filter(|_| clocks_differ);
        let moments = [latest, work, latest + work, lease, 2 * lease].into_iter().chain(of_clocks);
        moments.filter(|moment| *moment > now).min()
    }
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        successors(self, world, actions);
    }

    fn next_state(&self, _world: &World, action: Action) -> Option<World> {
        Some(*action.next)
    }

    /// Returns one property, since each property is looked up in every state. A state knows which
    /// invariants it breaks.
    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::<Self>::always("every invariant holds", |_, world| !world.is_broken())]
    }
}
