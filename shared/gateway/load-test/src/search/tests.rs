use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::samples::{LIMITS, accepted};

fn search(first: u32) -> Search {
    Search { first, seconds: 60, most_messages: u64::MAX }
}

/// Runs a search on a simulated target, in which a probe passes if `passes` is true for its rate.
/// Returns the result and all probes.
fn run(search: Search, passes: impl Fn(u32) -> bool) -> (Finding, Vec<Probe>) {
    let mut probes = Vec::new();
    loop {
        match search.next(&probes) {
            Next::Over(finding) => return (finding, probes),
            Next::Probe(rate) => probes.push(Probe { rate_per_sec: rate, passed: passes(rate.get()) }),
        }
    }
}

proptest! {
    #[test]
    fn the_rate_that_is_found_is_within_5_percent_of_what_the_target_sustains(
        sustained in 1_u32..1_000_000,
        first in 50_u32..5_000,
    ) {
        let (finding, probes) = run(search(first), |rate| rate <= sustained);
        let rate = finding.rate_per_sec.unwrap().get();
        prop_assert!(rate <= sustained, "{finding:?}");
        prop_assert!(sustained <= (rate + rate / 20).max(rate + 1), "{finding:?} of {sustained}: {probes:?}");
        prop_assert_eq!(finding.end, SearchEnd::Narrowed);
    }

    #[test]
    fn a_search_ends_whatever_the_target_does(
        first in 1_u32..=1_000_000,
        answers in prop::collection::vec(any::<bool>(), 40),
    ) {
        let search = search(first);
        let mut probes = Vec::new();
        for passed in answers {
            let Next::Probe(rate) = search.next(&probes) else { break };
            probes.push(Probe { rate_per_sec: rate, passed });
        }
        prop_assert!(probes.len() <= usize::try_from(Search::MOST_PROBES).unwrap());
        let Next::Over(finding) = search.next(&probes) else { panic!("a search without end") };
        let best = probes.iter().filter(|probe| probe.passed).map(|probe| probe.rate_per_sec).max();
        prop_assert_eq!(finding.rate_per_sec, best);
    }
}

#[test]
fn the_rate_doubles_until_it_fails_and_is_then_narrowed_down() {
    let (finding, probes) = run(search(100), |rate| rate <= 777);
    let rates: Vec<_> = probes.iter().map(|probe| probe.rate_per_sec.get()).collect();
    assert_eq!(rates, [100, 200, 400, 800, 600, 700, 750, 775]);
    assert_eq!(finding.rate_per_sec.unwrap().get(), 775);
}

#[test]
fn the_ends_of_the_scale_end_a_search() {
    let (finding, _) = run(search(100_000), |_| true);
    assert_eq!((finding.rate_per_sec.unwrap().get(), finding.end), (1_000_000, SearchEnd::HighestRate));
    let (finding, probes) = run(search(100), |_| false);
    assert_eq!((finding.rate_per_sec, finding.end), (None, SearchEnd::LowestRate));
    assert_eq!(probes.last().unwrap().rate_per_sec.get(), 1);
}

#[test]
fn no_probe_exceeds_the_messages_of_a_test() {
    let search = Search { first: 100, seconds: 60, most_messages: 50_000 };
    let (finding, probes) = run(search, |_| true);
    assert_eq!((finding.rate_per_sec.unwrap().get(), finding.end), (400, SearchEnd::MessagesUsedUp));
    assert_eq!(probes.len(), 3);
}

#[test]
fn a_search_is_that_of_its_test() {
    let body = json!({"producers": {"ratePerSec": 500}, "durationSeconds": 30, "mode": "search"});
    let test = accepted(body);
    let expected = Search { first: 500, seconds: 30, most_messages: LIMITS.retained };
    assert_eq!(Search::of(&test), Some(expected));
    let rate = Some(RateLimit::try_from(700).unwrap());
    let probe = test.at_rate(rate);
    assert_eq!(Search::of(&probe), None);
    assert_eq!(probe.producers.as_ref().unwrap().rate_per_sec, rate);
    assert_eq!(*test.at_rate(None), test);
}
