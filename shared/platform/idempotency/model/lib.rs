//! Model checker of the idempotency protocol. It goes through every interleaving of a few workers
//! with one idempotency key, with crashes, lost responses, late writes, clocks that differ, and
//! expiry.
//!
//! The model keeps the store's record and changes it only by `idempotency::protocol`, the code that
//! runs in production. The checker visits every state that can be reached within the bounds of a
//! `Scenario`, and looks for one that breaks an `Invariant`. Another test proves that the checker
//! finds errors: it finds one if any single rule of the protocol (`Guard`) is left out.

#![cfg(test)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails where it finds itself wrong")]
#![allow(clippy::print_stdout, reason = "how a breach is reached, and how far the checker looked")]

mod broken;
mod calls;
mod effect;
mod invariants;
mod moving;
mod producing;
mod scenario;
mod steps;
mod world;

use stateright::{Checker, HasDiscoveries, Model as _};

use broken::Guard;
use scenario::{Kind, Scenario};
use steps::BUILDS_LABELS;

/// Prints the actions that lead to each broken invariant that the checker found. Returns
/// descriptions of the broken invariants, and the number of states visited.
fn found(checker: &impl Checker<Scenario>) -> (Vec<&'static str>, usize) {
    BUILDS_LABELS.set(true);
    let mut breaches = Vec::new();
    for path in checker.discoveries().into_values() {
        breaches.extend(path.last_state().breaches());
        println!("{}:", breaches.join("; "));
        for action in path.into_actions() {
            println!("  {action:?}");
        }
    }
    (breaches, checker.unique_state_count())
}

#[track_caller]
fn assert_holds(scenario: Scenario) {
    let text = format!("{scenario:?}");
    // Breadth first, so that the way to a breach is a shortest one.
    let checker = scenario.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let (breaches, states) = found(&checker);
    println!("{states} states: {text}");
    assert_eq!(breaches, Vec::<&str>::new());
}

/// Returns the number of requests that each client of the model sends: the environment variable
/// `MODEL_REQUESTS`, or 1. One more request means about ten times as many states.
fn requests() -> u8 {
    std::env::var("MODEL_REQUESTS").map_or(1, |requests| requests.parse().unwrap())
}

fn of(kind: Kind, fingerprints: &[&'static str]) -> Scenario {
    let mut scenario = Scenario::of(kind, fingerprints);
    for client in &mut scenario.clients {
        client.requests = requests();
    }
    scenario.clients[0].requests += 1;
    scenario
}

const KINDS: [Kind; 3] = [Kind::Consume, Kind::Produce, Kind::Move];

/// Returns the kinds of work (consume, produce, move) that a large scenario checks: one kind,
/// selected by the index `turn` modulo 3, or all with the environment variable `MODEL_KINDS=all`.
fn kinds(turn: usize) -> Vec<Kind> {
    if std::env::var("MODEL_KINDS").is_ok_and(|kinds| kinds == "all") {
        KINDS.to_vec()
    } else {
        vec![KINDS[turn % KINDS.len()]]
    }
}

#[test]
fn consume_with_two_requests_at_once() {
    assert_holds(of(Kind::Consume, &["a", "a"]));
}

#[test]
fn produce_with_two_requests_at_once() {
    assert_holds(of(Kind::Produce, &["a", "a"]));
}

#[test]
fn move_with_two_requests_at_once() {
    assert_holds(of(Kind::Move, &["a", "a"]));
}

#[test]
fn clocks_that_differ_by_as_much_as_they_may() {
    let skew = 5;
    // The successor's clock is ahead; the worker's is behind its claimer's alone, ahead of it, and
    // behind everybody's.
    let all = [(1, skew, 0), (0, skew, 0), (0, 0, skew), (0, 0, -skew)];
    for (turn, (client, claims_ahead, works_ahead)) in all.into_iter().enumerate() {
        for kind in kinds(turn) {
            let mut scenario = Scenario::of(kind, &["a", "a"]).clocks(client, claims_ahead, works_ahead);
            scenario.clients.iter_mut().for_each(|client| client.requests = requests());
            assert_holds(scenario);
        }
    }
}

#[test]
fn two_bodies_under_one_key() {
    for kind in kinds(0) {
        let mut scenario = Scenario::of(kind, &["a", "b", "a"]);
        scenario.clients.iter_mut().for_each(|client| client.requests = 1);
        scenario.crashes = 0;
        assert_holds(scenario);
    }
}

#[test]
fn a_retention_that_ends_while_requests_come() {
    for kind in kinds(2) {
        let mut scenario = of(kind, &["a", "b"]);
        scenario.retention = 10;
        assert_holds(scenario);
    }
}

/// Checks one client that sends its request at least three times, with up to two crashes of workers
/// and two faulty calls.
#[test]
fn one_trouble_after_the_other() {
    for kind in kinds(1) {
        let mut scenario = Scenario::of(kind, &["a"]);
        scenario.clients[0].requests = 2 + requests();
        scenario.crashes = 2;
        scenario.faults = 2;
        assert_holds(scenario);
    }
}

/// Checks produce requests whose attempts may each put messages at either of two places (such as
/// queues).
#[test]
fn a_target_that_changes_between_attempts() {
    let mut scenario = Scenario::of(Kind::Produce, &["a", "a"]);
    scenario.clients.iter_mut().for_each(|client| client.requests = requests());
    assert_holds(Scenario { places: 2, ..scenario });
    let mut scenario = Scenario::of(Kind::Produce, &["a"]);
    scenario.clients[0].requests = 2 + requests();
    assert_holds(Scenario { places: 2, crashes: 2, ..scenario });
}

/// Proves that the checker can find errors: if any single rule of the protocol is left out, it
/// finds a broken invariant.
#[test]
fn without_any_one_guard_an_invariant_breaks() {
    for guard in Guard::ALL {
        // Depth first reaches a breach that is there after fewer states.
        let checker = where_it_matters(guard).without(guard).checker();
        let (breaches, states) = found(&checker.finish_when(HasDiscoveries::Any).spawn_dfs().join());
        println!("without {guard:?}: {breaches:?} after {states} states");
        assert!(!breaches.is_empty(), "nobody misses {guard:?}");
    }
}

fn where_it_matters(guard: Guard) -> Scenario {
    let same = ["a", "a"];
    match guard {
        Guard::OwnToken
        | Guard::Lease
        | Guard::StartBefore
        | Guard::PrepareFirst
        | Guard::KeepPrepared
        | Guard::OwnClaim => Scenario::of(Kind::Consume, &same),
        Guard::OpenStatus | Guard::KeepCheckpoint | Guard::KeepDoubt | Guard::DoubtRefusals => {
            Scenario::of(Kind::Produce, &same)
        }
        Guard::PutFirst | Guard::CountHands | Guard::SeenProgress => Scenario::of(Kind::Move, &same),
        Guard::NoteRefusals => {
            let mut scenario = Scenario::of(Kind::Move, &["a"]);
            (scenario.clients[0].requests, scenario.faults) = (2, 2);
            scenario
        }
        Guard::Skew => Scenario::of(Kind::Consume, &same).clocks(1, 5, 0),
        Guard::TolerantStart => Scenario::of(Kind::Consume, &same).clocks(0, 0, 5),
        Guard::SamePlace
        | Guard::CountMoved
        | Guard::NoteMove
        | Guard::DoubtOfNoPlace
        | Guard::PlaceOfWork => {
            let mut scenario = Scenario::of(Kind::Produce, &["a"]);
            (scenario.clients[0].requests, scenario.crashes) = (3, 2);
            Scenario { places: 2, ..scenario }
        }
        Guard::SameBody => Scenario::of(Kind::Consume, &["a", "b"]),
    }
}
