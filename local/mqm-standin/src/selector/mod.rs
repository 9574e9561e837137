//! Selection strings: the part of SQL-92 by which MQOPEN chooses messages by their properties.

mod evaluate;
mod parse;

use crate::protocol::{Message, Value};

/// A parsed selection string.
#[derive(Clone, Debug)]
pub(crate) struct Selector(Expression);

/// A condition, or a value.
#[derive(Clone, Debug)]
enum Expression {
    Literal(Value),
    Property(String),
    Negative(Box<Expression>),
    Not(Box<Expression>),
    /// Two expressions joined by an operator of [`parse`].
    Binary(Box<Expression>, &'static str, Box<Expression>),
    In(Box<Expression>, Vec<Expression>),
    Like(Box<Expression>, String, Option<char>),
    IsNull(Box<Expression>),
}

impl Selector {
    /// Parses a selection string; `None` if the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        parse::condition(text).map(Self)
    }

    /// True if the selection string chooses a message. A condition that cannot be known, such as a
    /// comparison with a property that is not there, chooses nothing.
    pub(crate) fn accepts(&self, message: &Message) -> bool {
        evaluate::holds(&self.0, message) == Some(true)
    }
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
        let mut descriptor = Descriptor { priority: 4, ..Descriptor::default() };
        if let Some(start) = descriptor.correlation_id.first_chunk_mut() {
            *start = *b"AB";
        }
        Message { descriptor, properties, body: Vec::new() }
    }

    #[test]
    fn selection_strings_choose_by_properties() {
        for (text, expected) in [
            ("colour = 'red'", true),
            ("colour <> 'red'", false),
            ("usr.colour = 'red'", true),
            ("size > 5 AND size < 8", true),
            ("size BETWEEN 8 AND 9", false),
            ("size not between 8 and 9", true),
            ("colour IN ('blue', 'red')", true),
            ("colour LIKE 'r%'", true),
            ("colour LIKE 'r_'", false),
            ("colour LIKE 'r!_d' ESCAPE '!'", false),
            ("missing = 1", false),
            ("NOT missing = 1", false),
            ("missing IS NULL", true),
            ("colour IS NOT NULL", true),
            ("urgent", true),
            ("urgent = FALSE", false),
            ("weight * 2 = 3", true),
            ("-size = -7", true),
            ("size = '7'", false),
            ("Root.MQMD.Priority = 4", true),
            ("JMSPriority > 4 OR (colour = 'red' AND urgent = TRUE)", true),
            ("Root.MQMD.CorrelId = \"0x414200000000000000000000000000000000000000000000\"", true),
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
