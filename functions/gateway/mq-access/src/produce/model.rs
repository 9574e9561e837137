//! Model of a produce of two messages that is attempted up to three times, at two queues. A model
//! checker tests that the response is true in every sequence of events. Each attempt searches for
//! the messages of the attempts before. Attempts crash, fail, stall and continue, while an
//! application takes messages, an operator moves them, and a queue refuses messages and leaves
//! copies of them elsewhere.
//!
//! Each message is its own unit of work. A search may find any of the messages on the queue, or
//! none.

use std::sync::Arc;

use broker::EarlierAttempts;
use idempotency::{Place, PlaceHistory, Progress};
use stateright::{Checker as _, Expectation, HasDiscoveries, Model, Property};

use super::{progress_behind, unconfirmed};

const MESSAGES: usize = 2;
const COUNT: u64 = 2;
const QUEUES: usize = 2;
const ATTEMPTS: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    queue: usize,
    /// Progress in the idempotency record when this attempt began to put messages.
    progress: Progress,
    place_history: Arc<PlaceHistory>,
    next: u64,
    /// True if the broker has committed this attempt's next message, but its confirmation has not
    /// arrived.
    is_committed: bool,
    is_over: bool,
}

/// State of the model: queues, attempts and the idempotency record. Each step of the model copies
/// its state; parts that do not change are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    /// Number of copies of each message that are on each queue now.
    on_queue: [[u8; QUEUES]; MESSAGES],
    was_on_queue: [[bool; QUEUES]; MESSAGES],
    /// Number of times that each message was put, on any queue.
    puts: [u8; MESSAGES],
    takes: u8,
    moves: u8,
    attempts: Vec<Arc<Attempt>>,
    progress: Progress,
    place_history: Arc<PlaceHistory>,
    has_failed: bool,
    /// Queue that the response names, and the number of possible duplicates that the response
    /// reports; `None` until the response is sent.
    answered: Option<(usize, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The next attempt connects to `queue` and searches it. After the search, `found` messages
    /// count as put. The attempt records this number only if `is_noted` is true.
    Begin {
        queue: usize,
        found: u64,
        is_noted: bool,
    },
    Commit(usize),
    Confirm(usize),
    Checkpoint(usize),
    Crash(usize),
    /// The attempt with this index fails, and reports how many messages it put. The second number
    /// says how many messages after these are in doubt.
    Fail(usize, u64),
    /// The broker refuses the next message of the attempt with this index, and moves it to a
    /// dead-letter queue.
    Refuse(usize),
    Answer(usize),
    Take(usize, usize),
    Move(usize, usize),
}

/// Rule set that the model checks: the rules of the code, or a variant with a known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Ours,
    /// Known mistake, which the model has to notice: a message that is found proves that all
    /// messages before it are on the same queue, even if earlier attempts used other queues.
    AlwaysHere,
    /// Known mistake, which the model has to notice: a message that is found is on the queue only
    /// once, even after several attempts.
    AlwaysOnce,
    /// Known mistake, which the model has to notice: a refused message counts as being on no queue,
    /// although it may be on a dead-letter queue.
    RefusedIsNowhere,
}

/// Settings of one check of the model: the rule set to check, and the events that may happen
/// besides attempts.
#[derive(Clone, Copy, Debug)]
struct Course {
    rule: Rule,
    takes: u8,
    moves: u8,
    /// True if the broker may refuse a message, and move it to a dead-letter queue.
    refuses: bool,
    /// True if an attempt may continue after the next one has begun, attempts may use any queue,
    /// and searches may fail.
    is_wild: bool,
}

fn place(queue: usize) -> Place {
    Place { id: queue.to_string(), name: queue.to_string() }
}

impl World {
    /// Returns the progress that the next attempt reads from the idempotency record.
    fn left(&self) -> Progress {
        let in_doubt =
            if self.has_failed || self.attempts.is_empty() { self.progress.in_doubt } else { u64::MAX };
        Progress { in_doubt, ..self.progress }
    }

    fn may_end(&self, attempt: usize) -> bool {
        attempt + 1 == self.attempts.len() && !self.has_failed && self.answered.is_none()
    }

    fn is_there(&self, message: u64, queue: usize) -> bool {
        self.on_queue[usize::try_from(message).unwrap()][queue] > 0
    }

    fn attempt_mut(&mut self, index: usize) -> Option<&mut Attempt> {
        self.attempts.get_mut(index).map(Arc::make_mut)
    }

    fn add(&mut self, message: usize, queue: usize) {
        self.on_queue[message][queue] += 1;
        self.was_on_queue[message][queue] = true;
    }
}

impl Course {
    fn unconfirmed(&self, world: &World, queue: usize) -> Option<EarlierAttempts> {
        let left = world.left();
        let arrived = world.place_history.arrive(left, place(queue)).progress;
        let unconfirmed = unconfirmed(&world.place_history, left, arrived)?;
        let is_here = unconfirmed.is_here || self.rule == Rule::AlwaysHere;
        Some(EarlierAttempts { is_here, ..unconfirmed })
    }

    /// Lists the possible results of a search of `queue` for messages of earlier attempts. Each is
    /// the number of messages that count as put afterwards.
    fn findings(&self, world: &World, queue: usize) -> Vec<u64> {
        let from = world.place_history.arrive(world.left(), place(queue)).progress.done;
        let Some(EarlierAttempts { most, is_here, .. }) = self.unconfirmed(world, queue) else {
            return vec![from];
        };
        let end = from.saturating_add(most).min(COUNT);
        let proves = |index: &u64| {
            let all = (from..*index).all(|before| world.is_there(before, queue));
            world.is_there(*index, queue) && (is_here || all)
        };
        let found = (from..end).filter(proves).map(|index| index + 1);
        if self.is_wild { found.chain([from]).collect() } else { vec![found.max().unwrap_or(from)] }
    }
}

impl Model for Course {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World { takes: self.takes, moves: self.moves, ..World::default() }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let is_free = self.is_wild || world.attempts.iter().all(|attempt| attempt.is_over);
        if world.answered.is_none() && world.attempts.len() < ATTEMPTS && is_free {
            // The queues differ by their numbers alone, so the first attempt begins at the first.
            let queues = if self.is_wild && !world.attempts.is_empty() { QUEUES } else { 1 };
            for queue in 0..queues {
                for found in self.findings(world, queue) {
                    actions.push(Action::Begin { queue, found, is_noted: true });
                    if self.is_wild {
                        actions.push(Action::Begin { queue, found, is_noted: false });
                    }
                }
            }
        }
        for (index, attempt) in world.attempts.iter().enumerate().filter(|(_, attempt)| !attempt.is_over) {
            // In a wild course nothing waits for an attempt to be over. So one that crashed is like
            // one that stands still for ever, and the states with it would only be visited twice.
            if !self.is_wild {
                actions.push(Action::Crash(index));
            }
            if attempt.is_committed {
                actions.push(Action::Confirm(index));
            } else if attempt.next < COUNT {
                actions.push(Action::Commit(index));
            }
            if attempt.next > attempt.progress.done {
                actions.push(Action::Checkpoint(index));
            }
            if world.may_end(index) {
                match attempt.next {
                    COUNT => actions.push(Action::Answer(index)),
                    _ if attempt.is_committed => actions.push(Action::Fail(index, 1)),
                    _ => {
                        actions.extend([Action::Fail(index, 0), Action::Fail(index, 1)]);
                        actions.extend(self.refuses.then_some(Action::Refuse(index)));
                    }
                }
            }
        }
        for message in 0..MESSAGES {
            for queue in (0..QUEUES).filter(|queue| world.on_queue[message][*queue] > 0) {
                actions.extend((world.takes > 0).then_some(Action::Take(message, queue)));
                actions.extend((world.moves > 0).then_some(Action::Move(message, queue)));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Begin { queue, found, is_noted } => {
                let left = world.left();
                let arrival = world.place_history.arrive(left, place(queue));
                let earlier = match self.rule {
                    Rule::AlwaysOnce => 1,
                    Rule::Ours | Rule::AlwaysHere | Rule::RefusedIsNowhere => {
                        u32::try_from(world.attempts.len()).unwrap()
                    }
                };
                let progress = match self.unconfirmed(world, queue) {
                    Some(_) => progress_behind(arrival.progress, found, earlier, COUNT),
                    None => arrival.progress,
                };
                let (place_history, done) = (Arc::new(arrival.place_history), progress.done);
                (next.progress, next.has_failed) = (left, false);
                if arrival.has_moved {
                    (next.progress, next.place_history) = (arrival.progress, Arc::clone(&place_history));
                }
                if is_noted && done > arrival.progress.done {
                    (next.progress, next.place_history) = (progress, Arc::clone(&place_history));
                }
                let fresh = Attempt {
                    queue,
                    progress,
                    place_history,
                    next: done,
                    is_committed: false,
                    is_over: false,
                };
                next.attempts.push(Arc::new(fresh));
            }
            Action::Commit(index) => {
                let attempt = next.attempt_mut(index)?;
                attempt.is_committed = true;
                let (message, queue) = (usize::try_from(attempt.next).unwrap(), attempt.queue);
                next.puts[message] += 1;
                next.add(message, queue);
            }
            Action::Confirm(index) => {
                let attempt = next.attempt_mut(index)?;
                attempt.is_committed = false;
                attempt.next += 1;
            }
            Action::Checkpoint(index) => {
                let attempt = world.attempts.get(index)?;
                if !world.may_end(index) {
                    // The attempt's write is refused.
                    next.attempt_mut(index)?.is_over = true;
                } else if attempt.next > next.progress.done || next.place_history != attempt.place_history {
                    next.progress = attempt.progress.advanced(attempt.next, 0);
                    next.place_history = Arc::clone(&attempt.place_history);
                } else {
                    return None;
                }
            }
            Action::Crash(index) => next.attempt_mut(index)?.is_over = true,
            Action::Refuse(index) => {
                let message = usize::try_from(world.attempts.get(index)?.next).unwrap();
                next.puts[message] += 1;
                let in_doubt = u64::from(self.rule != Rule::RefusedIsNowhere);
                return self.next_state(&next, Action::Fail(index, in_doubt));
            }
            Action::Fail(index, in_doubt) => {
                let attempt = next.attempt_mut(index)?;
                attempt.is_over = true;
                let progress = attempt.progress.advanced(attempt.next, in_doubt);
                next.place_history = Arc::new(attempt.place_history.after(progress));
                (next.has_failed, next.progress) = (true, progress);
            }
            Action::Answer(index) => {
                let attempt = next.attempt_mut(index)?;
                attempt.is_over = true;
                next.answered =
                    Some((attempt.queue, attempt.progress.advanced(COUNT, 0).repeated.min(COUNT)));
            }
            Action::Take(message, queue) => {
                next.on_queue[message][queue] -= 1;
                next.takes -= 1;
            }
            Action::Move(message, queue) => {
                next.on_queue[message][queue] -= 1;
                next.moves -= 1;
                next.add(message, 1 - queue);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every message was on the queue that the response names", |_, world: &World| {
                let Some((queue, _)) = world.answered else { return true };
                world.was_on_queue.iter().all(|queues| queues[queue])
            }),
            Property::always("no more messages are twice than the response says", |_, world: &World| {
                let Some((_, label)) = world.answered else { return true };
                let twice = world.puts.iter().filter(|puts| **puts > 1).count();
                u64::try_from(twice).unwrap() <= label
            }),
            Property::always(
                "nothing is put twice where nobody interferes",
                |course: &Self, world: &World| {
                    let is_interfered = course.is_wild || course.refuses || course.takes > 0;
                    is_interfered || world.puts.iter().all(|puts| *puts < 2)
                },
            ),
            Property::sometimes("a successor answers", |_, world: &World| {
                world.answered.is_some() && world.attempts.len() == ATTEMPTS
            }),
            Property::sometimes("a successor finds everything", |_, world: &World| {
                let is_found = |attempt: &Arc<Attempt>| attempt.progress.done == COUNT;
                world.attempts.iter().skip(1).any(is_found) && world.answered.is_some()
            }),
        ]
    }
}

/// Runs the model checker. Returns the names of the violated properties, and the number of states.
fn breaches(course: Course) -> (Vec<&'static str>, usize) {
    let checker = course.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    let holds = |property: &Property<Course>| {
        let is_discovered = found.contains_key(property.name);
        match property.expectation {
            Expectation::Sometimes => is_discovered,
            _ => !is_discovered,
        }
    };
    let broken = course.properties().into_iter().filter(|property| !holds(property));
    (broken.map(|property| property.name).collect(), checker.unique_state_count())
}

const TAME: Course = Course { rule: Rule::Ours, takes: 0, moves: 0, refuses: false, is_wild: false };

#[test]
fn what_a_response_says_of_what_was_found_is_true() {
    for course in [
        TAME,
        Course { takes: 2, ..TAME },
        Course { is_wild: true, takes: 1, ..TAME },
        Course { is_wild: true, moves: 1, ..TAME },
        Course { refuses: true, takes: 1, ..TAME },
        Course { refuses: true, is_wild: true, ..TAME },
    ] {
        let (broken, states) = breaches(course);
        println!("{course:?}: {states} states");
        assert!(broken.is_empty() && states > 100, "{course:?}: {broken:?}, {states} states");
    }
}

/// Checks that the model finds a violation for each known mistake. Otherwise its success would
/// prove nothing about the code's rules.
#[test]
fn a_rule_that_is_wrong_is_found() {
    let wild = Course { is_wild: true, moves: 1, ..TAME };
    let (elsewhere, _) = breaches(Course { rule: Rule::AlwaysHere, ..wild });
    assert!(elsewhere.contains(&"every message was on the queue that the response names"), "{elsewhere:?}");
    let (twice, _) = breaches(Course { rule: Rule::AlwaysOnce, ..wild });
    assert!(twice.contains(&"no more messages are twice than the response says"), "{twice:?}");
    let refuses = Course { refuses: true, ..TAME };
    let (refused, _) = breaches(Course { rule: Rule::RefusedIsNowhere, ..refuses });
    assert!(refused.contains(&"no more messages are twice than the response says"), "{refused:?}");
}
