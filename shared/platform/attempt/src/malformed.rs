//! Reads JSON and items of DynamoDB with errors that are safe to log.
//!
//! An error of serde quotes the value that it found: `invalid type: string "hunter2"`. The
//! documents here come from queues, tables, secrets and other functions, and an error ends up in a
//! log, in the database row of a failed chunk, or in a message attribute. [`Malformed`] keeps the
//! place and the kind of the fault, in bounded length, and drops the text.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use serde_path_to_error::Segment;

/// Maximum characters of the path to a fault. It is bounded because it contains names of members
/// from the document.
const LONGEST_PATH: usize = 200;

/// Fault of a JSON document or DynamoDB item, with the path of the faulty member. The fault's text
/// repeats no value of the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct Malformed {
    path: String,
    fault: Fault,
}

/// Kind of fault in a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The text is not valid JSON from this place on.
    #[error("no valid JSON at line {line} column {column}")]
    Syntax {
        /// Line of the fault, counted from 1.
        line: usize,
        /// Column of the fault, counted from 1.
        column: usize,
    },
    /// The JSON document ends too early.
    #[error("the JSON ends too early")]
    Incomplete,
    /// The object lacks the member with this name.
    #[error("the member `{0}` is missing")]
    Missing(String),
    /// The object has the member with this name twice.
    #[error("the member `{0}` occurs twice")]
    Repeated(String),
    /// The object has an unknown member.
    #[error("the member is not known")]
    UnknownMember,
    /// The value has the wrong type, such as a string in place of a number.
    #[error("the value has the wrong type")]
    Type,
    /// The value has the right type, but is not allowed.
    #[error("the value is not allowed")]
    Value,
}

impl Malformed {
    /// Returns the path to the fault, such as `/members/0/name`; `/` for the document as a whole.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the kind of fault.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        &self.fault
    }

    fn new(path: &serde_path_to_error::Path, fault: Fault) -> Self {
        Self { path: place(path), fault }
    }

    fn of_json(path: &serde_path_to_error::Path, error: &serde_json::Error) -> Self {
        let fault = match error.classify() {
            Category::Syntax | Category::Io => Fault::Syntax { line: error.line(), column: error.column() },
            Category::Eof => Fault::Incomplete,
            Category::Data => Fault::of_text(&error.to_string()),
        };
        Self::new(path, fault)
    }
}

/// Writes a path as names of members and indexes, at most 200 characters.
fn place(path: &serde_path_to_error::Path) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("/{index}")),
            Segment::Map { key } => text.extend(['/'].into_iter().chain(key.chars().take(LONGEST_PATH))),
            // The name of a variant may be a value of the document.
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    if text.is_empty() {
        text.push('/');
    }
    text.chars().take(LONGEST_PATH).collect()
}

impl Fault {
    /// Recognizes the kind of fault by the beginning of serde's message. Only names of the type's
    /// fields are copied from the message, never names of the document's members.
    fn of_text(message: &str) -> Self {
        let name =
            |rest: &str| rest.chars().take_while(|character| *character != '`').take(LONGEST_PATH).collect();
        if let Some(rest) = message.strip_prefix("missing field `") {
            Self::Missing(name(rest))
        } else if let Some(rest) = message.strip_prefix("duplicate field `") {
            Self::Repeated(name(rest))
        } else if message.starts_with("unknown field ") {
            Self::UnknownMember
        } else if message.starts_with("invalid type: ") || message.starts_with("Expected ") {
            Self::Type
        } else {
            Self::Value
        }
    }
}

/// Parses JSON bytes into `T`.
///
/// # Errors
/// If the bytes are not JSON, or do not fit `T`.
pub fn from_slice<'de, T: Deserialize<'de>>(json: &'de [u8]) -> Result<T, Malformed> {
    let mut parser = serde_json::Deserializer::from_slice(json);
    let read = serde_path_to_error::deserialize(&mut parser)
        .map_err(|error| Malformed::of_json(error.path(), error.inner()))?;
    parser.end().map_err(|error| Malformed {
        path: "/".to_owned(),
        fault: Fault::Syntax { line: error.line(), column: error.column() },
    })?;
    Ok(read)
}

/// Converts a JSON value into `T`.
///
/// # Errors
/// If the value does not fit `T`.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Malformed> {
    serde_path_to_error::deserialize(value).map_err(|error| Malformed::of_json(error.path(), error.inner()))
}

/// Converts a DynamoDB item into `T`.
///
/// # Errors
/// If the item does not fit `T`.
#[cfg(feature = "dynamodb")]
pub fn from_item<T: DeserializeOwned>(item: impl Into<serde_dynamo::Item>) -> Result<T, Malformed> {
    let item: serde_dynamo::Item = item.into();
    let attributes = serde_dynamo::AttributeValue::M(item.into());
    serde_path_to_error::deserialize(serde_dynamo::Deserializer::from_attribute_value(attributes))
        .map_err(|error| Malformed::new(error.path(), Fault::of_text(&error.inner().to_string())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Document {
        #[expect(dead_code, reason = "only what is refused is looked at")]
        name: Name,
        #[expect(dead_code, reason = "only what is refused is looked at")]
        ports: Vec<u16>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Name;

    impl TryFrom<String> for Name {
        type Error = String;

        fn try_from(name: String) -> Result<Self, String> {
            if name == "hunter2" { Err(format!("{name} is not allowed")) } else { Ok(Self) }
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        On,
    }

    fn refused(document: Value) -> String {
        let text = document.to_string();
        let by_text = from_slice::<Document>(text.as_bytes()).unwrap_err();
        let by_value = from_value::<Document>(document).unwrap_err();
        assert_eq!(by_value, by_text);
        by_value.to_string()
    }

    #[test]
    fn a_fault_has_its_place_and_its_kind() {
        assert_eq!(refused(json!({"ports": []})), "/: the member `name` is missing");
        assert_eq!(
            refused(json!({"name": "n", "ports": ["5432"]})),
            "/ports/0: the value has the wrong type"
        );
        assert_eq!(refused(json!({"name": "n", "ports": [70000]})), "/ports/0: the value is not allowed");
        assert_eq!(refused(json!({"name": "hunter2", "ports": []})), "/name: the value is not allowed");
        assert_eq!(refused(json!({"name": "n", "prots": []})), "/prots: the member is not known");
        assert_eq!(refused(json!("hunter2")), "/: the value has the wrong type");
        let of = |text: &str| from_slice::<Document>(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(of("{\"name\": hunter2"), "/name: no valid JSON at line 1 column 10");
        assert_eq!(of("{\"name\": \"n\""), "/: the JSON ends too early");
        assert_eq!(of("{\"name\":\"n\",\"ports\":[]} hunter2"), "/: no valid JSON at line 1 column 25");
        let twice = of("{\"name\":\"n\",\"name\":\"n\",\"ports\":[]}");
        assert!(twice.ends_with("the member `name` occurs twice"), "{twice}");
    }

    #[test]
    fn no_value_is_repeated_wherever_it_stands() {
        for document in [
            json!("hunter2"),
            json!(["hunter2"]),
            json!({"name": "hunter2", "ports": []}),
            json!({"name": ["hunter2"], "ports": []}),
            json!({"name": "n", "ports": "hunter2"}),
            json!({"name": "n", "ports": ["hunter2"]}),
            json!({"name": "n", "ports": {"hunter2": 1}}),
        ] {
            let error = from_value::<Document>(document.clone()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{document}: {error:?}");
        }
        let error = from_value::<Mode>(json!("hunter2")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert!(from_value::<Mode>(json!("on")).is_ok_and(|mode| matches!(mode, Mode::On)));
    }

    #[test]
    fn a_long_name_does_not_make_a_long_error() {
        let error = from_value::<Document>(json!({ ("n".repeat(100_000)): 1 })).unwrap_err();
        assert!(error.to_string().len() < 300, "{}", error.to_string().len());
        assert_eq!(error.fault(), &Fault::UnknownMember);
    }

    #[cfg(feature = "dynamodb")]
    #[test]
    fn an_item_is_refused_without_its_values() {
        use serde_dynamo::{AttributeValue, Item};
        let item = |ports: AttributeValue| {
            let name = AttributeValue::S("n".to_owned());
            Item::from(std::collections::HashMap::from([
                ("name".to_owned(), name),
                ("ports".to_owned(), ports),
            ]))
        };
        for (ports, said) in [
            (AttributeValue::S("hunter2".to_owned()), "/ports: the value has the wrong type"),
            (
                AttributeValue::L(vec![AttributeValue::N("hunter2".to_owned())]),
                "/ports/0: the value is not allowed",
            ),
        ] {
            assert_eq!(from_item::<Document>(item(ports)).unwrap_err().to_string(), said);
        }
        assert!(from_item::<Document>(item(AttributeValue::Ns(vec!["5432".to_owned()]))).is_ok());
    }
}
