//! Spellings of a JSON value for property tests: white space, order of members, escapes, numbers.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::Value;

/// Source of choices for spelling a JSON value. When the choices are used up, they are repeated.
/// Fewer and smaller choices lead to a plainer text, so that a failing test case shrinks to a plain
/// one.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    left: Vec<u8>,
    next: usize,
}

impl Choices {
    pub(super) fn any() -> impl Strategy<Value = Self> {
        prop::collection::vec(any::<u8>(), 1..64).prop_map(|left| Self { left, next: 0 })
    }

    /// Returns the next choice, as a number below `options`, which is at most 256.
    pub(super) fn of(&mut self, options: usize) -> usize {
        let choice = self.left[self.next % self.left.len()];
        self.next += 1;
        usize::from(choice) % options.max(1)
    }

    fn from<'a>(&mut self, options: &[&'a str]) -> &'a str {
        options[self.of(options.len())]
    }
}

/// Writes a JSON value in the spelling that the choices select.
pub(super) fn spell(value: &Value, choices: &mut Choices) -> String {
    let mut text = String::new();
    write(value, choices, &mut text);
    text
}

fn write(value: &Value, choices: &mut Choices, to: &mut String) {
    space(choices, to);
    match value {
        Value::Null => to.push_str("null"),
        Value::Bool(value) => to.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => to.push_str(&spell_number(number.as_f64().unwrap(), choices)),
        Value::String(text) => quote(text, choices, to),
        Value::Array(items) => {
            to.push('[');
            for (index, item) in items.iter().enumerate() {
                to.push_str(if index == 0 { "" } else { "," });
                write(item, choices, to);
            }
            space(choices, to);
            to.push(']');
        }
        Value::Object(members) => {
            let mut names: Vec<_> = members.keys().collect();
            for last in (1..names.len()).rev() {
                names.swap(last, choices.of(last + 1));
            }
            to.push('{');
            for (index, name) in names.into_iter().enumerate() {
                to.push_str(if index == 0 { "" } else { "," });
                space(choices, to);
                quote(name, choices, to);
                space(choices, to);
                to.push(':');
                write(&members[name], choices, to);
            }
            space(choices, to);
            to.push('}');
        }
    }
    space(choices, to);
}

fn space(choices: &mut Choices, to: &mut String) {
    to.push_str(choices.from(&["", "", "", " ", "\n", "\t", "\r\n", "  \t "]));
}

fn quote(text: &str, choices: &mut Choices, to: &mut String) {
    to.push('"');
    for character in text.chars() {
        let short = match character {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\u{8}' => Some("\\b"),
            '\u{c}' => Some("\\f"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            _ => None,
        };
        let may_be_literal = !matches!(character, '"' | '\\' | '\0'..='\u{1f}');
        match (choices.of(4), short) {
            (0 | 1, _) if may_be_literal => to.push(character),
            (0..3, Some(short)) => to.push_str(short),
            _ => escape(character, choices, to),
        }
    }
    to.push('"');
}

fn escape(character: char, choices: &mut Choices, to: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        if choices.of(2) == 0 {
            write!(to, "\\u{unit:04x}").unwrap();
        } else {
            write!(to, "\\u{unit:04X}").unwrap();
        }
    }
}

/// Writes a double with the digits, point and exponent that the choices select. Integers beyond
/// ±(2^53-1) always have a point or an exponent.
pub(super) fn spell_number(number: f64, choices: &mut Choices) -> String {
    if number == 0.0 {
        return choices.from(&["0", "-0", "0.0", "-0.000", "0e7", "0E-3", "-0.0e+00"]).to_owned();
    }
    // Seventeen digits distinguish every double from its neighbours, and so do more.
    let scientific = match choices.of(4) {
        0 => format!("{:.*e}", 16 + choices.of(24), number.abs()),
        _ => format!("{:e}", number.abs()),
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    digits.push_str(choices.from(&["", "", "0", "0000"]));
    let mut exponent: i64 = exponent.parse().unwrap();
    let point = choices.of(digits.len() + 1);
    let (before, after) = digits.split_at(point);
    exponent += 1 - i64::try_from(point).unwrap();
    let zeros = if before.is_empty() { choices.from(&["", "0", "000000"]) } else { "" };
    exponent += i64::try_from(zeros.len()).unwrap();

    let mut text = if number < 0.0 { "-".to_owned() } else { String::new() };
    text.push_str(if before.is_empty() { "0" } else { before });
    if !(zeros.is_empty() && after.is_empty()) {
        write!(text, ".{zeros}{after}").unwrap();
    } else if choices.of(3) == 2 {
        text.push_str(".0");
    }
    let is_large_integer = !text.contains('.') && number.abs() > 9_007_199_254_740_991.0;
    if exponent != 0 || is_large_integer || choices.of(3) == 2 {
        let sign = match exponent {
            ..0 => "-",
            0.. => choices.from(&["", "+"]),
        };
        let zeros = choices.from(&["", "", "0", "00"]);
        write!(text, "{}{sign}{zeros}{}", choices.from(&["e", "E"]), exponent.unsigned_abs()).unwrap();
    }
    text
}
