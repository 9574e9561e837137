//! Calls to the store, and what can become of them.

use std::sync::Arc;

use idempotency::protocol::{Record, Transition};

use crate::scenario::Scenario;
use crate::world::World;

/// Result of a call to the store, as its caller sees it.
pub(crate) enum Called {
    /// The call succeeded and left this record.
    Done(Arc<Record>),
    Refused(Arc<Record>),
    Unavailable,
}

/// Fate of a call to the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    Answered,
    /// The first answer is lost, and the SDK sends the call again.
    SentTwice,
    AnswerLost,
    RequestLost,
    /// The call arrives after its sender has given it up.
    Late,
}

impl Fate {
    pub(crate) fn possible(world: &World) -> &'static [Self] {
        let all = &[Self::Answered, Self::SentTwice, Self::AnswerLost, Self::RequestLost, Self::Late];
        if world.faults_left > 0 { all } else { &[Self::Answered] }
    }

    /// Applies the fate of a write, and returns the result that its sender sees.
    pub(crate) fn befalls(self, scenario: &Scenario, world: &mut World, transition: &Transition) -> Called {
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

/// Settles a write that finds itself done: it lost only its answer; a claim decides by itself.
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
