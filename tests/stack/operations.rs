//! The routes of the contract, for tests that try all of a kind. Such a test also tries a route
//! that is added later, or fails because it does not expect it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contract::{PUBLISHED, resolved};

/// Lists the routes of the contract: methods in upper case, and paths.
pub fn routes() -> BTreeSet<(String, String)> {
    let of_path = |(path, operations): (&String, &Value)| {
        let members = operations.as_object().unwrap().iter();
        let methods = members.filter(|(_, operation)| operation.get("responses").is_some());
        methods.map(|(method, _)| (method.to_ascii_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    PUBLISHED["paths"].as_object().unwrap().iter().flat_map(of_path).collect()
}

/// Path of the operation that reaches its target after the response.
const LATER: &str = "/tests";

/// Lists the paths of the gateway's operations that respond with what a broker did: the `POST`
/// requests whose body names a target, but for the start of a load test.
pub fn operations() -> BTreeSet<&'static str> {
    let mut paths = targeted();
    assert!(paths.remove(LATER), "the contract has no {LATER}");
    paths
}

/// Lists the paths of the `POST` requests whose body names a target.
pub fn targeted() -> BTreeSet<&'static str> {
    let has_target = |operations: &Value| {
        let body = &operations["post"]["requestBody"];
        ["target", "targetRef"].iter().any(|member| names(body, member))
    };
    let paths = PUBLISHED["paths"].as_object().unwrap().iter();
    paths.filter(|(_, operations)| has_target(operations)).map(|(path, _)| path.as_str()).collect()
}

/// Lists the paths of the `POST` requests that have a body.
pub fn with_body() -> BTreeSet<&'static str> {
    let has_body = |operations: &Value| operations["post"].get("requestBody").is_some();
    let paths = PUBLISHED["paths"].as_object().unwrap().iter();
    paths.filter(|(_, operations)| has_body(operations)).map(|(path, _)| path.as_str()).collect()
}

/// True if a schema, or one that it refers to, has a property of this name.
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

/// Makes the body of an operation out of a body that names a target and nothing else. A consume
/// does not wait, and a load test puts one message.
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
