//! Steps of the model's workers that put messages. Each attempt may put them at another place (such
//! as a queue) than the attempt before it.

use std::sync::Arc;

use idempotency::Place;
use idempotency::protocol::{Arrival, Progress, Transition};
use jiff::Timestamp;

use crate::broken::Guard;
use crate::calls::Called;
use crate::effect::{ASIDE, MESSAGES};
use crate::scenario::Scenario;
use crate::steps::Successors;
use crate::world::{Granted, Putting, Step, response};

/// Returns the first step of an attempt that has the claim `granted`, and puts its messages at the
/// place (such as a queue) with the index `at`.
pub(crate) fn arrives(scenario: &Scenario, granted: Granted, at: usize) -> Step {
    let place = Place { id: at.to_string(), name: at.to_string() };
    let Arrival { mut progress, place_history, mut has_moved } =
        granted.place_history.arrive(granted.progress, place);
    match scenario.broken {
        Some(Guard::SamePlace) => (progress, has_moved) = (granted.progress, false),
        Some(Guard::CountMoved) if has_moved => progress.repeated = 0,
        Some(Guard::DoubtOfNoPlace) if !has_moved => progress = granted.progress,
        _ => {}
    }
    let arrived = Granted { progress, place_history, ..granted.clone() };
    if has_moved && !scenario.is_without(Guard::NoteMove) {
        return Step::Note { granted, arrived, at };
    }
    begins(arrived, at)
}

fn begins(granted: Granted, at: usize) -> Step {
    let done = granted.progress.done;
    Step::Put(Putting { granted, at, done, noted: done })
}

impl Successors<'_> {
    /// Adds the steps in which worker `w` records the new place `at` (such as a queue) before it
    /// puts a message there. `arrived` is its claim with the new place, and `granted` its claim
    /// before.
    pub(crate) fn notes(
        &mut self,
        w: usize,
        granted: &Granted,
        arrived: &Granted,
        at: usize,
        now: Timestamp,
    ) {
        let Granted { token, progress, place_history, .. } = arrived.clone();
        let note = Transition::Checkpoint { token, progress, place_history, now };
        self.calls(w, &note, |_, world, called| {
            world.workers[w].step = Arc::new(match called {
                Called::Done(_) => begins(arrived.clone(), at),
                Called::Refused(_) => Step::Idle,
                Called::Unavailable => {
                    // The note may arrive, and nobody be there to say that nothing followed it.
                    world.may_hold[at] = true;
                    Step::Fail { progress: granted.progress, granted: granted.clone() }
                }
            });
        });
    }

    pub(crate) fn puts(&mut self, w: usize, putting: &Putting, now: Timestamp) {
        let Putting { granted, at, done, noted } = putting;
        let (at, done, noted) = (*at, *done, *noted);
        let of = |done, in_doubt| granted.progress.advanced(done, in_doubt);
        if done > noted {
            let (token, place_history) = (granted.token.clone(), granted.place_history.clone());
            let checkpoint = Transition::Checkpoint { token, progress: of(done, 0), place_history, now };
            self.calls(w, &checkpoint, |_, world, called| {
                world.workers[w].step = Arc::new(match called {
                    Called::Refused(_) => Step::Idle,
                    Called::Done(_) | Called::Unavailable => {
                        Step::Put(Putting { noted: done, ..putting.clone() })
                    }
                });
            });
        }
        if done == u64::try_from(MESSAGES).unwrap() {
            self.happens(format_args!("{w} has put all"), |_, world| {
                let Progress { repeated, .. } = of(done, 0);
                let response = response(granted, "put", repeated, at);
                world.workers[w].step = Arc::new(Step::Complete { granted: granted.clone(), response });
            });
            return;
        }
        self.happens(format_args!("{w} puts {done} at {at}"), |_, world| {
            world.effect.put(at, done);
            world.may_hold[at] = true;
            world.workers[w].step = Arc::new(Step::Put(Putting { done: done + 1, ..putting.clone() }));
        });
        if self.world.faults_left == 0 {
            return;
        }
        self.happens(
            format_args!("{w}'s put of {done} at {at} is refused and left aside"),
            |scenario, world| {
                world.faults_left -= 1;
                world.effect.put(ASIDE, done);
                world.may_hold[at] = true;
                let in_doubt = u64::from(!scenario.is_without(Guard::DoubtRefusals));
                world.workers[w].step =
                    Arc::new(Step::Fail { granted: granted.clone(), progress: of(done, in_doubt) });
            },
        );
        for (arrived, in_doubt) in [(true, 1), (false, 1), (false, 0)] {
            self.happens(format_args!("{w}'s put of {done} at {at} fails (done: {arrived})"), |_, world| {
                world.faults_left -= 1;
                if arrived {
                    world.effect.put(at, done);
                }
                world.may_hold[at] |= in_doubt > 0;
                world.workers[w].step =
                    Arc::new(Step::Fail { granted: granted.clone(), progress: of(done, in_doubt) });
            });
        }
    }
}
