//! Tests of the bounds of every value in the gateway's request bodies. A value at its bound is
//! accepted; a value one beyond it is refused with a pointer to it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::bounds::contract::{alternatives, body_schema, resolved, schema, takes};
use crate::bounds::operations::{Checked, OPERATIONS};

/// Path of a value in a body: the object members and list items that lead to it.
type Place = Vec<Step>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    FirstItem,
}

/// Test values for one value of a request body, by the bounds in the contract: the most extreme
/// values within them, and values just beyond them.
#[derive(Debug)]
struct Edge {
    within: Vec<Value>,
    beyond: Vec<Value>,
}

fn pointer(place: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Member(name) => format!("/{name}"),
        Step::FirstItem => "/0".to_owned(),
    };
    place.iter().map(step).collect()
}

/// Returns a valid text for the string at `place`, with `length` characters, or as long as its
/// format allows.
fn longest(place: &str, schema: &Value, length: usize) -> String {
    if place.ends_with("/connName") {
        let address = |index| format!("{index:0>253}(65535)");
        return (10..26).map(address).collect::<Vec<_>>().join(",");
    }
    if place.ends_with("/timestamp") {
        return "2026-11-22T17:00:00.123456789-03:00".to_owned();
    }
    if place == NUMBERED {
        return format!("{:a<length$}", "%d");
    }
    match schema.get("pattern").and_then(Value::as_str) {
        Some(pattern) if pattern.contains("secret") => format!("{:a<length$}", "secret://"),
        _ if schema.get("contentEncoding").is_some() => "A".repeat(length),
        _ => "a".repeat(length),
    }
}

fn size(schema: &Value, name: &str) -> Option<usize> {
    schema.get(name).map(|bound| usize::try_from(bound.as_u64().unwrap()).unwrap())
}

fn edge_of_text(place: &str, schema: &Value) -> Edge {
    let max = size(schema, "maxLength").unwrap();
    let text = longest(place, schema, max);
    assert_eq!(text.len(), max, "{place}: the contract's bound is not the one that the test fills");
    // Base64 goes on by four characters.
    let more = if schema.get("contentEncoding").is_some() { "AAAA" } else { "a" };
    let mut edge = Edge { within: vec![json!(text)], beyond: vec![json!(format!("{text}{more}"))] };
    if size(schema, "minLength").is_some_and(|min| min > 0) {
        edge.beyond.push(json!(""));
    }
    edge
}

fn edge_of_names(schema: &'static Value) -> Edge {
    let max = size(schema, "maxProperties").unwrap();
    let name = size(&schema["propertyNames"], "maxLength").unwrap();
    // Names and values have 32 KiB together, and the name has one byte here.
    let value = 32 * 1024 - 1;
    let many = |number: usize| -> Value {
        (0..number).map(|index| (index.to_string(), json!(""))).collect::<Map<_, _>>().into()
    };
    let one = |name: usize, value: usize| json!({"a".repeat(name): "b".repeat(value)});
    Edge {
        within: vec![many(max), one(name, 0), one(1, value)],
        beyond: vec![many(max + 1), one(name + 1, 0), one(0, 0), one(1, value + 1)],
    }
}

/// Returns the test values for the value at `place`. Returns `None` for a schema without a bound of
/// its own, such as a boolean or an object whose members have bounds.
fn edge(place: &str, schema: &'static Value, minimal: &Value) -> Option<Edge> {
    if schema.get("enum").is_some() {
        let known: Vec<_> = schema["enum"].as_array().unwrap().clone();
        return Some(Edge { within: known, beyond: vec![json!("unknown"), json!(1)] });
    }
    if takes(schema, "string") {
        return Some(edge_of_text(place, schema));
    }
    if takes(schema, "integer") {
        let bound = |name: &str| schema[name].as_i64().unwrap();
        let (min, max) = (bound("minimum"), bound("maximum"));
        return Some(Edge {
            within: vec![json!(min), json!(max)],
            beyond: vec![json!(min - 1), json!(max + 1)],
        });
    }
    if takes(schema, "array") {
        let items = |number: usize| Value::Array(vec![minimal.clone(); number]);
        let (min, max) = (size(schema, "minItems").unwrap(), size(schema, "maxItems").unwrap());
        return Some(Edge {
            within: vec![items(min), items(max)],
            beyond: vec![items(min - 1), items(max + 1)],
        });
    }
    if schema.get("maxProperties").is_some() {
        return Some(edge_of_names(schema));
    }
    if schema.get("minProperties").is_some() {
        return Some(Edge { within: Vec::new(), beyond: vec![json!({})] });
    }
    None
}

/// Adds every schema at and below `schema` to `leaves`, and the objects among them also to
/// `objects`, each with its path.
fn walk(
    place: &[Step],
    schema: &'static Value,
    leaves: &mut Vec<(Place, &'static Value)>,
    objects: &mut Vec<(Place, &'static Value)>,
) {
    for schema in alternatives(schema) {
        leaves.push((place.to_vec(), schema));
        if let Some(members) = schema.get("properties").and_then(Value::as_object) {
            objects.push((place.to_vec(), schema));
            for (name, member) in members {
                let below = [place, &[Step::Member(name.clone())]].concat();
                walk(&below, member, leaves, objects);
            }
        }
        if let Some(items) = schema.get("items") {
            walk(&[place, &[Step::FirstItem]].concat(), items, leaves, objects);
        }
    }
}

/// Path of a load test's pattern of queue names. An error about it points to the object that
/// contains it.
const NUMBERED: &str = "/queues/pattern";

/// Returns the further members that a body of `operation` needs so that the value at `place` is
/// accepted.
fn surroundings(operation: &str, place: &str) -> Value {
    if operation == "/tests" {
        return surroundings_in_test(place);
    }
    match place {
        "/payload/fixedBase64" => json!({"payload": {"mode": "fixed"}}),
        "/payload/template" => json!({"payload": {"mode": "template"}}),
        "/mqProps/fixedCorrelIdBase64" => json!({"mqProps": {"correlIdMode": "fixed"}}),
        place if place.starts_with("/messages/0/group/") => {
            json!({"messages": [{"bodyText": "a", "group": {"id": "a"}}]})
        }
        place if place.starts_with("/mqProps/group/") => json!({"mqProps": {"group": {"id": "a"}}}),
        place if place.starts_with("/messages/0/") && !place.contains("/body") => {
            json!({"messages": [{"bodyText": "a"}]})
        }
        _ if operation == "/messages/move" => json!({"to": "origin"}),
        _ => json!({}),
    }
}

/// Returns the further members that the body of a load test needs, such as workers and a duration,
/// so that the value at `place` is accepted.
fn surroundings_in_test(place: &str) -> Value {
    // The first stage may be a pause, and a warm-up is shorter than the test.
    let stages = json!([{"ratePerSec": 1, "seconds": 604_800}, {"ratePerSec": 1, "seconds": 604_800}]);
    let (length, lasting) = match place {
        "/messages" => ("messages", json!(1)),
        place if place.starts_with("/stages") || place == "/warmUpSeconds" => ("stages", stages),
        _ => ("durationSeconds", json!(60)),
    };
    let producers = match place {
        place if place.ends_with("/payload/fixedBase64") => json!({"payload": {"mode": "fixed"}}),
        place if place.ends_with("/payload/template") => json!({"payload": {"mode": "template"}}),
        place if place.ends_with("/fixedCorrelIdBase64") => json!({"mqProps": {"correlIdMode": "fixed"}}),
        place if place.contains("/mqProps/group/") => json!({"mqProps": {"group": {"id": "a"}}}),
        _ => json!({}),
    };
    let mut body = json!({"producers": producers, "consumers": {}, length: lasting});
    if place.starts_with("/queues/") {
        body["queues"] = json!({"pattern": "q-%d", "from": 0, "to": 0});
    }
    body
}

/// Returns true if `place` is a member, or within a member, that only the body of a move has.
fn of_a_move(place: &str) -> bool {
    ["/from", "/max", "/selector/msgIdsBase64", "/dryRun"]
        .iter()
        .any(|member| place.strip_prefix(member).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Returns the smallest valid item of the list at `place`.
fn minimal(place: &str) -> Value {
    match place {
        place if of_a_move(place) => json!("YQ=="),
        "/stages" => json!({"ratePerSec": 1, "seconds": 1}),
        "/queues" => json!("Q"),
        "/tags" => json!("t"),
        _ => json!({"bodyText": ""}),
    }
}

/// Sets the value at `place` in `body`, and creates the objects and lists on the way.
fn put(body: &mut Value, place: &[Step], value: Value) {
    let Some((first, rest)) = place.split_first() else {
        *body = value;
        return;
    };
    match first {
        Step::Member(name) => {
            if !body.is_object() {
                *body = json!({});
            }
            put(&mut body[name.as_str()], rest, value);
        }
        Step::FirstItem => {
            if !body.is_array() {
                *body = json!([null]);
            }
            put(&mut body[0], rest, value);
        }
    }
}

fn with(operation: &str, place: &[Step], value: Value) -> Vec<u8> {
    let mut body = surroundings(operation, &pointer(place));
    put(&mut body, place, value);
    body.to_string().into_bytes()
}

/// Returns true if `value` at `place` is valid without a further member. The modes `fixed` and
/// `template` need one, and are tested at the path of that member. Of a range of queue numbers, the
/// largest `from` and the smallest `to` exclude each other.
fn stands_alone(place: &str, value: &Value) -> bool {
    match place {
        place if place.ends_with("/payload/mode") => *value == json!("random"),
        place if place.ends_with("/mqProps/correlIdMode") => *value != json!("fixed"),
        "/queues/from" | "/queues/to" => *value == json!(0),
        _ => true,
    }
}

fn check(operation: &Checked, place: &[Step], edge: Edge) {
    let at = pointer(place);
    let blamed = if at == NUMBERED { "/queues" } else { at.as_str() };
    for value in edge.within.into_iter().filter(|value| stands_alone(&at, value)) {
        let body = with(operation.path, place, value);
        let problem = (operation.target)(&body).err();
        assert!(problem.is_none(), "{}: at its bound {at} is refused: {problem:?}", operation.path);
    }
    for value in edge.beyond {
        let shown: String = value.to_string().chars().take(60).collect();
        let body = with(operation.path, place, value);
        let Err(problem) = (operation.target)(&body) else {
            panic!("{}: {at} takes {shown}", operation.path);
        };
        assert_eq!(problem.reason.status(), 400, "{}: {at}: {problem}", operation.path);
        let found = &problem.faults[0].pointer;
        let is_inside =
            found.strip_prefix(blamed).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        assert!(is_inside, "{}: {at}: {shown} is blamed on {found}", operation.path);
        assert!(problem.detail.len() < 500, "{}: {at}: {problem}", operation.path);
    }
}

#[test]
fn what_is_at_a_bound_is_accepted_and_what_is_beyond_is_refused() {
    for operation in &OPERATIONS {
        let (mut leaves, mut objects) = (Vec::new(), Vec::new());
        walk(&[], body_schema(operation.path), &mut leaves, &mut objects);
        let mut edges = 0;
        for (place, schema) in leaves {
            if let Some(edge) = edge(&pointer(&place), schema, &minimal(&pointer(&place))) {
                edges += 1;
                check(operation, &place, edge);
            }
        }
        assert!(edges >= 10, "{}: {edges} leaves only", operation.path);
    }
}

#[test]
fn a_command_with_every_text_at_its_bound_and_escaped_fits_into_a_body() {
    let (mut leaves, mut objects) = (Vec::new(), Vec::new());
    walk(&[], body_schema("/messages/consume"), &mut leaves, &mut objects);
    // A character takes six bytes as an escape, and a member's name and the rest less than fifty.
    // Only a profile may have a `ccdtUrl`.
    let texts = leaves.iter().filter(|(place, _)| !pointer(place).ends_with("/ccdtUrl"));
    let texts: usize = texts.filter_map(|(_, schema)| size(schema, "maxLength")).sum();
    assert!(texts * 6 + leaves.len() * 50 <= api::body::MAX_COMMAND, "{texts} in {} leaves", leaves.len());
}

/// Returns the members that the code knows, from serde's error message about an unknown member.
fn known_to_the_code(refusal: &str) -> BTreeSet<String> {
    let (_, listed) = refusal.split_once(", expected ").unwrap_or_else(|| panic!("{refusal}"));
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the members that the code accepts at `place` but the contract's schema does not list
/// there: those of a target that is itself the body, and those that only profiles may have.
fn further_members(operation: &Checked, place: &str) -> BTreeSet<String> {
    let takes_bare_targets = ["/queue/depth", "/connections/test"].contains(&operation.path);
    let names: Vec<String> = match place {
        "" if takes_bare_targets => {
            schema("TargetFull")["properties"].as_object().unwrap().keys().cloned().collect()
        }
        place if place.ends_with("/ssl") => {
            ["stashRef", "storePasswordRef", "certificateLabel"].map(str::to_owned).to_vec()
        }
        _ => Vec::new(),
    };
    names.into_iter().collect()
}

#[test]
fn the_code_knows_exactly_the_members_of_the_contract() {
    for operation in &OPERATIONS {
        let (mut leaves, mut objects) = (Vec::new(), Vec::new());
        walk(&[], body_schema(operation.path), &mut leaves, &mut objects);
        let places: Vec<_> = objects.iter().map(|(place, _)| place.clone()).collect();
        for place in places {
            // A place may have several forms, of which the code knows the members of all.
            let described: BTreeSet<String> = objects
                .iter()
                .filter(|(other, _)| *other == place)
                .flat_map(|(_, schema)| resolved(schema)["properties"].as_object().unwrap().keys().cloned())
                .collect();
            let described: BTreeSet<String> =
                described.union(&further_members(operation, &pointer(&place))).cloned().collect();
            let mut body = json!({});
            put(
                &mut body,
                &[place.as_slice(), &[Step::Member("no such member".to_owned())]].concat(),
                json!(1),
            );
            let known = known_to_the_code(&(operation.refusal)(body));
            assert_eq!(known, described, "{} {}", operation.path, pointer(&place));
        }
    }
}
