//! Runs the oracles of the fuzz targets on all seeds, and on some hundred random changes of the
//! seeds of each target.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;

use fastrand::Rng;
use oracles::TARGETS;
use toml::Table;

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");
/// Maximum number of bytes of an input, as in `scripts/fuzz.sh`.
const MOST_BYTES: usize = 2_048;

/// Returns the seeds (stored inputs) of a fuzz target, ordered by their file names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(format!("{PACKAGE}/seeds/{target}")).expect("every target has seeds");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Returns a randomly chosen seed with one to four random changes.
fn mutated(seeds: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut input = random.choice(seeds).unwrap().clone();
    for _ in 0..random.usize(1..=4) {
        let at = random.usize(..=input.len());
        match random.u8(..4) {
            0 if at < input.len() => input[at] ^= 1 << random.u8(..8),
            1 if at < input.len() => drop(input.drain(at..(at + random.usize(1..8)).min(input.len()))),
            2 => {
                let other = random.choice(seeds).unwrap();
                input.truncate(at);
                input.extend_from_slice(&other[random.usize(..=other.len())..]);
            }
            _ => input.insert(at, random.u8(..)),
        }
    }
    input.truncate(MOST_BYTES);
    input
}

/// Runs the oracle of a fuzz target on an input. If the oracle panics, the test fails and shows the
/// input.
fn check(target: &str, input: &[u8]) {
    let outcome = catch_unwind(|| oracles::check(target, input));
    assert!(outcome.is_ok(), "{target}: b\"{}\"", input.escape_ascii());
}

/// Returns the number of changed inputs to make from the seeds of each target: the variable
/// `SEED_MUTATIONS`, which `.ci/nightly` sets, or 500.
fn mutations() -> usize {
    std::env::var("SEED_MUTATIONS").map_or(500, |mutations| mutations.parse().unwrap())
}

fn seeds_and_mutations_pass(target: &str) {
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds.iter().for_each(|seed| check(target, seed));
    let mut random = Rng::with_seed(7);
    for _ in 0..mutations() {
        check(target, &mutated(&seeds, &mut random));
    }
}

#[test]
fn every_seed_and_what_is_near_it_passes_its_oracle() {
    for (target, _) in TARGETS {
        seeds_and_mutations_pass(target);
    }
}

#[test]
fn the_fuzzer_has_the_targets_of_the_table() {
    let targets = BTreeSet::from(TARGETS.map(|(name, _)| name.to_owned()));
    let manifest: Table = fs::read_to_string(format!("{PACKAGE}/../Cargo.toml")).unwrap().parse().unwrap();
    let binaries = manifest["bin"].as_array().unwrap();
    let binaries = binaries.iter().map(|binary| binary["name"].as_str().unwrap().to_owned());
    assert_eq!(binaries.collect::<BTreeSet<_>>(), targets);
    let seeds = fs::read_dir(format!("{PACKAGE}/seeds")).unwrap();
    let seeds = seeds.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(seeds.collect::<BTreeSet<_>>(), targets);
}
