//! Selection strings: the part of SQL-92 by which MQOPEN chooses messages by their properties. The
//! stand-in compares a property with a literal, and combines such conditions.

mod parse;

use std::cmp::Ordering;

use wildmatch::WildMatchPattern;

use crate::protocol::{Descriptor, Message, Value};

/// Parsed selection string of MQOPEN: a condition that messages have to meet.
#[derive(Clone, Debug)]
pub(crate) enum Selector {
    /// Comparison of a property with a literal: the name, the operator and the literal.
    Compare(String, &'static str, Value),
    In(String, Vec<Value>),
    /// Comparison of a property with a pattern, in which `%` stands for any text and `_` for one
    /// character.
    Like(String, WildMatchPattern<'%', '_'>),
    IsNull(String),
    Not(Box<Selector>),
    And(Box<Selector>, Box<Selector>),
    Or(Box<Selector>, Box<Selector>),
}

impl Selector {
    /// Parses a selection string; `None` if its syntax is wrong.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        parse::selector(text)
    }

    /// Returns true if a message meets the condition. A condition whose value is unknown, such as a
    /// comparison with a missing property, is not met.
    pub(crate) fn accepts(&self, message: &Message) -> bool {
        self.holds(message) == Some(true)
    }

    /// Evaluates the condition in SQL's three-valued logic; `None` stands for unknown.
    fn holds(&self, message: &Message) -> Option<bool> {
        match self {
            Self::Compare(name, sign, literal) => compare(&property(name, message)?, sign, literal),
            Self::In(name, list) => {
                let value = property(name, message)?;
                Some(list.iter().any(|literal| compare(&value, "=", literal) == Some(true)))
            }
            Self::Like(name, pattern) => match property(name, message)? {
                Value::Text(text) => Some(pattern.matches(&text)),
                _ => None,
            },
            Self::IsNull(name) => Some(property(name, message).is_none()),
            Self::Not(inner) => inner.holds(message).map(|holds| !holds),
            Self::And(left, right) => match (left.holds(message), right.holds(message)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (left, right) => left.and(right),
            },
            Self::Or(left, right) => match (left.holds(message), right.holds(message)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (left, right) => left.and(right),
            },
        }
    }
}

/// Compares two values with this operator: numbers in any way, texts and booleans only for
/// equality. Any other comparison is unknown (`None`).
fn compare(left: &Value, sign: &str, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::Text(_), Value::Text(_)) | (Value::Boolean(_), Value::Boolean(_)) => match sign {
            "=" | "<>" if left == right => Ordering::Equal,
            "=" | "<>" => Ordering::Less,
            _ => return None,
        },
        (Value::Integer(left), Value::Integer(right)) => left.cmp(right),
        _ => float(left)?.partial_cmp(&float(right)?)?,
    };
    Some(match sign {
        "=" => order.is_eq(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => order.is_ne(),
    })
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        // Selection compares as SQL does, approximately beyond 2^53.
        #[expect(clippy::cast_precision_loss)]
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

fn property(name: &str, message: &Message) -> Option<Value> {
    let name = name.strip_prefix("usr.").unwrap_or(name);
    let property = message.properties.iter().find(|property| property.name == name);
    match property {
        Some(property) => property.value().ok().filter(|value| *value != Value::Null),
        None => of_descriptor(name, &message.descriptor),
    }
}

fn of_descriptor(name: &str, descriptor: &Descriptor) -> Option<Value> {
    Some(match name {
        "JMSPriority" | "Root.MQMD.Priority" => Value::Integer(descriptor.priority.into()),
        "Root.MQMD.Persistence" => Value::Integer(descriptor.persistence.into()),
        "Root.MQMD.MsgType" => Value::Integer(descriptor.message_type.into()),
        "Root.MQMD.Format" => Value::Text(descriptor.format.to_string()),
        "Root.MQMD.ReplyToQ" => Value::Text(descriptor.reply_to_queue.to_string()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Selector;
    use crate::protocol::{Descriptor, Message, Property, Value};

    fn message() -> Message {
        let properties = vec![
            Property::new("colour", Value::Text("red".into())),
            Property::new("size", Value::Integer(7)),
            Property::new("weight", Value::Float(1.5)),
            Property::new("urgent", Value::Boolean(true)),
        ];
        let descriptor = Descriptor { priority: 4, ..Descriptor::default() };
        Message { descriptor, properties, body: Vec::new() }
    }

    #[test]
    fn selection_strings_choose_by_properties() {
        for (text, expected) in [
            ("colour = 'red'", true),
            ("colour <> 'red'", false),
            ("usr.colour = 'red'", true),
            ("size > 5 AND size < 8", true),
            ("size > -5 AND weight = 15e-1", true),
            ("colour IN ('blue', 'red')", true),
            ("colour not in ('blue', 'red')", false),
            ("colour LIKE 'r%'", true),
            ("colour LIKE 'r_'", false),
            ("missing = 1", false),
            ("NOT missing = 1", false),
            ("missing IS NULL", true),
            ("colour IS NOT NULL", true),
            ("urgent", true),
            ("urgent = FALSE", false),
            ("size = '7'", false),
            ("Root.MQMD.Priority = 4", true),
            ("JMSPriority > 4 OR (colour = 'red' AND urgent = TRUE)", true),
        ] {
            assert_eq!(Selector::parse(text).unwrap().accepts(&message()), expected, "{text}");
        }
    }

    #[test]
    fn other_text_is_no_selection_string() {
        for text in ["", "colour =", "= 1", "colour = 'red", "(size = 1", "size = 1 size", "5", "a LIKE 5"] {
            assert!(Selector::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_nested_selection_string_has_a_bound() {
        let text = format!("{}size = 7{}", "(".repeat(5_000), ")".repeat(5_000));
        assert!(Selector::parse(&text).is_none());
    }
}
