//! Actions that are possible in a state of the model: steps of the workers, crashes, late writes,
//! and the passage of time.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idempotency::Execution;
use idempotency::protocol::{Decision, Record, Status, StoredResponse, Token, Transition};
use jiff::Timestamp;

use crate::broken::{Guard, decision};
use crate::calls::{Called, Fate};
use crate::invariants::Invariant;
use crate::moving;
use crate::producing::arrives;
use crate::scenario::{Client, Kind, Scenario};
use crate::world::{Granted, Step, World, response};

/// Timeout in seconds of the function that claims the idempotency key.
const CLAIMER_ENDS_AFTER: i64 = 29;

thread_local! {
    /// True in the thread that prints the actions which lead to a broken invariant. The threads
    /// that search for one see millions of actions, and build no labels for them.
    pub(crate) static BUILDS_LABELS: Cell<bool> = const { Cell::new(false) };
}

/// Action that is possible in a state of the model: its label, and the state after it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Action {
    label: String,
    pub(crate) next: Box<World>,
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

pub(crate) fn successors(scenario: &Scenario, world: &World, actions: &mut Vec<Action>) {
    if world.is_broken() {
        return;
    }
    let mut to = Successors { scenario, world, actions };
    to.time_passes();
    for index in 0..world.late.len() {
        to.happens(format_args!("late write {index} arrives"), |scenario, world| {
            let transition = world.late.remove(index);
            let _ = world.write(scenario, &transition);
        });
    }
    for (w, worker) in world.workers.iter().enumerate() {
        if *worker.step != Step::Idle && world.crashes_left > 0 {
            to.happens(format_args!("{w} dies"), |_, world| {
                world.crashes_left -= 1;
                world.end_without_report(w);
                end(world, w);
            });
        }
        to.steps(w);
    }
}

/// Ends the work of worker `w`: the messages that it has not removed return to the queue, and its
/// client may send the next request.
fn end(world: &mut World, w: usize) {
    world.effect.release(w);
    world.workers[w].step = Arc::new(Step::Idle);
    world.workers[w].ends_at = 0;
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds + 1_000_000).unwrap()
}

pub(crate) struct Successors<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) world: &'a World,
    actions: &'a mut Vec<Action>,
}

impl Successors<'_> {
    pub(crate) fn happens(&mut self, name: fmt::Arguments<'_>, change: impl FnOnce(&Scenario, &mut World)) {
        let label = if BUILDS_LABELS.get() { name.to_string() } else { String::new() };
        let mut next = self.world.clone();
        change(self.scenario, &mut next);
        next.inspect();
        self.actions.push(Action { label, next: Box::new(next) });
    }

    fn time_passes(&mut self) {
        let Some(moment) = self.scenario.next_moment(self.world.now) else { return };
        self.happens(format_args!("it is {moment} s"), |_, world| {
            world.now = moment;
            for w in 0..world.workers.len() {
                if *world.workers[w].step != Step::Idle && world.workers[w].ends_at <= moment {
                    world.end_without_report(w);
                    end(world, w);
                }
            }
        });
    }

    /// Adds one action for each possible outcome of the write `transition` by worker `w`. `then`
    /// changes the state by the result that the worker sees.
    pub(crate) fn calls(
        &mut self,
        w: usize,
        transition: &Transition,
        then: impl Fn(&Scenario, &mut World, Called),
    ) {
        for fate in Fate::possible(self.world) {
            let what = transition_name(transition);
            self.happens(format_args!("{w} writes {what}: {fate:?}"), |scenario, world| {
                let called = fate.apply(scenario, world, transition);
                then(scenario, world, called);
            });
        }
    }

    fn steps(&mut self, w: usize) {
        let (scenario, world) = (self.scenario, self.world);
        let client = &scenario.clients[w];
        let retention = Duration::from_secs(scenario.retention);
        let claim_clock = moment(world.now + client.claims_ahead);
        match Step::clone(&world.workers[w].step) {
            Step::Idle => self.asks(w),
            Step::Claim { owner } => {
                let request_hash = client.fingerprint.to_owned();
                let claim =
                    Transition::Claim { request_hash, owner: owner.clone(), now: claim_clock, retention };
                self.calls(w, &claim, |_, world, called| {
                    world.workers[w].step = Arc::new(match called {
                        Called::Done(record) => granted(&record),
                        Called::Refused(found) => Step::Decide { owner: owner.clone(), found },
                        Called::Unavailable => Step::Idle,
                    });
                });
            }
            Step::Decide { owner, found } => self.decides(w, &owner, &found, claim_clock, retention),
            Step::AnswerInDoubt { granted, response } => {
                let complete = Transition::Complete {
                    token: granted.token,
                    response: Some(response.clone()),
                    now: claim_clock,
                    retention,
                };
                self.completes(w, &complete, &response, true);
            }
            Step::Start { granted } => self.starts(w, &granted),
            work => self.works(w, work, moment(world.now + client.works_ahead), retention),
        }
    }

    fn asks(&mut self, w: usize) {
        let left = self.world.workers[w].requests_left;
        if left == 0 {
            return;
        }
        self.happens(format_args!("{w} asks"), |_, world| {
            world.workers[w].requests_left -= 1;
            world.workers[w].step = Arc::new(Step::Claim { owner: format!("{w}.{left}") });
            world.workers[w].ends_at = world.now + CLAIMER_ENDS_AFTER;
        });
    }

    fn decides(&mut self, w: usize, owner: &str, found: &Record, now: Timestamp, retention: Duration) {
        let fingerprint = self.scenario.clients[w].fingerprint;
        let is_own = found.owner == owner;
        match decision(self.scenario.broken, found, fingerprint, owner, now, retention) {
            Decision::TakeOver(take_over) if !is_own => {
                self.calls(w, &take_over, |_, world, called| {
                    world.workers[w].step = Arc::new(match called {
                        Called::Done(record) => granted(&record),
                        Called::Refused(found) => Step::Decide { owner: owner.to_owned(), found },
                        Called::Unavailable => Step::Idle,
                    });
                });
            }
            Decision::Own => {
                self.happens(format_args!("{w} finds its own record"), |_, world| {
                    world.workers[w].step = Arc::new(granted(found));
                });
            }
            Decision::Replay => self.happens(format_args!("{w} replays"), |_, world| {
                if found.request_hash != fingerprint {
                    world.breach(Invariant::OtherBody);
                }
                end(world, w);
            }),
            Decision::Conflict | Decision::InProgress { .. } | Decision::TakeOver(_) => {
                self.happens(format_args!("{w} is refused"), |_, world| {
                    if is_own {
                        world.breach(Invariant::OwnNotKnown);
                    }
                    end(world, w);
                });
            }
        }
    }

    fn starts(&mut self, w: usize, granted: &Granted) {
        let Client { claims_ahead, works_ahead, .. } = self.scenario.clients[w];
        let clock = moment(self.world.now + works_ahead);
        let mut bound = Execution::START_WITHIN;
        if !self.scenario.is_without(Guard::TolerantStart) {
            bound += Execution::SKEW;
        }
        if clock <= granted.claimed_at + bound || self.scenario.is_without(Guard::StartBefore) {
            for at in 0..self.scenario.places {
                self.happens(format_args!("{w} starts at {at}"), |scenario, world| {
                    world.check_reported_places(granted);
                    if world.record.as_ref().is_some_and(|record| record.status == Status::Completed) {
                        world.breach(Invariant::DoneAgain);
                    }
                    world.workers[w].ends_at = world.now + i64::try_from(Execution::WORK.as_secs()).unwrap();
                    let granted = Granted { claimed_at: Timestamp::UNIX_EPOCH, ..granted.clone() };
                    world.workers[w].step = Arc::new(match scenario.kind {
                        Kind::Consume => Step::Get { granted },
                        Kind::Produce => arrives(scenario, granted, at),
                        Kind::Move => moving::begins(granted),
                    });
                });
            }
        } else {
            let came_after =
                clock.as_second() - works_ahead - (granted.claimed_at.as_second() - claims_ahead);
            let in_time = came_after <= i64::try_from(Execution::START_WITHIN.as_secs()).unwrap();
            self.happens(format_args!("{w} comes too late"), |_, world| {
                if in_time {
                    world.breach(Invariant::RefusedInTime);
                }
                let progress = granted.progress;
                world.workers[w].step = Arc::new(Step::Fail { granted: granted.clone(), progress });
            });
        }
    }

    fn works(&mut self, w: usize, step: Step, now: Timestamp, retention: Duration) {
        match step {
            Step::Get { granted } => self.happens(format_args!("{w} gets"), |scenario, world| {
                let got = world.effect.get(w);
                world.workers[w].step = Arc::new(if scenario.is_without(Guard::PrepareFirst) {
                    Step::Commit { response: consumed(&granted, got), granted }
                } else {
                    Step::Prepare { granted, got }
                });
            }),
            Step::Prepare { granted, got } => {
                let response = consumed(&granted, got);
                let token = granted.token.clone();
                let prepare = Transition::Prepare { token, response: response.clone(), now };
                self.calls(w, &prepare, |scenario, world, called| {
                    let (granted, response) = (granted.clone(), response.clone());
                    world.workers[w].step = Arc::new(match called {
                        Called::Done(_) if scenario.is_without(Guard::PrepareFirst) => {
                            Step::CompletePrepared { granted, response }
                        }
                        Called::Done(_) => Step::Commit { granted, response },
                        Called::Refused(_) => Step::Idle,
                        Called::Unavailable => Step::Fail { progress: granted.progress, granted },
                    });
                    if matches!(*world.workers[w].step, Step::Idle | Step::Fail { .. }) {
                        world.effect.release(w);
                    }
                });
            }
            Step::Commit { granted, response } => self.commits(w, &granted, &response),
            Step::CompletePrepared { granted, response } => {
                let token = granted.token;
                let complete = Transition::Complete { token, response: None, now, retention };
                self.completes(w, &complete, &response, false);
            }
            Step::Note { granted, arrived, at } => self.notes(w, &granted, &arrived, at, now),
            Step::Put(putting) => self.puts(w, &putting, now),
            Step::Move(moving) => self.moves(w, &moving, now),
            Step::Complete { granted, response } => {
                let token = granted.token;
                let complete =
                    Transition::Complete { token, response: Some(response.clone()), now, retention };
                self.completes(w, &complete, &response, false);
            }
            Step::Fail { granted, progress } => {
                let Granted { token, place_history, .. } = granted;
                let fail = Transition::Fail { token, progress, place_history, now, retention };
                self.calls(w, &fail, |_, world, called| {
                    if matches!(called, Called::Unavailable) {
                        world.end_without_report(w);
                    }
                    end(world, w);
                });
            }
            _ => {}
        }
    }

    /// Adds the steps that complete an execution. The client gets the answer (labelled if it is
    /// `in_doubt`) even if the store is unavailable, but not if another execution owns the record.
    fn completes(&mut self, w: usize, complete: &Transition, response: &StoredResponse, in_doubt: bool) {
        self.calls(w, complete, |_, world, called| {
            if !matches!(called, Called::Refused(_)) {
                world.answer(response.clone(), in_doubt);
            }
            end(world, w);
        });
    }

    fn commits(&mut self, w: usize, granted: &Granted, response: &StoredResponse) {
        self.happens(format_args!("{w} commits"), |scenario, world| {
            world.effect.remove(w);
            let (granted, response) = (granted.clone(), response.clone());
            world.workers[w].step = Arc::new(if scenario.is_without(Guard::PrepareFirst) {
                Step::Prepare { granted, got: true }
            } else {
                Step::CompletePrepared { granted, response }
            });
        });
        if self.world.faults_left == 0 {
            return;
        }
        self.happens(format_args!("{w}'s commit is refused"), |_, world| {
            world.faults_left -= 1;
            world.effect.release(w);
            world.workers[w].step =
                Arc::new(Step::Fail { granted: granted.clone(), progress: granted.progress });
        });
        for arrived in [true, false] {
            self.happens(format_args!("{w}'s commit is in doubt (done: {arrived})"), |_, world| {
                world.faults_left -= 1;
                if arrived {
                    world.effect.remove(w);
                }
                end(world, w);
            });
        }
    }
}

fn granted(record: &Record) -> Step {
    let granted = Granted {
        token: Token { owner: record.owner.clone(), attempt: record.attempt },
        claimed_at: record.updated_at,
        progress: record.progress,
        place_history: record.place_history.clone(),
    };
    match &record.response {
        Some(response) if record.status == Status::Prepared => {
            Step::AnswerInDoubt { granted, response: response.clone() }
        }
        _ => Step::Start { granted },
    }
}

fn consumed(granted: &Granted, got: bool) -> StoredResponse {
    response(granted, if got { "message" } else { "nothing" }, 0, 0)
}

fn transition_name(transition: &Transition) -> &'static str {
    match transition {
        Transition::Claim { .. } => "its claim",
        Transition::TakeOver { .. } => "a takeover",
        Transition::Checkpoint { .. } => "a checkpoint",
        Transition::Prepare { .. } => "PREPARED",
        Transition::Complete { .. } => "COMPLETED",
        Transition::Fail { .. } => "FAILED",
    }
}
