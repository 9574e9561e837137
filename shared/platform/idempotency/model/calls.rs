//! Calls of the model's workers to the idempotency store, and their possible outcomes: answered,
//! repeated, lost or late.

use std::sync::Arc;

use idempotency::protocol::{Record, Transition};

use crate::scenario::Scenario;
use crate::world::World;

/// Result of a write to the model's idempotency store, as the calling worker sees it.
pub(crate) enum Called {
    /// The write was made. The value is the record after it.
    Done(Arc<Record>),
    Refused(Arc<Record>),
    Unavailable,
}

/// Outcome of a call to the store in the model, with or without a network fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Answered,
    /// The store's response is lost, and the SDK repeats the call. The worker sees the second
    /// result.
    SentTwice,
    AnswerLost,
    RequestLost,
    /// The worker gives up, as if the store were unavailable, and the write reaches the store
    /// later.
    Late,
}

impl Fate {
    pub(crate) fn possible(world: &World) -> &'static [Self] {
        let all = &[Self::Answered, Self::SentTwice, Self::AnswerLost, Self::RequestLost, Self::Late];
        if world.faults_left > 0 { all } else { &[Self::Answered] }
    }

    /// Applies a write with this outcome to the state of the model (`world`), and returns the
    /// result that the calling worker sees.
    pub(crate) fn apply(self, scenario: &Scenario, world: &mut World, transition: &Transition) -> Called {
        world.faults_left -= u8::from(!matches!(self, Self::Answered));
        match self {
            Self::Answered => settled(transition, world.write(scenario, transition)),
            Self::SentTwice => {
                let _ = world.write(scenario, transition);
                settled(transition, world.write(scenario, transition))
            }
            Self::AnswerLost => {
                let _ = world.write(scenario, transition);
                Called::Unavailable
            }
            Self::RequestLost => Called::Unavailable,
            Self::Late => {
                world.late.push(Arc::new(transition.clone()));
                Called::Unavailable
            }
        }
    }
}

/// Converts the result of a write to the result that the worker sees. A refused write counts as
/// done if the record shows that the same write was made before, as after a lost response. A
/// refused claim or takeover stays refused, since [`decide`](idempotency::protocol::decide)
/// recognizes a record that it wrote itself.
fn settled(transition: &Transition, written: Result<Arc<Record>, Arc<Record>>) -> Called {
    match written {
        Ok(record) => Called::Done(record),
        Err(found)
            if !matches!(transition, Transition::Claim { .. } | Transition::TakeOver { .. })
                && transition.is_done_in(&found) =>
        {
            Called::Done(found)
        }
        Err(found) => Called::Refused(found),
    }
}
