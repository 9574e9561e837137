//! Oracle for the parser of request bodies. It accepts only texts that `serde_json` reads, its
//! fingerprint does not depend on a text's spelling, and a refusal is a small problem document with
//! a status 4xx.

use api::{MAX_BODY, Problem, TraceId, json};
use idempotency::Fingerprint;
use serde_json::{Number, Value};

/// Maximum absolute value of a whole floating-point number that the parser converts to an integer:
/// 2⁵³ - 1.
const MAX_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Checks the parser of request bodies with a fuzz input as the body.
pub(crate) fn check(input: &[u8]) {
    let oracle = serde_json::from_slice::<Value>(input);
    match json::parse(input) {
        Err(problem) => is_the_callers(&problem),
        Ok(value) => {
            let oracle = oracle.expect("serde_json refuses it");
            assert_eq!(value, with_whole_numbers(oracle));
            let fingerprint = Fingerprint::of(&value).expect("a fingerprint");
            for spelling in [value.to_string(), format!("{value:#}")] {
                let again = json::parse(spelling.as_bytes()).expect("what was written by serde_json");
                assert_eq!(Fingerprint::of(&again).expect("a fingerprint"), fingerprint);
                assert_eq!(again, value);
            }
        }
    }
}

/// Checks that a problem blames the caller (status 4xx) and its body is JSON within the size limit.
pub(crate) fn is_the_callers(problem: &Problem) {
    assert!((400..500).contains(&problem.reason.status()), "{problem}");
    let reply = problem.to_reply(&TraceId::new());
    assert!(reply.body.len() <= MAX_BODY, "{} bytes", reply.body.len());
    serde_json::from_str::<Value>(&reply.body).expect("JSON");
}

/// Converts whole floating-point numbers to integers, such as `16.0` to 16, as the request parser
/// does.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(whole(number)),
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, with_whole_numbers(value)));
            Value::Object(members.collect())
        }
        other => other,
    }
}

fn whole(number: Number) -> Number {
    match number.as_f64() {
        Some(double) if number.is_f64() && double.fract() == 0.0 && double.abs() <= MAX_INTEGER => {
            Number::from(format!("{double:.0}").parse::<i64>().expect("a whole number"))
        }
        _ => number,
    }
}
