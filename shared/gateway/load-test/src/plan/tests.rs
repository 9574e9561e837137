use serde_json::{from_value, json, to_value};

use super::*;
use crate::samples::accepted;

fn plan(seconds: u32) -> Plan {
    Plan::of(&accepted(json!({
        "producers": {"count": 2, "ratePerSec": 10}, "consumers": {}, "durationSeconds": seconds
    })))
}

#[test]
fn two_lanes_of_a_worker_take_turns() {
    let plan = plan(250);
    for worker in plan.workers().filter(|worker| worker.role == Role::Producer) {
        let mut windows = Vec::new();
        for parity in [MinuteParity::Even, MinuteParity::Odd] {
            let lane = Lane { worker, parity };
            let mut last = None;
            while let Some(window) = plan.next(lane, last) {
                assert_eq!(window.parity(), parity);
                windows.push(window.number());
                last = Some(window);
            }
        }
        windows.sort_unstable();
        assert_eq!(windows, [0, 1, 2, 3, 4]);
    }
    let last = Window::new(4);
    assert_eq!(plan.end_of(Role::Producer, last), Micros::from_seconds(250));
    assert_eq!(plan.end_of(Role::Consumer, last), Micros::from_seconds(300));
}

#[test]
fn the_items_of_the_map_are_the_names_of_lanes_with_work() {
    let lanes: Vec<_> = plan(15).lanes().map(|lane| to_value(lane).unwrap()).collect();
    // Consumers may go on for a while, so that they need both lanes.
    assert_eq!(lanes, ["p0a", "p1a", "c0a", "c0b"]);
    let alone = accepted(json!({"consumers": {}, "durationSeconds": 15, "foreign": "take"}));
    assert_eq!(Plan::of(&alone).lanes().count(), 1);
}

#[test]
fn a_name_is_read_as_it_was_written_and_no_other_is() {
    for lane in plan(600).lanes() {
        assert_eq!(from_value::<Lane>(to_value(lane).unwrap()).unwrap(), lane);
        assert_eq!(from_value::<Worker>(to_value(lane.worker).unwrap()).unwrap(), lane.worker);
    }
    for name in ["", "p", "pa", "x0a", "p0c", "p-1a", "p+1a", "p01a", "p4294967296a", "p0aa"] {
        assert_eq!(name.parse::<Lane>(), Err(NameError), "{name}");
    }
    let step = Step { lane: "c7b".parse().unwrap(), window: Window::new(3), attempt: 1 };
    assert_eq!(to_value(step).unwrap(), json!({"lane": "c7b", "window": 3, "attempt": 1}));
    assert_eq!(step.to_string(), "c7b/3/1");
}

#[test]
fn an_invocation_starts_before_its_window_opens() {
    let start: Timestamp = "2026-11-26T10:00:00Z".parse().unwrap();
    let at = Plan::starts_at(start, Window::new(2));
    assert_eq!(at.to_string(), "2026-11-26T10:01:57Z");
    assert_eq!(Micros::since_start(start, at), Micros::from_seconds(117));
    assert_eq!(Micros::since_start(start, Plan::starts_at(start, Window::new(0))), Micros::ZERO);
}
