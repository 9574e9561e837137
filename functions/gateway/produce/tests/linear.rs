//! Tests that the memory which a produce request needs grows linearly with the length of its body,
//! for bodies of any shape. The tests run the parser, the fingerprint, and the form of the
//! operation. They count allocations and their bytes for the worst shapes at one, two and four
//! times a length; nothing is timed.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use allocation_counter::{AllocationInfo, measure};
use api::json;
use front::Operation as _;
use idempotency::Fingerprint;
use produce::ProduceRequest;

/// Runs the code of the produce function that depends only on the request's body. The result is
/// ignored: the body may be accepted or refused.
fn handle(body: &[u8]) {
    if let Ok(value) = json::parse(body) {
        let _ = Fingerprint::of(&value);
        let _ = json::read::<ProduceRequest>(value).and_then(ProduceRequest::plan);
    }
}

fn nested(level: &str, depth: usize, inside: &str, close: &str) -> String {
    level.repeat(depth) + inside + &close.repeat(depth)
}

fn zeros(number: usize) -> String {
    format!("[{}0]", "0,".repeat(number))
}

fn members(number: usize) -> String {
    let members: Vec<_> = (0..number).map(|index| format!("\"member {index}\":{index}")).collect();
    format!("{{{}}}", members.join(","))
}

fn messages(number: usize, message: &str) -> String {
    format!(r#"{{"targetRef":"a","messages":[{}{message}]}}"#, format!("{message},").repeat(number))
}

fn headers(number: usize) -> String {
    let headers: Vec<_> = (0..number).map(|index| format!("\"{index}\":\"{index}\"")).collect();
    format!(r#"{{"targetRef":"a","headers":{{{}}}}}"#, headers.join(","))
}

/// Kind of request body: its name, and a function that builds it with about the given number of
/// bytes.
type Shape = (&'static str, fn(usize) -> String);

const SHAPES: &[Shape] = &[
    ("a long name over a long array", |n| format!("{{\"{}\":{}}}", "a".repeat(n), zeros(n))),
    ("the longest name over a long array", |n| format!("{{\"{}\":{}}}", "a".repeat(1024), zeros(n))),
    ("long names over deep arrays", |n| nested(&format!("{{\"{}\":", "a".repeat(1000)), 62, &zeros(n), "}")),
    ("deep arrays over a long one", |n| nested("[", 62, &zeros(n), "]")),
    ("too deep", |n| nested("[", n, "", "]")),
    ("many arrays", |n| format!("[{}[]]", "[[[[[[[[]]]]]]]],".repeat(n / 16))),
    ("many members", members),
    ("many objects", |n| format!("[{}{{}}]", "{\"a\":{}},".repeat(n / 8))),
    ("large doubles", |n| format!("[{}1]", "1e300,".repeat(n / 8))),
    ("a long number", |n| format!("[0.{}1]", "0".repeat(n))),
    ("a long integer", |n| format!("[{}]", "1".repeat(n))),
    ("escapes", |n| format!("[\"{}\"]", "\\u00e9\\n".repeat(n / 8))),
    ("short messages", |n| messages(n / 16, r#"{"bodyText":""}"#)),
    ("messages of bytes", |n| messages(n / 64, r#"{"bodyBase64":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#)),
    ("messages with headers", |n| messages(n / 64, r#"{"bodyText":"a","headers":{"a":"b","c":"d"}}"#)),
    ("a wrong message behind many", |n| messages(n / 16, r#"{"bodyText":""}"#).replace("}]", "},{}]")),
    ("headers", |n| headers(n / 128)),
    ("too many headers", |n| headers(n / 8)),
    ("an unknown member with a long name", |n| format!(r#"{{"{}":1}}"#, "/".repeat(n))),
    ("an unknown value", |n| format!(r#"{{"payload":{{"mode":"{}"}}}}"#, "a".repeat(n))),
    ("a template", |n| {
        let template = "{{seq}}".repeat(n / 8);
        format!(r#"{{"targetRef":"a","payload":{{"mode":"template","template":"{template}"}}}}"#)
    }),
    ("an unknown placeholder", |n| {
        let template = "a".repeat(n);
        format!(r#"{{"targetRef":"a","payload":{{"mode":"template","template":"{{{{{template}}}}}"}}}}"#)
    }),
    ("addresses", |n| format!(r#"{{"target":{{"connName":"{}h:1"}}}}"#, "h:1,".repeat(n / 4))),
    ("a malformed address", |n| format!(r#"{{"target":{{"connName":"{}"}}}}"#, "h".repeat(n))),
];

fn cost(shape: fn(usize) -> String, size: usize) -> AllocationInfo {
    let body = shape(size);
    measure(|| handle(body.as_bytes()))
}

#[test]
fn cost_is_linear_in_a_body_of_any_shape() {
    const SIZE: usize = 16 * 1024;
    for (name, shape) in SHAPES {
        let [once, twice, four_times] = [1, 2, 4].map(|times| cost(*shape, times * SIZE));
        for (times, larger) in [(2, twice), (4, four_times)] {
            // Vectors double and a depth of 64 is a constant: a little more than the multiple.
            let (bytes, count) = (once.bytes_total * times, once.count_total * times);
            assert!(
                larger.bytes_total <= bytes + bytes / 4 + 4096,
                "{name}: {once:?}, {times} times {larger:?}"
            );
            assert!(
                larger.count_total <= count + count / 4 + 64,
                "{name}: {once:?}, {times} times {larger:?}"
            );
        }
    }
}

/// Checks that bodies of the maximum size need less than 300 MiB at a time; the function has 512
/// MB. A small JSON object takes a hundred times as much memory as its text.
#[test]
fn no_body_takes_the_memory_of_a_function() {
    const SIZE: usize = api::body::MAX_JSON;
    let full = messages(99_999, r#"{"bodyText":"","headers":{"a":""}}"#);
    assert!(json::parse(full.as_bytes()).and_then(json::read::<ProduceRequest>).is_ok());
    let objects = format!("[{}0]", r#"{"":0},"#.repeat(SIZE / 7));
    let arrays = format!("[{}0]", "[0],".repeat(SIZE / 4));
    for body in [full, objects, arrays, zeros(SIZE / 2)] {
        let cost = measure(|| handle(body.as_bytes()));
        assert!(cost.bytes_max < 300 * 1024 * 1024, "{}…: {cost:?}", body.get(..40).unwrap());
    }
}

/// Limits the allocated bytes to 5 copies of the body for each of the 64 levels of nesting that a
/// body may have. The canonical form of a body copies the members of each open object once a level.
#[test]
fn no_shape_costs_more_than_a_few_copies_a_level() {
    for (name, shape) in SHAPES {
        let body = shape(64 * 1024);
        let cost = measure(|| handle(body.as_bytes()));
        let allowed = u64::try_from(body.len()).unwrap() * 64 * 5;
        assert!(cost.bytes_total < allowed, "{name}: {cost:?} for {} bytes", body.len());
    }
}
