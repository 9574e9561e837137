//! Model of the search that resolves a commit of unknown outcome. A model checker tests that an
//! outcome which the rules call certain is true in every sequence of events. The model has a queue,
//! a unit of work whose commit is not answered, another consumer, and a search at any moment.
//!
//! Two messages belong to the unit of work. It is neither committed nor backed out until the queue
//! manager notices that the connection is gone.

use libmqm_sys as mqi;
use stateright::{Checker as _, Model, Property};

use super::rule::{Evidence, Needed};

/// Numbers of the messages in the unit of work whose commit has an unknown outcome.
const MESSAGES: [u8; 2] = [0, 1];
/// Maximum number of messages that the other consumer in the model gets from the queue.
const THEIR_GETS: u8 = 3;

/// Owner of a unit of work in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    /// Unit of work of an earlier attempt at the same request.
    Earlier,
    Ours,
    /// Unit of work of another consumer of the queue.
    Theirs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Whereabouts {
    Queue,
    Put(Owner),
    Got(Owner),
    /// The message was received in a unit of work of this owner, whose commit took effect.
    Removed(Owner),
    /// The message is on no queue, because its put was backed out.
    Never,
}

/// Message in the model: the original, or a copy of it with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Instance {
    message: u8,
    put_at: mqi::MQCHAR,
    backouts: i32,
    whereabouts: Whereabouts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    instances: Vec<Instance>,
    their_gets: u8,
    /// Number of messages that the search has looked for so far.
    looked: usize,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Verdict {
    /// The search proves the outcome. After puts, the messages were committed; after gets, the unit
    /// of work did not remove them.
    Certain,
    InDoubt,
    /// The search concludes that the unit of work removed the messages that it got. Only the wrong
    /// rule [`Rule::NotFoundIsTaken`] concludes this.
    Taken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitKind {
    FirstPut,
    LaterPut,
    Got,
}

/// Rule by which a search concludes the outcome of a commit: the rule of the code, or a variant
/// with a known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Ours,
    /// Known mistake, which the model has to notice: a message that is not found was removed by the
    /// unit of work that got it.
    NotFoundIsTaken,
    /// Known mistake, which the model has to notice: one message on the queue proves the commit,
    /// even if an earlier attempt may have put it.
    OneProvesALaterPut,
    /// Known mistake, which the model has to notice: one message that is back on the queue proves
    /// that all are.
    OneBackProvesAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The queue manager ends this owner's unit of work: by a commit if `true`, otherwise by a
    /// backout.
    End(Owner, bool),
    /// The other consumer gets the instance with this index.
    Take(usize),
    /// The search looks for the next message of the unit of work, and finds the instance with this
    /// index; `None` if it finds none.
    Look(Option<usize>),
}

#[derive(Clone, Copy, Debug)]
struct Course {
    kind: CommitKind,
    rule: Rule,
}

fn instance(message: u8, put_at: mqi::MQCHAR, whereabouts: Whereabouts) -> Instance {
    Instance { message, put_at, backouts: 0, whereabouts }
}

impl Instance {
    fn evidence(&self) -> Evidence {
        Evidence {
            message_id: [self.message; 24],
            correlation_id: [0; 24],
            put_date: [0; 8],
            put_time: [self.put_at; 8],
            backout_count: self.backouts,
        }
    }

    /// Applies the commit or backout of `owner`'s unit of work to this instance.
    fn end(&mut self, owner: Owner, committed: bool) {
        self.whereabouts = match (self.whereabouts, committed) {
            (Whereabouts::Put(of), true) if of == owner => Whereabouts::Queue,
            (Whereabouts::Put(of), false) if of == owner => Whereabouts::Never,
            (Whereabouts::Got(of), true) if of == owner => Whereabouts::Removed(owner),
            (Whereabouts::Got(of), false) if of == owner => {
                self.backouts += 1;
                Whereabouts::Queue
            }
            (whereabouts, _) => whereabouts,
        };
    }

    fn is_held_by(&self, owner: Owner) -> bool {
        matches!(self.whereabouts, Whereabouts::Put(of) | Whereabouts::Got(of) if of == owner)
    }

    fn was_committed(&self) -> bool {
        !matches!(self.whereabouts, Whereabouts::Put(_) | Whereabouts::Never)
    }
}

impl Course {
    fn needed(self) -> Needed {
        match (self.kind, self.rule) {
            (CommitKind::LaterPut, Rule::OneProvesALaterPut) | (CommitKind::Got, Rule::OneBackProvesAll) => {
                Needed::One
            }
            (CommitKind::FirstPut, _) => Needed::of_put(true),
            (CommitKind::LaterPut, _) => Needed::of_put(false),
            (CommitKind::Got, _) => Needed::OF_GOT,
        }
    }

    fn proves(self, found: &Instance) -> bool {
        // The message as it was when it was got.
        let got = Instance { put_at: 1, backouts: 0, ..*found };
        self.kind != CommitKind::Got || got.evidence().came_back_as(&found.evidence())
    }

    fn verdict(self, world: &World, is_there: bool) -> Option<Verdict> {
        let needed = self.needed();
        let is_last = world.looked + 1 == MESSAGES.len();
        let certain = needed.settled_by(is_there).or(is_last.then(|| needed.at_the_end()))?;
        Some(match certain {
            true => Verdict::Certain,
            false if self.rule == Rule::NotFoundIsTaken => Verdict::Taken,
            false => Verdict::InDoubt,
        })
    }

    /// True if the conclusion of the search is true in this state. The model checker calls this in
    /// every later state too, so a conclusion must stay true.
    fn is_true(self, world: &World) -> bool {
        let every = |holds: &dyn Fn(&Instance) -> bool| {
            MESSAGES
                .iter()
                .all(|message| world.instances.iter().any(|it| it.message == *message && holds(it)))
        };
        match (world.verdict, self.kind) {
            (Some(Verdict::Certain), CommitKind::FirstPut | CommitKind::LaterPut) => {
                every(&Instance::was_committed)
            }
            (Some(Verdict::Certain), CommitKind::Got) => {
                every(&|it| it.whereabouts != Whereabouts::Removed(Owner::Ours))
            }
            (Some(Verdict::Taken), _) => {
                // They were got and are gone, or will be.
                let ours = |it: &Instance| {
                    matches!(
                        it.whereabouts,
                        Whereabouts::Got(Owner::Ours) | Whereabouts::Removed(Owner::Ours)
                    )
                };
                every(&ours)
            }
            (Some(Verdict::InDoubt) | None, _) => true,
        }
    }
}

impl Model for Course {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let ours = match self.kind {
            CommitKind::FirstPut | CommitKind::LaterPut => Whereabouts::Put(Owner::Ours),
            CommitKind::Got => Whereabouts::Got(Owner::Ours),
        };
        let unit = MESSAGES.map(|message| instance(message, 1, ours)).to_vec();
        let others: Vec<Vec<Instance>> = match self.kind {
            CommitKind::FirstPut => vec![Vec::new()],
            // An earlier attempt died, with a smaller or an equal unit of work.
            CommitKind::LaterPut => (0..=MESSAGES.len())
                .map(|count| {
                    MESSAGES
                        .iter()
                        .take(count)
                        .map(|message| instance(*message, 0, Whereabouts::Put(Owner::Earlier)))
                        .collect()
                })
                .collect(),
            // Copies that a retry of their produce put, at another time or with the same time.
            CommitKind::Got => vec![
                Vec::new(),
                vec![instance(0, 2, Whereabouts::Queue)],
                vec![instance(0, 1, Whereabouts::Queue)],
                MESSAGES.map(|message| instance(message, 1, Whereabouts::Queue)).to_vec(),
            ],
        };
        let world = |more: Vec<Instance>| World {
            instances: [unit.clone(), more].concat(),
            their_gets: THEIR_GETS,
            looked: 0,
            verdict: None,
        };
        others.into_iter().map(world).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for owner in [Owner::Earlier, Owner::Ours, Owner::Theirs] {
            if world.instances.iter().any(|it| it.is_held_by(owner)) {
                actions.extend([Action::End(owner, true), Action::End(owner, false)]);
            }
        }
        let on_queue =
            || world.instances.iter().enumerate().filter(|(_, it)| it.whereabouts == Whereabouts::Queue);
        if world.their_gets > 0 {
            actions.extend(on_queue().map(|(index, _)| Action::Take(index)));
        }
        let sought = MESSAGES.get(world.looked).filter(|_| world.verdict.is_none());
        if let Some(sought) = sought {
            let found: Vec<_> = on_queue().filter(|(_, it)| it.message == *sought).collect();
            actions.extend(found.iter().map(|(index, _)| Action::Look(Some(*index))));
            if found.is_empty() {
                actions.push(Action::Look(None));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::End(owner, committed) => {
                next.instances.iter_mut().for_each(|it| it.end(owner, committed));
            }
            Action::Take(index) => {
                next.instances.get_mut(index)?.whereabouts = Whereabouts::Got(Owner::Theirs);
                next.their_gets -= 1;
            }
            Action::Look(found) => {
                let found = found.and_then(|index| world.instances.get(index));
                next.verdict = self.verdict(world, found.is_some_and(|found| self.proves(found)));
                next.looked += 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what is certain is true", |course: &Self, world: &World| course.is_true(world)),
            Property::sometimes("a doubt is resolved", |_, world: &World| {
                world.verdict == Some(Verdict::Certain)
            }),
            Property::sometimes("a doubt stays", |_, world: &World| {
                matches!(world.verdict, Some(Verdict::InDoubt | Verdict::Taken))
            }),
        ]
    }
}

/// Runs the model checker with `rule`, for a commit of this `kind`. Returns true if a conclusion
/// of the search can be wrong, and the number of states of the model.
fn is_breached(kind: CommitKind, rule: Rule) -> (bool, usize) {
    let checker = Course { kind, rule }.checker().spawn_bfs().join();
    let found = checker.discoveries();
    assert!(found.contains_key("a doubt is resolved") && found.contains_key("a doubt stays"), "{kind:?}");
    (found.contains_key("what is certain is true"), checker.unique_state_count())
}

#[test]
fn what_a_look_makes_certain_is_true() {
    for kind in [CommitKind::FirstPut, CommitKind::LaterPut, CommitKind::Got] {
        let (is_breached, states) = is_breached(kind, Rule::Ours);
        assert!(!is_breached && states > 50, "{kind:?}: {states} states");
    }
}

/// Checks that the model notices each known mistake. A model that misses these mistakes could not
/// show that the code's rule is right.
#[test]
fn a_rule_that_is_wrong_is_found() {
    for (kind, rule) in [
        (CommitKind::Got, Rule::NotFoundIsTaken),
        (CommitKind::LaterPut, Rule::OneProvesALaterPut),
        (CommitKind::Got, Rule::OneBackProvesAll),
    ] {
        assert!(is_breached(kind, rule).0, "nobody misses {rule:?}");
    }
}
