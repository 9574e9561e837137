//! Reading of the contract's schemas, and the test that each value in a request has a bound there.

use end_to_end::contract::PUBLISHED;
use serde_json::{Value, json};

use crate::bounds::operations::{CONNECTION_TEST, OPERATIONS};

/// Reference to the schema of a product, which is exempt from the test. A product is checked after
/// the request, has a limit of its own (`ITEM_TOO_LARGE`), and cannot fail the request.
const JUDGED_LATER: &str = "#/components/schemas/Product";

/// Returns the schema that `schema` refers to by `$ref`, also through an `allOf` of a single
/// schema. Returns `schema` itself if it is no reference.
pub(crate) fn resolved(schema: &'static Value) -> &'static Value {
    let narrowed = schema.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
    let schema = narrowed.map_or(schema, |all| &all[0]);
    match schema.get("$ref").and_then(Value::as_str) {
        None => schema,
        Some(reference) => {
            resolved(PUBLISHED.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference}")))
        }
    }
}

pub(crate) fn schema(name: &str) -> &'static Value {
    &PUBLISHED["components"]["schemas"][name]
}

/// Returns the schema of the JSON body of POST requests to `path`, a path of the contract.
pub(crate) fn body_schema(path: &str) -> &'static Value {
    resolved(&PUBLISHED["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"])
}

/// Returns true if a schema allows values of the JSON type `name`.
pub(crate) fn takes(schema: &Value, name: &str) -> bool {
    match &schema["type"] {
        Value::String(only) => only == name,
        Value::Array(some) => some.contains(&json!(name)),
        _ => false,
    }
}

/// Returns the alternatives of a schema with `anyOf`, without the type `null`. Any other schema is
/// its only alternative.
pub(crate) fn alternatives(schema: &'static Value) -> Vec<&'static Value> {
    let schema = resolved(schema);
    match schema.get("anyOf").and_then(Value::as_array) {
        Some(any) => any.iter().flat_map(alternatives).filter(|one| one["type"] != "null").collect(),
        None => vec![schema],
    }
}

/// Adds to `found` each string, number, list and map in `schema` that has no bound, as its path and
/// the bound that is missing. `at` is the path of `schema` itself.
fn unbounded(at: &str, schema: &'static Value, found: &mut Vec<String>) {
    if schema.get("$ref").and_then(Value::as_str) == Some(JUDGED_LATER) {
        return;
    }
    for schema in alternatives(schema) {
        let has = |name: &str| schema.get(name).is_some();
        let is_listed = has("enum") || has("const");
        if takes(schema, "string") && !is_listed && !has("maxLength") {
            found.push(format!("{at}: a string without maxLength"));
        }
        if takes(schema, "integer") && !(has("minimum") && has("maximum")) {
            found.push(format!("{at}: an integer without minimum and maximum"));
        }
        if takes(schema, "number") {
            found.push(format!("{at}: no request carries a number that is no integer"));
        }
        if takes(schema, "array") {
            let is_stream = schema["items"].get("$ref").and_then(Value::as_str) == Some(JUDGED_LATER);
            if !has("maxItems") && !is_stream {
                found.push(format!("{at}: an array without maxItems"));
            }
            unbounded(&format!("{at}/0"), &schema["items"], found);
        }
        if takes(schema, "object") {
            for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                unbounded(&format!("{at}/{name}"), member, found);
            }
            match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => {}
                // Headers have the bounds of all of them together: their number, bytes and depth.
                _ if has("maxProperties") && schema["propertyNames"].get("maxLength").is_some() => {}
                _ => found.push(format!("{at}: an object that takes anything")),
            }
        }
        let types = ["string", "integer", "number", "array", "object", "boolean", "null"];
        if !is_listed && !types.iter().any(|name| takes(schema, name)) {
            found.push(format!("{at}: a schema without type"));
        }
    }
}

#[test]
fn every_request_that_has_a_target_is_an_operation_here() {
    assert_eq!(end_to_end::targeted(), OPERATIONS.iter().map(|operation| operation.path).collect());
}

#[test]
fn a_target_is_named_in_its_member_or_by_its_members_alone() {
    let is_described = |name: &str, body: &Value| {
        let reference = format!("#/components/schemas/{name}");
        jsonschema::is_valid(&json!({"$ref": reference, "components": PUBLISHED["components"]}), body)
    };
    let names_one = |body: &Value| {
        let named = (CONNECTION_TEST.target)(body.to_string().as_bytes());
        named.is_ok_and(|named| named.target.is_some() || named.target_ref.is_some())
    };
    for (body, described, is_one) in [
        (json!({"target": {"connName": "h:1"}}), "TargetOnly", true),
        (json!({"targetRef": "a", "target": {}}), "TargetOnly", true),
        (json!({"targetRef": "a", "target": null}), "TargetOnly", true),
        (json!({"connName": "h:1"}), "TargetFull", true),
        // The contract says in words that one of the two is needed: alternatives of `required`
        // would take their types away from generated clients.
        (json!({}), "TargetOnly", false),
        (Value::Null, "", false),
        (json!([]), "", false),
        (json!({"targetRef": "a", "connName": "h:1"}), "", false),
    ] {
        let as_described = ["TargetOnly", "TargetFull"].map(|name| is_described(name, &body));
        assert_eq!(as_described.contains(&true), !described.is_empty(), "{body}");
        assert!(described.is_empty() || is_described(described, &body), "{body}");
        assert_eq!(names_one(&body), is_one, "{body}");
    }
}

#[test]
fn everything_that_a_request_can_carry_has_a_bound() {
    let mut found = Vec::new();
    let mut parameters = 0;
    for (path, operations) in PUBLISHED["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
                let parameter = resolved(parameter);
                parameters += 1;
                let at = format!("{method} {path} {} {}", parameter["in"], parameter["name"]);
                unbounded(&at, &parameter["schema"], &mut found);
            }
            let content = operation.pointer("/requestBody/content").and_then(Value::as_object);
            for (media_type, content) in content.into_iter().flatten() {
                // A line of NDJSON is an item; what is between the lines has no form.
                if media_type != "application/x-ndjson" {
                    unbounded(&format!("{method} {path} body"), &content["schema"], &mut found);
                }
            }
        }
    }
    assert!(parameters > 20, "the walk has found {parameters} parameters only");
    assert!(found.is_empty(), "{found:#?}");
}
