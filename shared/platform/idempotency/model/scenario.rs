//! Scenarios: the clients, faults and times that the model checker covers in one check.

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
    /// A worker puts one of two messages on the destination queue, records that, and then removes
    /// the message from the source queue.
    Move,
}

/// Client of the model, with the functions that claim and execute its request. The client sends the
/// same request one or more times, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// Fingerprint of the request's body. Clients with different bodies have different
    /// fingerprints.
    pub(crate) fingerprint: &'static str,
    /// Number of times that the client sends the request.
    pub(crate) requests: u8,
    /// Seconds by which the clock of the claiming function is ahead of the true time; negative if
    /// it is behind.
    pub(crate) claims_ahead: i64,
    /// Seconds by which the clock of the working function is ahead of the true time; negative if it
    /// is behind.
    pub(crate) works_ahead: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) kind: Kind,
    pub(crate) clients: Vec<Client>,
    /// Maximum number of worker crashes in each sequence of actions that the checker follows.
    pub(crate) crashes: u8,
    /// Maximum number of faulty calls in each sequence of actions that the checker follows: calls
    /// to the store or to the broker that are lost, late, repeated or refused.
    pub(crate) faults: u8,
    /// Number of places (such as queues) at which an attempt may put its messages: 1 or 2.
    pub(crate) places: usize,
    /// Seconds for which the record is kept after a claim, a takeover or the end of an execution.
    pub(crate) retention: u64,
    /// Rule of the protocol that the model leaves out; `None` to check the complete protocol.
    pub(crate) broken: Option<Guard>,
}

impl Scenario {
    pub(crate) fn of(kind: Kind, fingerprints: &[&'static str]) -> Self {
        let client = |fingerprint| Client { fingerprint, requests: 2, claims_ahead: 0, works_ahead: 0 };
        Self {
            kind,
            clients: fingerprints.iter().copied().map(client).collect(),
            crashes: 1,
            faults: 1,
            places: 1,
            retention: 7200,
            broken: None,
        }
    }

    /// Sets by how many seconds the clocks of the claiming and the working function of a client are
    /// ahead of the true time; negative if they are behind. `client` is the client's index.
    pub(crate) fn clocks(mut self, client: usize, claims_ahead: i64, works_ahead: i64) -> Self {
        self.clients[client].claims_ahead = claims_ahead;
        self.clients[client].works_ahead = works_ahead;
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

    /// Returns the next time to which the model moves its clock, in seconds after the start; `None`
    /// if `now` is the last one. The times are those at which a claim's start limit, work or lease
    /// can end, and further ones if clocks differ.
    pub(crate) fn next_moment(&self, now: i64) -> Option<i64> {
        let [start, work, skew] = [Execution::START_WITHIN, Execution::WORK, Execution::SKEW]
            .map(|duration| i64::try_from(duration.as_secs()).unwrap());
        let lease = start + skew + work + skew;
        let (latest, behind) = (start + skew, start + 2 * skew);
        let clocks_differ =
            self.clients.iter().any(|client| (client.claims_ahead, client.works_ahead) != (0, 0));
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
