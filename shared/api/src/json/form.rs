//! From a parsed body to the form that an operation takes.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::pointer::{Step, pointer};
use crate::problem::Problem;

/// Reads a type from a parsed body.
///
/// # Errors
/// `SCHEMA_VIOLATION` with a pointer to the member at fault; an unknown member's pointer names it.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let steps = error.path().iter().filter_map(|segment| match segment {
            Segment::Map { key } => Some(Step::Member(key)),
            Segment::Seq { index } => Some(Step::Item(*index)),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        Problem::violation(pointer(steps), plain(&error.inner().to_string()))
    })
}

/// Says in a caller's words what serde found, and repeats nothing of the body.
fn plain(message: &str) -> String {
    if message.starts_with("unknown field") {
        return "is not a member of this object".to_owned();
    }
    if let Some(field) = message.strip_prefix("missing field `").and_then(|field| field.strip_suffix('`')) {
        return format!("the member `{field}` is required");
    }
    if message.starts_with("unknown variant") {
        let expected = message.rsplit_once("expected ").map_or("", |(_, expected)| expected);
        return format!("must be {}", expected.replace('`', "\""));
    }
    let mismatch = message.starts_with("invalid type")
        || message.starts_with("invalid value")
        || message.starts_with("invalid length");
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if mismatch => format!("must be {}", json_type(expected)),
        _ => message.to_owned(),
    }
}

fn json_type(expected: &str) -> &str {
    match expected {
        "i64" | "u64" | "u32" | "u8" => "an integer",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "string or map" => "a string",
        expected if expected == "a map" || expected.starts_with("struct ") => "an object",
        expected => expected,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        #[expect(dead_code, reason = "only its reading is tested")]
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[expect(dead_code, reason = "only its reading is tested")]
        size: u32,
    }

    #[test]
    fn a_violation_names_the_member_and_repeats_no_value() {
        for (value, pointer, detail) in [
            (
                json!({"items": [{"size": 1, "colour": "red"}]}),
                "/items/0/colour",
                "is not a member of this object",
            ),
            (json!({"items": [{"size": "top secret"}]}), "/items/0/size", "must be an integer"),
            (json!({"items": [{}]}), "/items/0", "the member `size` is required"),
            (json!({"items": {}}), "/items", "must be an array"),
            (json!([]), "", "must be an object"),
        ] {
            let problem = read::<Form>(value).unwrap_err();
            let [fault] = problem.faults.as_slice() else { panic!("one fault") };
            assert_eq!((fault.pointer.as_str(), fault.detail.as_str()), (pointer, detail));
            assert!(!problem.detail.contains("top secret"));
        }
    }
}
