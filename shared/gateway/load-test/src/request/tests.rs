use api::json::read;
use mq::Payload;
use serde_json::{Value, json};

use super::*;
use crate::samples::{LIMITS, accepted, checked};

/// Returns the body of a valid request to start a load test, with these members added or replaced.
fn body(members: Value) -> Value {
    let body = json!({"targetRef": "local", "producers": {}, "consumers": {}, "durationSeconds": 60});
    let (Value::Object(mut all), Value::Object(members)) = (body, members) else { panic!("objects") };
    all.extend(members);
    Value::Object(all)
}

/// Returns the JSON Pointer of the member whose form is wrong, in a valid request with these
/// members added or replaced.
fn misshapen(members: Value) -> String {
    read::<LoadTestRequest>(body(members)).unwrap_err().faults[0].pointer.clone()
}

#[test]
fn the_smallest_request_has_one_worker_of_each_kind() {
    let test = accepted(body(json!({})));
    let (producers, consumers) = (test.producers.unwrap(), test.consumers.unwrap());
    assert_eq!((producers.count.get(), consumers.count.get()), (1, 1));
    assert_eq!((producers.rate_per_sec, consumers.rate_per_sec), (None, None));
    assert_eq!((producers.confirms_in_flight.get(), consumers.prefetch.get()), (1_000, 100));
    assert!(matches!(producers.payload, Payload::Random { size } if size.get() == 1024));
    assert_eq!((test.mode, test.foreign), (Mode::Run, None));
}

#[test]
fn the_request_of_the_contract_is_understood() {
    let sent = json!({
        "targetRef": "local-rabbit", "target": {"queue": "DEV.QUEUE.3"},
        "producers": {"count": 2, "ratePerSec": 100, "messageSizeBytes": 256},
        "consumers": {"count": 1}, "durationSeconds": 15
    });
    let (profile, target, test) = read::<LoadTestRequest>(sent).unwrap().into_parts().unwrap();
    assert_eq!(profile.unwrap().as_str(), "local-rabbit");
    assert_eq!(target.unwrap().queue.unwrap().as_str(), "DEV.QUEUE.3");
    assert_eq!(test.longest().get(), 15_000_000);
}

#[test]
fn every_member_is_stored_with_the_test() {
    let sent = body(json!({
        "queues": {"pattern": "q-%d", "from": 1, "to": 2},
        "producers": {
            "count": 2, "payload": {"mode": "template", "template": "{{seq}}"}, "headers": {"k": 1},
            "mqProps": {"persistence": "nonpersistent", "correlIdBase64": "YQ==", "replyTo": "R"},
            "transaction": {"enabled": true, "txSize": 10, "atomic": true}
        },
        "consumers": {"count": 2, "ratePerSec": 5, "prefetch": 50, "ackEvery": 10, "delayMs": 3},
        "durationSeconds": null, "stages": [{"ratePerSec": 10, "seconds": 30}, {"ratePerSec": 0, "seconds": 5}],
        "warmUpSeconds": 5, "backlog": {"messages": 20}, "stopWhen": "idle", "mode": "run", "foreign": "take",
        "expect": {"throughputPerSec": 9, "putLatencyUs": {"p99_9": 1000}, "lost": 0, "retained": 100}
    }));
    let test = accepted(sent);
    let stored = serde_json::to_string(&test).unwrap();
    assert_eq!(serde_json::from_str::<LoadTest>(&stored).unwrap(), test, "{stored}");
    let criteria: Vec<_> = test.expect.criteria().iter().map(|own| own.metric.to_string()).collect();
    assert_eq!(criteria, ["throughputPerSec", "putLatencyUs.p99_9", "lost", "retained"]);
}

#[test]
fn null_is_the_same_as_absent() {
    let producers = json!({"count": null, "ratePerSec": null, "messageSizeBytes": null, "payload": null,
        "mqProps": null, "headers": null, "transaction": null, "confirmsInFlight": null});
    let consumers = json!({"count": null, "ratePerSec": null, "prefetch": null, "ackEvery": null,
        "delayMs": null, "transaction": {"enabled": null, "txSize": null}});
    let nulls = json!({"target": null, "queues": null, "producers": producers, "consumers": consumers,
        "stages": null, "messages": null, "warmUpSeconds": null, "backlog": null, "stopWhen": null,
        "mode": null, "expect": null, "foreign": null});
    assert_eq!(accepted(body(nulls)), accepted(body(json!({}))));
    let nulls = json!({"putLatencyUs": {"p50": null}, "endToEndLatencyUs": null, "lost": null});
    assert_eq!(accepted(body(json!({"expect": nulls}))).expect.criteria(), []);
}

#[test]
fn members_of_the_wrong_form_are_named() {
    for (members, pointer) in [
        (json!({"colour": "red"}), "/colour"),
        (json!({"producers": {"rate": 1}}), "/producers/rate"),
        (json!({"producers": {"count": 0}}), "/producers/count"),
        (json!({"producers": {"ratePerSec": 1_000_001}}), "/producers/ratePerSec"),
        (json!({"producers": {"payload": {"mode": "hex"}}}), "/producers/payload/mode"),
        (json!({"producers": {"prefetch": 1}}), "/producers/prefetch"),
        (json!({"consumers": {"prefetch": 65_536}}), "/consumers/prefetch"),
        (json!({"consumers": {"delayMs": -1}}), "/consumers/delayMs"),
        (json!({"queues": {"pattern": "q", "from": 1, "to": 2}}), "/queues"),
        (json!({"stages": []}), "/stages"),
        (json!({"stages": [{"ratePerSec": 1}]}), "/stages/0"),
        (json!({"durationSeconds": 604_801}), "/durationSeconds"),
        (json!({"backlog": {}}), "/backlog"),
        (json!({"stopWhen": "full"}), "/stopWhen"),
        (json!({"expect": {"putLatencyMs": {}}}), "/expect/putLatencyMs"),
        (json!({"expect": {"putLatencyUs": {"p999": 1}}}), "/expect/putLatencyUs/p999"),
        (json!({"foreign": "leave"}), "/foreign"),
    ] {
        assert_eq!(misshapen(members.clone()), pointer, "{members}");
    }
}

#[test]
fn members_that_contradict_each_other_are_named() {
    let stages = json!([{"ratePerSec": 1, "seconds": 1}]);
    let two = json!({"pattern": "q-%d", "from": 1, "to": 2});
    for (members, pointer) in [
        (json!({"producers": null, "consumers": null}), ""),
        (json!({"durationSeconds": null}), ""),
        (json!({"messages": 1}), "/messages"),
        (json!({"stages": stages}), "/stages"),
        (json!({"stages": [{"ratePerSec": 0, "seconds": 1}], "durationSeconds": null}), "/stages"),
        (
            json!({"producers": {"ratePerSec": 1}, "stages": stages, "durationSeconds": null}),
            "/producers/ratePerSec",
        ),
        (json!({"queues": two}), "/producers/count"),
        (json!({"queues": two, "producers": {"count": 2}}), "/consumers/count"),
        (json!({"producers": null, "foreign": "take", "stages": stages, "durationSeconds": null}), "/stages"),
        (json!({"producers": null, "foreign": "take", "backlog": {"messages": 1}}), "/backlog"),
        (json!({"producers": null}), "/foreign"),
        (json!({"consumers": null, "foreign": "take"}), "/foreign"),
        (json!({"consumers": null, "stopWhen": "empty"}), "/stopWhen"),
        (json!({"consumers": null, "backlog": {"messages": 1}}), "/backlog"),
        (
            json!({"producers": {"messageSizeBytes": 1, "payload": {"mode": "fixed", "fixedBase64": ""}}}),
            "/producers/messageSizeBytes",
        ),
        (json!({"producers": {"payload": {"mode": "fixed"}}}), "/producers/payload/fixedBase64"),
        (
            json!({"producers": {"mqProps": {"correlIdMode": "fixed"}}}),
            "/producers/mqProps/fixedCorrelIdBase64",
        ),
        (
            json!({"producers": {"transaction": {"enabled": true}, "confirmsInFlight": 1}}),
            "/producers/confirmsInFlight",
        ),
        (json!({"consumers": {"prefetch": 100, "ackEvery": 101}}), "/consumers/ackEvery"),
        (json!({"consumers": {"transaction": {"enabled": true}, "ackEvery": 1}}), "/consumers/ackEvery"),
        (
            json!({"consumers": {"prefetch": 9, "transaction": {"enabled": true, "txSize": 10}}}),
            "/consumers/transaction/txSize",
        ),
        (
            json!({"consumers": {"transaction": {"enabled": true, "txSize": 65_536}}}),
            "/consumers/transaction/txSize",
        ),
        (json!({"mode": "search", "messages": 1, "durationSeconds": null}), "/messages"),
        (json!({"mode": "search", "stopWhen": "idle"}), "/stopWhen"),
        (json!({"mode": "search", "consumers": null, "expect": {"retained": 5}}), "/expect/retained"),
        (json!({"mode": "search", "producers": null, "foreign": "take"}), "/mode"),
        (json!({"consumers": null, "expect": {"lost": 0}}), "/expect/lost"),
        (json!({"producers": null, "foreign": "take", "expect": {"refused": 0}}), "/expect/refused"),
        (
            json!({"consumers": null, "expect": {"endToEndLatencyUs": {"p50": 1}}}),
            "/expect/endToEndLatencyUs/p50",
        ),
        (
            json!({"producers": null, "foreign": "take", "expect": {"putLatencyUs": {"max": 1}}}),
            "/expect/putLatencyUs/max",
        ),
        (json!({"warmUpSeconds": 60}), "/warmUpSeconds"),
        (json!({"producers": {"ratePerSec": 1}, "backlog": {"messages": 61}}), "/backlog/messages"),
    ] {
        let error = checked(body(members.clone())).expect_err(&members.to_string());
        assert_eq!(
            (error.kind, error.pointer.as_str()),
            (RequestErrorKind::Contradiction, pointer),
            "{members}"
        );
    }
}

#[test]
fn without_a_prefetch_as_much_is_delivered_as_is_acknowledged_together() {
    for (consumers, prefetch) in [
        (json!({}), 100),
        (json!({"ackEvery": 500}), 500),
        (json!({"transaction": {"enabled": true, "txSize": 200}}), 200),
        (json!({"transaction": {"enabled": false, "txSize": 200}}), 100),
        (json!({"prefetch": 7, "ackEvery": 7}), 7),
    ] {
        let test = accepted(body(json!({"consumers": consumers})));
        assert_eq!(test.consumers.unwrap().prefetch.get(), prefetch, "{consumers}");
    }
}

#[test]
fn a_limit_that_is_exceeded_is_in_the_detail() {
    for (members, pointer, detail) in [
        (
            json!({"producers": {"count": 50}}),
            "/producers/count",
            "makes 51 workers, producers and consumers together, and a test may have 50",
        ),
        (json!({"consumers": {"count": 50}}), "/consumers/count", "a test may have 50"),
        (json!({"durationSeconds": 28_801}), "/durationSeconds", "takes 28801 s, and a test may take 8 h"),
        (
            json!({"durationSeconds": null, "stages": [{"ratePerSec": 1, "seconds": 604_800}]}),
            "/stages",
            "8 h",
        ),
        (
            json!({"durationSeconds": null, "messages": 28_801, "producers": {"ratePerSec": 1}}),
            "/messages",
            "takes 28801 s, and a test may take 8 h",
        ),
        (json!({"mode": "search", "durationSeconds": 1_441}), "/durationSeconds", "in up to 20 probes"),
        (
            json!({"mode": "search", "producers": {"messageSizeBytes": 4_194_304}, "consumers": null}),
            "/durationSeconds",
            "leaves no room for the messages of a first probe",
        ),
        (
            json!({"producers": {"ratePerSec": 166_667}}),
            "/producers/ratePerSec",
            "makes 10000020 messages, and a test may have 10000000",
        ),
        (json!({"durationSeconds": null, "messages": 10_000_001}), "/messages", "a test may have 10000000"),
        (
            json!({"producers": {"ratePerSec": 16_667}, "consumers": null}),
            "/producers/ratePerSec",
            "leaves 1000020 messages on the queue, and a test may leave 1000000 there",
        ),
        (json!({"backlog": {"messages": 1_000_001}}), "/backlog/messages", "1000000"),
        (
            json!({"producers": {"ratePerSec": 10, "messageSizeBytes": 4_194_304}, "consumers": null}),
            "/producers/ratePerSec",
            "leaves 600 messages of up to 4194304 bytes on the queue, and a test may leave 1073741824 bytes",
        ),
    ] {
        let error = checked(body(members.clone())).expect_err(&members.to_string());
        assert_eq!(
            (error.kind, error.pointer.as_str()),
            (RequestErrorKind::BeyondLimit, pointer),
            "{members}"
        );
        assert!(error.detail.contains(detail), "{error}");
    }
}

#[test]
fn producers_without_a_rate_stay_within_the_limits() {
    let quota = |members| match accepted(body(members)).schedule() {
        Some(crate::Schedule::Unthrottled(schedule)) => schedule.quota(0),
        other => panic!("{other:?}"),
    };
    assert_eq!(quota(json!({})), LIMITS.messages);
    assert_eq!(quota(json!({"consumers": null})), LIMITS.retained);
    assert_eq!(quota(json!({"producers": {"messageSizeBytes": 4_194_304}, "consumers": null})), 256);
    assert_eq!(quota(json!({"durationSeconds": null, "messages": 7})), 7);
}

#[test]
fn messages_on_the_queues_are_held_to_a_number_and_to_bytes() {
    let most = |members| accepted(body(members)).most_retained();
    assert_eq!(most(json!({})), LIMITS.retained);
    assert_eq!(most(json!({"producers": {"messageSizeBytes": 0}})), LIMITS.retained);
    assert_eq!(most(json!({"producers": {"messageSizeBytes": 1_048_576}})), 1_024);
    let payload = json!({"mode": "fixed", "fixedBase64": "A".repeat(4_096)});
    assert_eq!(most(json!({"producers": {"payload": payload}})), 349_525, "of 3,072 bytes");
    assert_eq!(most(json!({"producers": null, "foreign": "take"})), LIMITS.retained);
}

#[test]
fn a_test_that_was_stored_without_a_limit_in_bytes_has_none() {
    let mut stored = serde_json::to_value(accepted(body(json!({})))).unwrap();
    assert_eq!(stored["limits"]["retainedBytes"], LIMITS.retained_bytes);
    stored["limits"].as_object_mut().unwrap().remove("retainedBytes");
    let test: LoadTest = serde_json::from_value(stored).unwrap();
    assert_eq!(test.limits, Limits { retained_bytes: u64::MAX, ..LIMITS });
}
