//! Model of a queue, a unit of work whose commit is not answered, another consumer, and a search of
//! the queue at any moment: whatever the rules call certain has to be true in every course of
//! events.
//!
//! Two messages belong to the unit of work. Until the queue manager has noticed that the connection
//! is gone, the unit of work is neither committed nor backed out.

use libmqm_sys as mqi;
use stateright::{Checker as _, Model, Property};

use super::rule::{Evidence, Needed};

/// Numbers of the messages in the unit of work whose commit has an unknown outcome.
const MESSAGES: [u8; 2] = [0, 1];
/// Maximum number of messages that the model's other consumer gets from the queue.
const THEIR_GETS: u8 = 3;

/// Owner of a unit of work in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Whose {
    /// Unit of work of an earlier attempt at the same request.
    Earlier,
    Ours,
    /// Unit of work of another consumer of the queue.
    Theirs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Whereabouts {
    Queue,
    Put(Whose),
    Got(Whose),
    /// The message was received, and the commit of that unit of work took effect.
    Removed(Whose),
    /// The message is on no queue, because its put was backed out.
    Never,
}

/// Instance of a message: the original, or a copy with the same id.
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
    /// Proven outcome: after puts, the messages were committed; after gets, our unit of work did
    /// not remove them.
    Certain,
    InDoubt,
    /// Outcome after gets: the messages were removed. Only the wrong rule [`Rule::NotFoundIsTaken`]
    /// concludes this.
    Taken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    FirstPut,
    LaterPut,
    Got,
}

/// Rule by which a search concludes the outcome of a commit: the rule of the code, or a variant
/// with a known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Ours,
    /// Wrong rule: a message that is not found was removed by our get.
    NotFoundIsTaken,
    /// Wrong rule: one message on the queue proves our commit, even if an earlier attempt may have
    /// put it.
    OneProvesALaterPut,
    /// Wrong rule: one message that is back on the queue proves that all are.
    OneBackProvesAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The queue manager ends this owner's unit of work: by a commit if `true`, otherwise by a
    /// backout.
    End(Whose, bool),
    /// The other consumer gets the instance with this index.
    Take(usize),
    /// The search looks for the next message, and finds the instance with this index, or none.
    Look(Option<usize>),
}

#[derive(Clone, Copy, Debug)]
struct Course {
    doubt: Doubt,
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

    /// Applies the commit or backout of `whose` unit of work to this instance.
    fn end(&mut self, whose: Whose, committed: bool) {
        self.whereabouts = match (self.whereabouts, committed) {
            (Whereabouts::Put(of), true) if of == whose => Whereabouts::Queue,
            (Whereabouts::Put(of), false) if of == whose => Whereabouts::Never,
            (Whereabouts::Got(of), true) if of == whose => Whereabouts::Removed(whose),
            (Whereabouts::Got(of), false) if of == whose => {
                self.backouts += 1;
                Whereabouts::Queue
            }
            (whereabouts, _) => whereabouts,
        };
    }

    fn is_held_by(&self, whose: Whose) -> bool {
        matches!(self.whereabouts, Whereabouts::Put(of) | Whereabouts::Got(of) if of == whose)
    }

    fn was_committed(&self) -> bool {
        !matches!(self.whereabouts, Whereabouts::Put(_) | Whereabouts::Never)
    }
}

impl Course {
    fn needed(self) -> Needed {
        match (self.doubt, self.rule) {
            (Doubt::LaterPut, Rule::OneProvesALaterPut) | (Doubt::Got, Rule::OneBackProvesAll) => Needed::One,
            (Doubt::FirstPut, _) => Needed::of_put(true),
            (Doubt::LaterPut, _) => Needed::of_put(false),
            (Doubt::Got, _) => Needed::OF_GOT,
        }
    }

    fn proves(self, found: &Instance) -> bool {
        // The message as it was when it was got.
        let got = Instance { put_at: 1, backouts: 0, ..*found };
        self.doubt != Doubt::Got || got.evidence().came_back_as(&found.evidence())
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

    /// True if the verdict holds in this state. The model is checked in every later state too, so a
    /// verdict must stay true.
    fn is_true(self, world: &World) -> bool {
        let every = |holds: &dyn Fn(&Instance) -> bool| {
            MESSAGES
                .iter()
                .all(|message| world.instances.iter().any(|it| it.message == *message && holds(it)))
        };
        match (world.verdict, self.doubt) {
            (Some(Verdict::Certain), Doubt::FirstPut | Doubt::LaterPut) => every(&Instance::was_committed),
            (Some(Verdict::Certain), Doubt::Got) => {
                every(&|it| it.whereabouts != Whereabouts::Removed(Whose::Ours))
            }
            (Some(Verdict::Taken), _) => {
                // They were got and are gone, or will be.
                let ours = |it: &Instance| {
                    matches!(
                        it.whereabouts,
                        Whereabouts::Got(Whose::Ours) | Whereabouts::Removed(Whose::Ours)
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
        let ours = match self.doubt {
            Doubt::FirstPut | Doubt::LaterPut => Whereabouts::Put(Whose::Ours),
            Doubt::Got => Whereabouts::Got(Whose::Ours),
        };
        let unit = MESSAGES.map(|message| instance(message, 1, ours)).to_vec();
        let others: Vec<Vec<Instance>> = match self.doubt {
            Doubt::FirstPut => vec![Vec::new()],
            // An earlier attempt died, with a smaller or an equal unit of work.
            Doubt::LaterPut => (0..=MESSAGES.len())
                .map(|count| {
                    MESSAGES
                        .iter()
                        .take(count)
                        .map(|message| instance(*message, 0, Whereabouts::Put(Whose::Earlier)))
                        .collect()
                })
                .collect(),
            // Copies that a retry of their produce put, at another time or with the same time.
            Doubt::Got => vec![
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
        for whose in [Whose::Earlier, Whose::Ours, Whose::Theirs] {
            if world.instances.iter().any(|it| it.is_held_by(whose)) {
                actions.extend([Action::End(whose, true), Action::End(whose, false)]);
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
            Action::End(whose, committed) => {
                next.instances.iter_mut().for_each(|it| it.end(whose, committed));
            }
            Action::Take(index) => {
                next.instances.get_mut(index)?.whereabouts = Whereabouts::Got(Whose::Theirs);
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

/// Returns true if a verdict can be wrong under this rule, and the number of states of the model.
fn is_breached(doubt: Doubt, rule: Rule) -> (bool, usize) {
    let checker = Course { doubt, rule }.checker().spawn_bfs().join();
    let found = checker.discoveries();
    assert!(found.contains_key("a doubt is resolved") && found.contains_key("a doubt stays"), "{doubt:?}");
    (found.contains_key("what is certain is true"), checker.unique_state_count())
}

#[test]
fn what_a_look_makes_certain_is_true() {
    for doubt in [Doubt::FirstPut, Doubt::LaterPut, Doubt::Got] {
        let (is_breached, states) = is_breached(doubt, Rule::Ours);
        assert!(!is_breached && states > 50, "{doubt:?}: {states} states");
    }
}

/// Checks that the model finds the mistake of each wrong rule. A model that misses these mistakes
/// could not show that the code's rule is right.
#[test]
fn a_rule_that_is_wrong_is_found() {
    for (doubt, rule) in [
        (Doubt::Got, Rule::NotFoundIsTaken),
        (Doubt::LaterPut, Rule::OneProvesALaterPut),
        (Doubt::Got, Rule::OneBackProvesAll),
    ] {
        assert!(is_breached(doubt, rule).0, "nobody misses {rule:?}");
    }
}
