//! State of the model: the record, late writes to it, the workers, the queues, and the answers that
//! clients received.

use std::collections::BTreeSet;
use std::sync::Arc;

use idempotency::PlaceHistory;
use idempotency::protocol::{Body, Progress, Record, Status, StoredResponse, Token, Transition};
use jiff::Timestamp;

use crate::broken::apply;
use crate::effect::{Effect, MESSAGES, Message, PLACES};
use crate::invariants::Invariant;
use crate::moving::WANTED;
use crate::scenario::Scenario;

/// State of the model. Each step clones it, so parts that rarely change are shared by `Arc`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// True time in this state, in seconds since the start of the model.
    pub(crate) now: i64,
    pub(crate) record: Option<Arc<Record>>,
    /// Writes that may still reach the store, although their senders have given up.
    pub(crate) late: Vec<Arc<Transition>>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) effect: Effect,
    /// For each place (such as a queue), true if an attempt put a message there, or may have done
    /// so as far as the record shows.
    pub(crate) may_hold: [bool; PLACES],
    pub(crate) crashes_left: u8,
    pub(crate) faults_left: u8,
    /// Token of the execution that last claimed or took over the record.
    holder: Option<Arc<Token>>,
    /// Answers that clients received since the present record was created.
    answers: Vec<Arc<Answer>>,
    breaches: BTreeSet<Invariant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) requests_left: u8,
    pub(crate) step: Arc<Step>,
    /// Time at which the worker's function times out, in seconds since the start of the model.
    pub(crate) ends_at: i64,
}

/// Claim of the record that a worker of the model holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Granted {
    pub(crate) token: Token,
    /// Time of the claim, by the clock of the claiming function.
    pub(crate) claimed_at: Timestamp,
    pub(crate) progress: Progress,
    pub(crate) place_history: PlaceHistory,
}

/// Progress of an attempt that puts messages: `done` messages are at the place (such as a queue)
/// with the index `at`, and the record counts `noted` of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Putting {
    pub(crate) granted: Granted,
    pub(crate) at: usize,
    pub(crate) done: u64,
    pub(crate) noted: u64,
}

/// Progress of an attempt that moves messages: `done` messages are moved. The message with the
/// index `held_message` is on the destination queue and not yet removed from the source queue;
/// `noted` is true once the record counts it. `is_refusal_unnoted` is true if the put of a message
/// was refused and the record does not count this message yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Moving {
    pub(crate) granted: Granted,
    pub(crate) done: u64,
    pub(crate) held_message: Option<usize>,
    pub(crate) noted: bool,
    pub(crate) is_refusal_unnoted: bool,
}

/// Next step of a worker in the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Do nothing until the client sends its request for the first time, or again.
    Idle,
    Claim {
        owner: String,
    },
    /// Decide about the existing record `found`, by which the claim was refused.
    Decide {
        owner: String,
        found: Arc<Record>,
    },
    /// Return the response that an earlier attempt stored before it ended without a report,
    /// labelled as in doubt.
    AnswerInDoubt {
        granted: Granted,
        response: StoredResponse,
    },
    /// Start the work: the claim is granted, and the working function is being invoked.
    Start {
        granted: Granted,
    },
    Get {
        granted: Granted,
    },
    Prepare {
        granted: Granted,
        got: bool,
    },
    Commit {
        granted: Granted,
        response: StoredResponse,
    },
    CompletePrepared {
        granted: Granted,
        response: StoredResponse,
    },
    /// Record that the attempt works at another place (such as a queue) than the attempt before it.
    Note {
        granted: Granted,
        arrived: Granted,
        at: usize,
    },
    Put(Putting),
    Move(Moving),
    Complete {
        granted: Granted,
        response: StoredResponse,
    },
    Fail {
        granted: Granted,
        progress: Progress,
    },
}

impl Step {
    /// True if the worker may change a queue in this step.
    pub(crate) fn is_work(&self) -> bool {
        matches!(
            self,
            Self::Get { .. } | Self::Prepare { .. } | Self::Commit { .. } | Self::Put(_) | Self::Move(_)
        )
    }
}

/// Successful answer that a client of the model received.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    response: StoredResponse,
    in_doubt: bool,
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let worker = |requests_left| Worker { requests_left, step: Arc::new(Step::Idle), ends_at: 0 };
        Self {
            now: 0,
            record: None,
            late: Vec::new(),
            workers: scenario.clients.iter().map(|client| worker(client.requests)).collect(),
            effect: Effect::new(scenario.kind),
            may_hold: [false; PLACES],
            crashes_left: scenario.crashes,
            faults_left: scenario.faults,
            holder: None,
            answers: Vec::new(),
            breaches: BTreeSet::new(),
        }
    }

    /// Returns descriptions of the invariants that this state breaks.
    pub(crate) fn breaches(&self) -> Vec<&'static str> {
        self.breaches.iter().map(|invariant| invariant.name()).collect()
    }

    pub(crate) fn is_broken(&self) -> bool {
        !self.breaches.is_empty()
    }

    pub(crate) fn breach(&mut self, invariant: Invariant) {
        self.breaches.insert(invariant);
    }

    /// Applies a write to the store, and returns the new record.
    ///
    /// # Errors
    /// If the write's condition fails: the record that refuses it.
    pub(crate) fn write(
        &mut self,
        scenario: &Scenario,
        transition: &Transition,
    ) -> Result<Arc<Record>, Arc<Record>> {
        let Some(after) = apply(scenario.broken, transition, self.record.as_deref()) else {
            // Every write but a claim of nothing is refused by a record.
            return Err(self.record.clone().unwrap());
        };
        match transition {
            Transition::Claim { .. } => {
                self.answers.clear();
                self.effect = Effect::new(scenario.kind);
                self.may_hold = [false; PLACES];
                self.holder = Some(Arc::new(token(&after)));
            }
            Transition::TakeOver { .. } => self.holder = Some(Arc::new(token(&after))),
            Transition::Checkpoint { token, .. }
            | Transition::Prepare { token, .. }
            | Transition::Complete { token, .. }
            | Transition::Fail { token, .. } => {
                if self.holder.as_deref() != Some(token) {
                    self.breach(Invariant::NotFenced);
                }
            }
        }
        let was_completed =
            self.record.as_ref().filter(|record| record.status == Status::Completed && !is_claim(transition));
        if was_completed
            .is_some_and(|record| record.response != after.response || record.status != after.status)
        {
            self.breach(Invariant::ResultChanged);
        }
        let mut record = after.clone();
        if !scenario.expires() {
            // Times that decide nothing would only multiply the states.
            record.created_at = Timestamp::UNIX_EPOCH;
            record.expires_at = Timestamp::MAX;
            if !record.status.is_open() || matches!(transition, Transition::Checkpoint { .. }) {
                record.updated_at = Timestamp::UNIX_EPOCH;
            }
        }
        self.record = Some(Arc::new(record));
        Ok(Arc::new(after))
    }

    /// Records that a client receives the successful response of an execution (`in_doubt`: labelled
    /// as in doubt), and checks it against the queues. For example, its number of possible
    /// duplicates must cover all messages that are there twice.
    pub(crate) fn answer(&mut self, response: StoredResponse, in_doubt: bool) {
        if let Effect::Produce(places) = &self.effect {
            let copies = |index: usize| places.iter().map(|counts| u64::from(counts[index])).sum::<u64>();
            let twice = (0..MESSAGES).filter(|index| copies(*index) > 1).count();
            if places[place(&response)].contains(&0) {
                self.breach(Invariant::Missing);
            }
            if u64::try_from(twice).unwrap() > labelled(&response) {
                self.breach(Invariant::Unlabelled);
            }
        }
        if let Effect::Move { old, new, aside } = self.effect.clone() {
            let is_double = |at: &usize| {
                let elsewhere = new[*at].saturating_add(aside[*at]);
                elsewhere > 1 || (elsewhere > 0 && old[*at] != Message::Removed)
            };
            let doubles = u64::try_from((0..MESSAGES).filter(is_double).count()).unwrap();
            if doubles > labelled(&response) {
                self.breach(Invariant::Unlabelled);
            }
            let moved = u64::try_from(new.iter().filter(|count| **count > 0).count()).unwrap();
            let earlier = self.record.as_ref().map_or(0, |record| u64::from(record.attempt) - 1);
            if moved > WANTED + earlier {
                self.breach(Invariant::TooMany);
            }
        }
        let answer = Arc::new(Answer { response, in_doubt });
        if !self.answers.contains(&answer) {
            self.answers.push(answer);
        }
    }

    /// Checks the places (such as queues) at which a new attempt would report messages of earlier
    /// attempts. If no message can have been put at one of them, records that an invariant is
    /// broken.
    pub(crate) fn check_reported_places(&mut self, Granted { place_history, progress, .. }: &Granted) {
        let named = place_history.left_by(*progress).into_iter().filter_map(|left| left.name);
        let places: Vec<usize> = named.map(|name| name.parse().unwrap()).collect();
        if places.into_iter().any(|place| !self.may_hold[place]) {
            self.breach(Invariant::NeverThere);
        }
    }

    /// Records the place (such as a queue) where a worker that ends without a report may have left
    /// messages.
    pub(crate) fn end_without_report(&mut self, w: usize) {
        let place = match &*self.workers[w].step {
            Step::Note { at, .. } | Step::Put(Putting { at, .. }) => Some(*at),
            Step::Move(_) => Some(0),
            Step::Fail { granted, .. } => {
                granted.place_history.place.as_ref().map(|place| place.id.parse().unwrap())
            }
            _ => None,
        };
        if let Some(place) = place {
            self.may_hold[place] = true;
        }
    }

    /// Checks the invariants that must hold in every state, and records those that this state
    /// breaks.
    pub(crate) fn inspect(&mut self) {
        if self.workers.iter().filter(|worker| worker.step.is_work()).count() > 1 {
            self.breach(Invariant::TwoAtOnce);
        }
        if let Effect::Move { old, new, .. } = &self.effect
            && (0..MESSAGES).any(|at| old[at] == Message::Removed && new[at] == 0)
        {
            self.breach(Invariant::Lost);
        }
        let Effect::Consume(message) = self.effect else { return };
        let has_it = |response: &StoredResponse| body(response).starts_with("message");
        let stored = self
            .record
            .as_ref()
            .filter(|record| matches!(record.status, Status::Prepared | Status::Completed))
            .and_then(|record| record.response.as_ref())
            .is_some_and(has_it);
        let answered = self.answers.iter().any(|answer| has_it(&answer.response));
        if message == Message::Removed && !stored && !answered {
            self.breach(Invariant::Lost);
        }
        let mut without_doubt =
            self.answers.iter().filter(|answer| !answer.in_doubt && has_it(&answer.response));
        let (first, second) = (without_doubt.next(), without_doubt.next());
        if second.is_some() || (first.is_some() && message != Message::Removed) {
            self.breach(Invariant::Unlabelled);
        }
    }
}

fn token(record: &Record) -> Token {
    Token { owner: record.owner.clone(), attempt: record.attempt }
}

fn is_claim(transition: &Transition) -> bool {
    matches!(transition, Transition::Claim { .. })
}

/// Builds the response of an execution. Its body is `text` and the execution's owner token, so two
/// executions never have equal responses. Its `status` is the number of possible duplicates
/// `repeated` (2 at most), and its `digest` is the index `at` of the place (such as a queue) of the
/// messages.
pub(crate) fn response(granted: &Granted, text: &str, repeated: u64, at: usize) -> StoredResponse {
    StoredResponse {
        status: u16::try_from(repeated.min(u64::try_from(MESSAGES).unwrap())).unwrap(),
        headers: Default::default(),
        // Where the messages are that it counts.
        digest: at.to_string(),
        body: Body::Text(format!("{text} {}", granted.token.owner)),
    }
}

/// Returns the number of possible duplicates that a response of the model states in its `status`.
fn labelled(response: &StoredResponse) -> u64 {
    response.status.into()
}

fn place(response: &StoredResponse) -> usize {
    response.digest.parse().unwrap()
}

fn body(response: &StoredResponse) -> &str {
    match &response.body {
        Body::Text(text) => text,
        Body::Gzip(_) | Body::Object(_) => "",
    }
}
