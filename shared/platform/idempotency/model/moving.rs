//! Steps of the model's workers that move messages. A worker puts each message on the destination
//! queue, records that, and then removes the message from the source queue.

use std::sync::Arc;

use idempotency::Place;
use idempotency::protocol::{Arrival, Tally, Transition};
use jiff::Timestamp;

use crate::broken::Guard;
use crate::calls::Called;
use crate::effect::{Effect, Message};
use crate::scenario::Scenario;
use crate::steps::Successors;
use crate::world::{Granted, Moving, Step, response};

/// Number of messages that a request of the model moves. The source queue has
/// [`MESSAGES`](crate::effect::MESSAGES).
pub(crate) const WANTED: u64 = 1;

/// Returns the first step of an attempt to move messages, which has the claim `granted`. All
/// attempts have the same destination queue.
pub(crate) fn begins(granted: Granted) -> Step {
    let place = Place { id: 0.to_string(), name: 0.to_string() };
    let Arrival { progress, place_history, .. } = granted.place_history.arrive(granted.progress, place);
    let done = progress.done;
    Step::Move(Moving {
        granted: Granted { progress, place_history, ..granted },
        done,
        held_message: None,
        noted: false,
        is_refusal_unnoted: false,
    })
}

/// Returns the number of messages of which more than one copy may exist, on the two queues or
/// elsewhere. Each attempt that ended without a report may have left one.
fn possible_duplicates(scenario: &Scenario, granted: &Granted) -> u64 {
    if scenario.is_without(Guard::CountHands) {
        return 0;
    }
    let Tally { counted, is_complete } = granted.progress.in_doubt_or_repeated();
    let silent = if is_complete { 0 } else { granted.token.attempt - 1 };
    counted.saturating_add(silent.into())
}

impl Successors<'_> {
    pub(crate) fn moves(&mut self, w: usize, moving: &Moving, now: Timestamp) {
        match moving.held_message {
            None if moving.is_refusal_unnoted => self.notes_refusal(w, moving, now),
            None => self.puts_or_ends(w, moving),
            Some(_) if !moving.noted => self.notes_move(w, moving, now),
            Some(message) => self.settles(w, moving, message),
        }
    }

    fn puts_or_ends(&mut self, w: usize, moving: &Moving) {
        let Moving { granted, done, .. } = moving;
        let next = (*done < WANTED).then(|| self.world.effect.next_to_move()).flatten();
        let Some(message) = next else {
            self.happens(format_args!("{w} has moved all"), |scenario, world| {
                let response = response(granted, "moved", possible_duplicates(scenario, granted), 0);
                world.effect.release(w);
                world.workers[w].step = Arc::new(Step::Complete { granted: granted.clone(), response });
            });
            return;
        };
        self.happens(format_args!("{w} puts {message}"), |scenario, world| {
            world.effect.take(w, message);
            if scenario.is_without(Guard::PutFirst) {
                world.effect.leave(w, message);
            } else {
                world.effect.arrive(message);
            }
            world.may_hold[0] = true;
            world.workers[w].step =
                Arc::new(Step::Move(Moving { held_message: Some(message), ..moving.clone() }));
        });
        if self.world.faults_left == 0 {
            return;
        }
        self.is_refused(w, moving, message);
        self.is_in_doubt(w, moving, message);
    }

    /// Adds the step in which a put of worker `w` is refused, although a copy of the message is
    /// delivered elsewhere. The worker keeps the original until its attempt ends.
    fn is_refused(&mut self, w: usize, moving: &Moving, message: usize) {
        let granted = &moving.granted;
        self.happens(format_args!("{w}'s put of {message} is refused and left aside"), |scenario, world| {
            world.faults_left -= 1;
            world.effect.take(w, message);
            world.effect.leave_aside(message);
            world.may_hold[0] = true;
            let granted = Granted { progress: granted.progress.repeating(1), ..granted.clone() };
            let is_refusal_unnoted = !scenario.is_without(Guard::NoteRefusals);
            world.workers[w].step =
                Arc::new(Step::Move(Moving { granted, is_refusal_unnoted, ..moving.clone() }));
        });
    }

    fn is_in_doubt(&mut self, w: usize, moving: &Moving, message: usize) {
        let Moving { granted, done, .. } = moving;
        for arrived in [true, false] {
            self.happens(format_args!("{w}'s put of {message} is in doubt (done: {arrived})"), |_, world| {
                world.faults_left -= 1;
                if arrived {
                    world.effect.arrive(message);
                }
                world.effect.release(w);
                world.may_hold[0] = true;
                let progress = granted.progress.advanced(*done, 1);
                world.workers[w].step = Arc::new(Step::Fail { granted: granted.clone(), progress });
            });
        }
    }

    /// Adds the steps in which worker `w` records a message whose put was refused, before it puts
    /// the next message. A copy of the refused message may be elsewhere.
    fn notes_refusal(&mut self, w: usize, moving: &Moving, now: Timestamp) {
        let Moving { granted, done, .. } = moving;
        let (token, place_history) = (granted.token.clone(), granted.place_history.clone());
        let progress = granted.progress.advanced(*done, 0);
        let note = Transition::Checkpoint { token, progress, place_history, now };
        self.calls(w, &note, |_, world, called| {
            world.workers[w].step = Arc::new(match called {
                Called::Done(_) => Step::Move(Moving { is_refusal_unnoted: false, ..moving.clone() }),
                Called::Refused(_) => {
                    world.effect.release(w);
                    Step::Idle
                }
                Called::Unavailable => {
                    world.effect.release(w);
                    Step::Fail { granted: granted.clone(), progress }
                }
            });
        });
    }

    /// Adds the steps in which worker `w` records the message that it has put on the destination
    /// queue, and not yet removed from the source queue. If the store is unavailable, the message
    /// is removed all the same, and the attempt ends as failed.
    fn notes_move(&mut self, w: usize, moving: &Moving, now: Timestamp) {
        let Moving { granted, done, .. } = moving;
        let (token, place_history) = (granted.token.clone(), granted.place_history.clone());
        let progress = granted.progress.advanced(done + 1, 0);
        let note = Transition::Checkpoint { token, progress, place_history, now };
        self.calls(w, &note, |_, world, called| {
            world.workers[w].step = Arc::new(match called {
                Called::Done(_) => Step::Move(Moving { noted: true, ..moving.clone() }),
                Called::Refused(_) => {
                    world.effect.release(w);
                    Step::Idle
                }
                Called::Unavailable => {
                    if let Some(message) = moving.held_message {
                        world.effect.leave(w, message);
                    }
                    world.effect.release(w);
                    Step::Fail { granted: granted.clone(), progress }
                }
            });
        });
    }

    fn settles(&mut self, w: usize, moving: &Moving, message: usize) {
        let Moving { granted, done, .. } = moving;
        self.happens(format_args!("{w} removes {message}"), |scenario, world| {
            if scenario.is_without(Guard::PutFirst) {
                world.effect.arrive(message);
            }
            world.effect.leave(w, message);
            let settled = Moving { done: done + 1, held_message: None, noted: false, ..moving.clone() };
            world.workers[w].step = Arc::new(Step::Move(settled));
        });
        if self.world.faults_left == 0 {
            return;
        }
        for arrived in [true, false] {
            self.happens(
                format_args!("{w}'s removal of {message} is in doubt (done: {arrived})"),
                |_, world| {
                    world.faults_left -= 1;
                    if arrived {
                        world.effect.leave(w, message);
                    }
                    world.effect.release(w);
                    let progress = granted.progress.advanced(done + 1, 1);
                    world.workers[w].step = Arc::new(Step::Fail { granted: granted.clone(), progress });
                },
            );
        }
    }
}

impl Effect {
    /// Returns the index of the first message on the source queue that no worker has got; `None` if
    /// there is none, or if the workers do not move messages.
    fn next_to_move(&self) -> Option<usize> {
        let Self::Move { old, .. } = self else { return None };
        old.iter().position(|message| *message == Message::OnQueue)
    }

    fn take(&mut self, worker: usize, message: usize) {
        if let Self::Move { old, .. } = self {
            old[message] = Message::Got(worker);
        }
    }

    fn arrive(&mut self, message: usize) {
        if let Self::Move { new, .. } = self {
            new[message] = new[message].saturating_add(1);
        }
    }

    fn leave_aside(&mut self, message: usize) {
        if let Self::Move { aside, .. } = self {
            aside[message] = aside[message].saturating_add(1);
        }
    }

    fn leave(&mut self, worker: usize, message: usize) {
        if let Self::Move { old, .. } = self
            && old[message] == Message::Got(worker)
        {
            old[message] = Message::Removed;
        }
    }
}
