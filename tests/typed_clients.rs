//! Tests of the contract against rules that generators of clients need. `scripts/clients.sh` runs
//! the generators; these tests name the rule that a change breaks.

use std::collections::BTreeSet;

use end_to_end::contract::PUBLISHED;
use serde_json::Value;

/// Calls `visit` for `value` and each object below it, with the object's path. Leaves out examples.
fn each_schema(at: &str, value: &'static Value, visit: &mut impl FnMut(&str, &'static Value)) {
    match value {
        Value::Object(members) => {
            visit(at, value);
            for (name, member) in members {
                // What an example has is no schema.
                if !["example", "examples"].contains(&name.as_str()) {
                    each_schema(&format!("{at}/{name}"), member, visit);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_schema(&format!("{at}/{index}"), item, visit);
            }
        }
        _ => {}
    }
}

/// Returns true if a schema allows values of the JSON type `name`.
fn takes(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

/// Returns the paths of the contract's objects that break a rule. `rule` returns true for those
/// that keep it.
fn broken(rule: impl Fn(&'static Value) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    each_schema("", &PUBLISHED, &mut |at, schema| {
        if !rule(schema) {
            found.push(at.to_owned());
        }
    });
    found
}

#[test]
fn an_integer_that_may_not_fit_into_32_bits_says_so() {
    let fits = |schema: &Value| {
        let largest = schema.get("maximum").and_then(Value::as_i64);
        largest.is_some_and(|largest| largest <= i64::from(i32::MAX))
    };
    let found = broken(|schema| {
        !takes(schema, "integer")
            || fits(schema)
            || schema.get("format").is_some_and(|format| format == "int64")
    });
    assert_eq!(found, [""; 0], "clients of Java and C# would overflow");
}

#[test]
fn headers_of_a_message_have_values_without_a_type() {
    let headers = &PUBLISHED["components"]["schemas"]["MessageHeaders"]["additionalProperties"];
    let received = &PUBLISHED["components"]["schemas"]["ReceivedMessage"]["properties"]["headers"];
    // Of alternatives without a discriminator a client takes the first: `13` became `true`.
    assert_eq!((headers, &received["additionalProperties"]), (&Value::Bool(true), &Value::Bool(true)));
}

#[test]
fn no_schema_is_made_of_what_generators_leave_out_or_cannot_build() {
    // An `anyOf` of `required` beside `properties` makes a type `unknown`, as `not` and `if` do.
    let found = broken(|schema| {
        let is_schema =
            ["type", "properties", "anyOf", "oneOf", "allOf"].iter().any(|name| schema.get(name).is_some());
        let conditions = ["not", "if", "then", "else"].iter().any(|name| schema.get(name).is_some());
        let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|name| schema.get(name)?.as_array());
        let is_bare =
            |part: &Value| ["type", "$ref", "anyOf", "allOf"].iter().all(|name| part.get(name).is_none());
        !is_schema || !(conditions || parts.flatten().any(is_bare))
    });
    assert_eq!(found, [""; 0]);
    // A member that is `null` alone has no type in most languages. Beside another schema in an
    // `anyOf` it says that the other one may be absent.
    let found = broken(|schema| {
        let properties = schema.get("properties").and_then(Value::as_object);
        !properties
            .into_iter()
            .flatten()
            .any(|(_, member)| member.get("type").is_some_and(|one| one == "null"))
    });
    assert_eq!(found, [""; 0]);
    let found = broken(|schema| !takes(schema, "array") || schema.get("items").is_some());
    assert_eq!(found, [""; 0]);
    // A class that stands for alternatives does not become null by an alternative beside it: null
    // has to be one of its own.
    let is_of_alternatives = |part: &Value| {
        let reference = part.get("$ref").and_then(Value::as_str);
        let schema = reference.and_then(|reference| PUBLISHED.pointer(&reference[1..]));
        schema.is_some_and(|schema| schema.get("anyOf").is_some())
    };
    let mut found = broken(|schema| {
        let any = schema.get("anyOf").and_then(Value::as_array);
        let is_null = |part: &Value| part.get("type").is_some_and(|one| one == "null");
        any.is_none_or(|any| !(any.iter().any(is_null) && any.iter().any(is_of_alternatives)))
    });
    // A product is only sent, and null is written without its class.
    found.retain(|at| !at.starts_with("/components/schemas/Product/"));
    assert_eq!(found, [""; 0]);
    // A schema that admits null cannot be part of another one, and is a class of its own.
    let found = broken(|schema| !(takes(schema, "object") && takes(schema, "null")));
    assert_eq!(found, [""; 0]);
    let found = broken(|schema| {
        let listed = schema.get("enum").and_then(Value::as_array);
        listed.is_none_or(|listed| !listed.contains(&Value::Null))
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn schemas_have_the_names_of_the_gateway_s_document_and_none_of_a_client_s_own_types() {
    let names: BTreeSet<&str> =
        PUBLISHED["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
    for name in ["TargetFull", "TargetOnly", "ProduceReq", "ConsumeReq"] {
        assert!(names.contains(name), "{name}");
    }
    // `Headers` hides the browser's, and the others become `Batch1` beside a member of their name.
    for name in ["Headers", "Request", "Response", "Batch", "Status", "Upload", "Error", "Object"] {
        assert!(!names.contains(name), "{name}");
    }
}

/// Adds to `found` the names of the schemas that `schema` refers to, directly or through others.
fn reached(schema: &'static Value, found: &mut BTreeSet<&'static str>) {
    each_schema("", schema, &mut |_, part| {
        let Some(reference) = part.get("$ref").and_then(Value::as_str) else { return };
        let Some(name) = reference.strip_prefix("#/components/schemas/") else {
            return reached(PUBLISHED.pointer(&reference[1..]).unwrap(), found);
        };
        if found.insert(name) {
            reached(&PUBLISHED["components"]["schemas"][name], found);
        }
    });
}

#[test]
fn objects_and_lists_of_words_of_responses_may_grow() {
    let mut of_responses = BTreeSet::new();
    for operations in PUBLISHED["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            reached(&operation["responses"], &mut of_responses);
        }
    }
    assert!(of_responses.len() > 30, "{of_responses:?}");
    // What is an echo of the request, or what a broker defines.
    let fixed = ["BatchStatus", "LoadType", "MessageType"];
    for name in of_responses {
        let mut closed = Vec::new();
        each_schema(name, &PUBLISHED["components"]["schemas"][name], &mut |at, schema| {
            if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
                closed.push(at.to_owned());
            }
        });
        assert_eq!(closed, [""; 0], "a client would refuse a member that is added there");
        let schema = &PUBLISHED["components"]["schemas"][name];
        assert!(schema.get("enum").is_none() || fixed.contains(&name), "{name} takes no further word");
    }
}

#[test]
fn the_description_says_how_to_begin_with_operations_that_exist() {
    let description = PUBLISHED["info"]["description"].as_str().unwrap();
    assert!(description.contains("**To begin**"));
    let named = description.split('`').filter_map(|quoted| quoted.split_once(' '));
    let named = named.filter(|(method, path)| ["GET", "POST"].contains(method) && path.starts_with('/'));
    let missing: Vec<_> = named
        .filter(|(method, path)| {
            PUBLISHED["paths"].get(path).is_none_or(|path| path.get(method.to_lowercase()).is_none())
        })
        .collect();
    assert_eq!(missing, []);
    // A document that is served leads to where it is served.
    assert_eq!(PUBLISHED["servers"][0]["url"], "/");
}

#[test]
fn a_success_in_json_has_no_other_media_type_and_a_body_in_several_has_json_first() {
    const JSON: &str = "application/json";
    // This type keeps the order in which the contract was written.
    let contract: serde_norway::Value = serde_norway::from_str(include_str!("../openapi.yaml")).unwrap();
    for (path, operations) in contract["paths"].as_mapping().unwrap() {
        for (method, operation) in operations.as_mapping().unwrap() {
            for (status, response) in operation["responses"].as_mapping().unwrap() {
                let content = response.get("content").and_then(serde_norway::Value::as_mapping);
                let is_success = status.as_str().unwrap().starts_with('2');
                let is_one = content.is_none_or(|content| content.len() == 1 || !content.contains_key(JSON));
                assert!(!is_success || is_one, "{method:?} {path:?}");
            }
            // Of several, a generator offers the first, or lets its user choose.
            let Some(body) = operation.get("requestBody") else { continue };
            let first = body["content"].as_mapping().unwrap().keys().next();
            let first = first.and_then(serde_norway::Value::as_str);
            assert_eq!(first, Some(JSON), "{method:?} {path:?}");
        }
    }
}

#[test]
fn the_responses_of_the_front_are_described_beside_each_operation_s_own() {
    for (path, operations) in PUBLISHED["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for status in ["413", "429", "500", "503"] {
                let Some(response) = operation["responses"].get(status) else {
                    // Only what has a body can be too large.
                    assert!(
                        status == "413" && operation.get("requestBody").is_none(),
                        "{method} {path} {status}"
                    );
                    continue;
                };
                let mut reached = BTreeSet::new();
                self::reached(response, &mut reached);
                assert!(reached.contains("FrontMessage"), "{method} {path} {status}");
            }
        }
    }
}
