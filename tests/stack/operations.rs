//! Routes of the contract by kind, for tests of all routes of a kind. Such a test also covers a
//! route that is added later, or fails because it does not know it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contract::{PUBLISHED, resolved};

/// Returns all routes of the contract: method in upper case, and path.
pub fn routes() -> BTreeSet<(String, String)> {
    let of_path = |(path, operations): (&String, &Value)| {
        let members = operations.as_object().unwrap().iter();
        let methods = members.filter(|(_, operation)| operation.get("responses").is_some());
        methods.map(|(method, _)| (method.to_ascii_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    PUBLISHED["paths"].as_object().unwrap().iter().flat_map(of_path).collect()
}

/// Path of the operation that uses its target only after the response: the start of a load test.
const LATER: &str = "/tests";

/// Returns the paths of the operations whose response has the result of a broker: POST requests
/// whose body names a target, except for the start of a load test.
pub fn operations() -> BTreeSet<&'static str> {
    let mut paths = targeted();
    assert!(paths.remove(LATER), "the contract has no {LATER}");
    paths
}

/// Returns the paths of all POST requests whose body names a target.
pub fn targeted() -> BTreeSet<&'static str> {
    let has_target = |operations: &Value| {
        let body = &operations["post"]["requestBody"];
        ["target", "targetRef"].iter().any(|member| names(body, member))
    };
    let paths = PUBLISHED["paths"].as_object().unwrap().iter();
    paths.filter(|(_, operations)| has_target(operations)).map(|(path, _)| path.as_str()).collect()
}

/// Returns the paths of all POST requests that have a body.
pub fn with_body() -> BTreeSet<&'static str> {
    let has_body = |operations: &Value| operations["post"].get("requestBody").is_some();
    let paths = PUBLISHED["paths"].as_object().unwrap().iter();
    paths.filter(|(_, operations)| has_body(operations)).map(|(path, _)| path.as_str()).collect()
}

/// Returns true if a schema, or a schema that it refers to, has a property of this name.
fn names(value: &Value, property: &str) -> bool {
    match value {
        Value::Object(members) => {
            members.get("properties").is_some_and(|properties| properties.get(property).is_some())
                || members.get("$ref").is_some_and(|_| names(resolved(value), property))
                || members.iter().any(|(name, member)| name != "examples" && names(member, property))
        }
        Value::Array(items) => items.iter().any(|item| names(item, property)),
        _ => false,
    }
}

/// Builds the smallest body of an operation about a target. `target` is a body that names only the
/// target. A consume does not wait, and a load test puts one message.
pub fn body_of(operation: &str, target: &Value) -> Value {
    let mut body = target.clone();
    match operation {
        "/messages/consume" => body["waitSeconds"] = json!(0),
        "/messages/move" => body = json!({"from": target, "to": "origin"}),
        LATER => {
            body["producers"] = json!({"ratePerSec": 1});
            body["messages"] = json!(1);
        }
        _ => {}
    }
    body
}
