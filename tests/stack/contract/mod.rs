//! Check of each response of a test against the contract, openapi.yaml.
//!
//! The contract lets responses grow: objects may have further members, and lists of values further
//! values. Here both are closed, so the code cannot add a member, a value or a header that the
//! contract lacks. The parts of the contract that responses had are noted in a file. After all
//! tests, `make test` compares the notes with [`described`], so the contract cannot describe a part
//! that no response has.

mod notes;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

pub use self::notes::seen;

use self::notes::note;
use crate::gateway::Answer;

/// Contract as the deployment publishes it: `openapi.yaml` as JSON.
pub static PUBLISHED: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(status::DOCUMENT).unwrap());

/// References to the named schemas that list their values (`enum`).
static LISTS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let schemas = PUBLISHED["components"]["schemas"].as_object().unwrap();
    let lists = schemas.iter().filter(|(_, schema)| schema.get("enum").is_some());
    lists.map(|(name, _)| format!("#/components/schemas/{name}")).collect()
});

/// Compiled schemas by name, so that each schema is compiled once.
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Names of response headers that belong to HTTP or to API Gateway, so the contract does not list
/// them.
const OF_HTTP: [&str; 13] = [
    "allow",
    "apigw-requestid",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-security-policy",
    "content-type",
    "date",
    "referrer-policy",
    "transfer-encoding",
    "x-amzn-requestid",
    "x-content-type-options",
];

/// Members of a response that list its media types: `content` has those of every client,
/// `x-content-by-accept` those that a client must prefer in `Accept` and that generators of clients
/// do not know.
const CONTENTS: [&str; 2] = ["content", "x-content-by-accept"];

/// Statuses with which API Gateway itself responds. [`FRONT_MESSAGE`] is the schema of its body.
const OF_API_GATEWAY: [u16; 4] = [413, 429, 500, 503];
const FRONT_MESSAGE: &str = "#/components/schemas/FrontMessage";

/// Description of a response in the contract, or of the response of an unknown route.
struct Described {
    /// Name of the response in notes: method, path and status. Notes append the media type.
    name: String,
    headers: Map<String, Value>,
    content: Map<String, Value>,
}

/// Checks a response against the contract, and notes the parts of the contract that it has.
///
/// # Panics
/// If the contract does not describe the response, with the difference.
#[track_caller]
pub fn hold(method: &str, path: &str, answer: &Answer) {
    match check(method, path, answer) {
        Ok(seen) => note(seen),
        Err(wrong) => {
            let body = String::from_utf8_lossy(&answer.bytes);
            panic!(
                "openapi.yaml describes another response: {method} {path} {}: {wrong}\n{body}",
                answer.status
            )
        }
    }
}

/// Checks a response against the contract. Returns the parts of the contract that it has.
///
/// # Errors
/// If the contract does not describe the response, with the difference.
fn check(method: &str, path: &str, answer: &Answer) -> Result<BTreeSet<String>, String> {
    let mut seen = BTreeSet::new();
    let media_type = answer.header("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if OF_API_GATEWAY.contains(&answer.status) && media_type != "application/problem+json" {
        let reference = json!({"$ref": FRONT_MESSAGE});
        let body = serde_json::from_slice(&answer.bytes).unwrap_or_default();
        if valid("FrontMessage", &reference, &body).is_ok() {
            members("FrontMessage", &reference, Some(&body), &mut seen);
            return Ok(seen);
        }
    }
    let described = described_response(method, path, answer.status)?;
    for (name, value) in &answer.headers {
        if OF_HTTP.contains(&name.as_str()) {
            continue;
        }
        let header = described.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_str()));
        let (_, header) = header.ok_or_else(|| format!("the header {name} is not described"))?;
        let value = value.to_str().map_err(|error| error.to_string())?;
        let header = resolved(header);
        let value = if header["schema"]["type"] == "integer" {
            serde_json::from_str(value).map_err(|error| format!("{name}: {error}"))?
        } else {
            json!(value)
        };
        valid(&format!("header {name}"), &header["schema"], &value)?;
    }
    if described.content.is_empty() {
        let is_empty = answer.bytes.is_empty();
        return if is_empty { Ok(seen) } else { Err("a body is not described".to_owned()) };
    }
    let content = described.content.get(media_type);
    let content = content.ok_or_else(|| format!("the media type {media_type:?} is not described"))?;
    seen.insert(format!("{} {media_type}", described.name));
    if media_type == "application/json" || media_type.ends_with("+json") {
        // serde_json gives a special meaning to names that begin so, and messages may have any
        // names.
        let body = String::from_utf8_lossy(&answer.bytes).replace("\"$serde_json::", "\"serde_json::");
        let body = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        let name = format!("{} {media_type}", described.name);
        valid(&name, &content["schema"], &body)?;
        if media_type == "application/problem+json" {
            // The contract admits API Gateway's body there, for clients that read no media type.
            problem(&body)?;
        }
        members(&name, &content["schema"], Some(&body), &mut seen);
    }
    Ok(seen)
}

fn described_response(method: &str, path: &str, status: u16) -> Result<Described, String> {
    let path = path.split('?').next().unwrap_or_default();
    let paths = PUBLISHED["paths"].as_object().unwrap();
    let route = paths.iter().find(|(template, _)| matches(template, path));
    let operation = route
        .and_then(|(template, operations)| Some((template, operations.get(method.to_ascii_lowercase())?)));
    let Some((template, operation)) = operation else {
        let expected = if route.is_some() { 405 } else { 404 };
        if status != expected {
            return Err(format!("no route takes this, so the status should be {expected}"));
        }
        let schema = json!({"schema": {"$ref": "#/components/schemas/Problem"}});
        return Ok(Described {
            name: format!("no route {status}"),
            headers: PUBLISHED["components"]["headers"].as_object().unwrap().clone(),
            content: Map::from_iter([("application/problem+json".to_owned(), schema)]),
        });
    };
    let response = operation["responses"].get(status.to_string()).ok_or("the status is not described")?;
    let response = resolved(response);
    let headers = response.get("headers").and_then(Value::as_object).cloned().unwrap_or_default();
    let content = CONTENTS.iter().filter_map(|member| response.get(member)?.as_object().cloned()).flatten();
    let name = format!("{} {template} {status}", method.to_ascii_uppercase());
    Ok(Described { name, headers, content: content.collect() })
}

/// Returns true if a path matches a path template, in which `{name}` stands for one segment.
fn matches(template: &str, path: &str) -> bool {
    let (mut expected, mut segments) = (template.split('/'), path.split('/'));
    let all = expected
        .by_ref()
        .zip(segments.by_ref())
        .all(|(expected, segment)| expected == segment || (expected.starts_with('{') && !segment.is_empty()));
    all && template.split('/').count() == path.split('/').count()
}

/// Closes a schema: objects that do not say whether they have further members get none, and lists
/// of values that allow any other text allow none.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_object = match members.get("type") {
                Some(Value::String(one)) => one == "object",
                Some(Value::Array(some)) => some.contains(&json!("object")),
                _ => false,
            };
            if is_object {
                members.entry("additionalProperties").or_insert(json!(false));
            }
            if let Some(any) = members.get_mut("anyOf").and_then(Value::as_array_mut) {
                let is_list = |schema: &Value| {
                    let reference = schema.get("$ref").and_then(Value::as_str);
                    schema.get("enum").is_some() || reference.is_some_and(|name| LISTS.contains(name))
                };
                if any.iter().any(is_list) {
                    any.retain(|schema| *schema != json!({"type": "string"}));
                }
            }
            for (name, member) in members {
                // The members of an example are not schemas.
                if !["example", "examples"].contains(&name.as_str()) {
                    close(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

pub(crate) fn resolved(schema: &Value) -> &Value {
    match schema.get("$ref").and_then(Value::as_str) {
        None => schema,
        Some(reference) => {
            let found = PUBLISHED.pointer(&reference[1..]);
            resolved(found.unwrap_or_else(|| panic!("{reference} is not in the contract")))
        }
    }
}

/// Adds to `named` each schema of the contract that `schema` refers to, directly or through others,
/// made to refuse undescribed members. Only these are compiled with the schema, since the time to
/// compile grows with their number.
fn add_named(schema: &Value, named: &mut Map<String, Value>) {
    match schema {
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            let name = reference.and_then(|reference| reference.strip_prefix("#/components/schemas/"));
            if let Some(name) = name
                && !named.contains_key(name)
            {
                let schema = &PUBLISHED["components"]["schemas"][name];
                let mut closed = schema.clone();
                close(&mut closed);
                named.insert(name.to_owned(), closed);
                add_named(schema, named);
            }
            members.values().for_each(|member| add_named(member, named));
        }
        Value::Array(items) => items.iter().for_each(|item| add_named(item, named)),
        _ => {}
    }
}

fn valid(name: &str, schema: &Value, instance: &Value) -> Result<(), String> {
    let validator = Arc::clone(VALIDATORS.lock().unwrap().entry(name.to_owned()).or_insert_with(|| {
        let (mut schema, mut named) = (schema.clone(), Map::new());
        add_named(&schema, &mut named);
        close(&mut schema);
        schema["components"]["schemas"] = Value::Object(named);
        let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
        Arc::new(options.build(&schema).unwrap())
    }));
    let faults: Vec<_> =
        validator.iter_errors(instance).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Adds to `found` the members and listed values of a schema: all of them, or only those in
/// `instance`. Each is listed under the name of its schema, which is the same wherever that schema
/// is referred to.
fn members(at: &str, schema: &Value, instance: Option<&Value>, found: &mut BTreeSet<String>) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return members(name, resolved(schema), instance, found);
    }
    for value in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
        if value.is_string() && instance.is_none_or(|instance| instance == value) {
            found.insert(format!("{at}: {value}"));
        }
    }
    for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let value = instance.map(|instance| instance.get(name));
        if value == Some(None) {
            continue;
        }
        let at = format!("{at}/{name}");
        if found.insert(at.clone()) || instance.is_some() {
            members(&at, member, value.flatten(), found);
        }
    }
    if let Some(schema) = schema.get("items") {
        match instance {
            None => members(at, schema, None, found),
            Some(list) => {
                for item in list.as_array().into_iter().flatten() {
                    members(at, schema, Some(item), found);
                }
            }
        }
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        for schema in schema.get(word).and_then(Value::as_array).into_iter().flatten() {
            members(at, schema, instance, found);
        }
    }
}

/// Returns every part of responses that the contract describes: each response, each member of a
/// body, and each listed value.
#[must_use]
pub fn described() -> BTreeSet<String> {
    let mut described = BTreeSet::new();
    each_response(|name, content| {
        // No test can make API Gateway itself respond.
        if content["schema"]["$ref"] == FRONT_MESSAGE {
            return;
        }
        described.insert(name.to_owned());
        members(name, &content["schema"], None, &mut described);
    });
    described
}

/// Calls `visit` for each response and media type in the contract, with its name in notes and its
/// content.
fn each_response(mut visit: impl FnMut(&str, &Value)) {
    for (path, operations) in PUBLISHED["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let response = resolved(response);
                let contents = CONTENTS.iter().filter_map(|member| response.get(member)?.as_object());
                for (media_type, content) in contents.flatten() {
                    visit(&format!("{} {path} {status} {media_type}", method.to_uppercase()), content);
                }
            }
        }
    }
}

/// Returns a text for each example of a response that does not match its own schema, with the
/// difference.
#[must_use]
pub fn wrong_examples() -> Vec<String> {
    let mut wrong = Vec::new();
    each_response(|name, content| {
        let several = content.get("examples").and_then(Value::as_object);
        let several = several.into_iter().flatten().map(|(_, example)| &example["value"]);
        for example in content.get("example").into_iter().chain(several) {
            wrong.extend(
                valid(name, &content["schema"], example).err().map(|fault| format!("{name}: {fault}")),
            );
        }
    });
    wrong
}

/// Checks that a body matches the contract's schema of a problem.
///
/// # Errors
/// If it does not, with the difference.
pub fn problem(body: &Value) -> Result<(), String> {
    conforms("Problem", body)
}

/// Checks that a value matches a named schema of the contract.
///
/// # Errors
/// If it does not, with the difference.
pub fn conforms(schema: &str, value: &Value) -> Result<(), String> {
    valid(schema, &json!({"$ref": format!("#/components/schemas/{schema}")}), value)
}

/// Checks that a value which a response can have matches a named schema of the contract. Notes its
/// parts as if a response had had them.
///
/// # Errors
/// If it does not, with the difference.
pub fn made(schema: &str, value: &Value) -> Result<(), String> {
    let reference = json!({"$ref": format!("#/components/schemas/{schema}")});
    valid(schema, &reference, value)?;
    let mut seen = BTreeSet::new();
    members(schema, &reference, Some(value), &mut seen);
    note(seen);
    Ok(())
}
