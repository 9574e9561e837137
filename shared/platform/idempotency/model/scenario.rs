//! What a run of the checker covers.

use idempotency::Execution;
use stateright::{Model, Property};

use crate::broken::Guard;
use crate::steps::{Action, successors};
use crate::world::World;

/// Kind of work that the model's workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A worker gets one message, stores its response, and then removes the message.
    Consume,
    /// A worker puts two messages one after the other, with a checkpoint after each.
    Produce,
    /// A worker puts one of two messages at its new place, records that, and then removes the
    /// message from its old place.
    Move,
}

/// Client with its request, and the functions that execute this request. The request is sent again
/// when it gets no final answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Party {
    /// Fingerprint of the request, which stands for its body.
    pub(crate) fingerprint: &'static str,
    /// Number of times that the client sends the request.
    pub(crate) requests: u8,
    /// Seconds by which the clock of the claiming function is ahead of the true time.
    pub(crate) claims_ahead: i64,
    /// Seconds by which the clock of the working function is ahead of the true time.
    pub(crate) works_ahead: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    pub(crate) parties: Vec<Party>,
    /// Maximum number of worker crashes in a run of the model.
    pub(crate) crashes: u8,
    /// Maximum number of faults in a run of the model: calls to the store or to the broker that
    /// are lost, late, repeated or refused.
    pub(crate) faults: u8,
    /// Number of places at which an attempt may work.
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

    /// Sets how many seconds the clocks of a party's functions are ahead of the true time.
    pub(crate) fn clocks(mut self, party: usize, claims_ahead: i64, works_ahead: i64) -> Self {
        self.parties[party].claims_ahead = claims_ahead;
        self.parties[party].works_ahead = works_ahead;
        self
    }

    pub(crate) fn without(mut self, guard: Guard) -> Self {
        self.broken = Some(guard);
        self
    }

    /// True if a record can expire within the times that the checker covers.
    pub(crate) fn expires(&self) -> bool {
        self.retention < 3600
    }

    pub(crate) fn is_without(&self, guard: Guard) -> bool {
        self.broken == Some(guard)
    }

    /// Returns the next time after `now`, in seconds, to which the model moves its clock; `None` at
    /// the end. The times are those at which a claim's start limit, work or lease can end, and
    /// further ones if clocks differ.
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

    /// Returns one property for all invariants, because the checker evaluates each property in
    /// every state. The state itself records which invariants it breaks.
    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::<Self>::always("every invariant holds", |_, world| !world.is_broken())]
    }
}
