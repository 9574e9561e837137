//! The folders of MQRFH2: elements with a data type each.

use std::fmt::Write as _;
use std::str::FromStr;

use libmqm_sys as mq;

use crate::protocol::{Property, Value};

/// The folder of properties whose name has none.
const DEFAULT: &str = "usr";

/// The depth to which elements may nest.
const MAX_DEPTH: usize = 32;

/// The data types of elements. Text has none.
const TYPES: [(&str, i32); 9] = [
    ("boolean", mq::MQTYPE_BOOLEAN),
    ("bin.hex", mq::MQTYPE_BYTE_STRING),
    ("i1", mq::MQTYPE_INT8),
    ("i2", mq::MQTYPE_INT16),
    ("i4", mq::MQTYPE_INT32),
    ("int", mq::MQTYPE_INT32),
    ("i8", mq::MQTYPE_INT64),
    ("r4", mq::MQTYPE_FLOAT32),
    ("r8", mq::MQTYPE_FLOAT64),
];

/// Writes a text for each folder, in the order in which properties name them.
pub(super) fn write(properties: &[Property]) -> Vec<String> {
    let mut folders: Vec<(&str, String)> = Vec::new();
    for property in properties {
        let (folder, name) = property.name.split_once('.').unwrap_or((DEFAULT, &property.name));
        let element = element_of(name, property);
        match folders.iter_mut().find(|(there, _)| *there == folder) {
            Some((_, inside)) => inside.push_str(&element),
            None => folders.push((folder, element)),
        }
    }
    let write_folder = |(folder, inside): (&str, String)| {
        let is_known = matches!(folder, "usr" | "jms" | "mcd" | "mqext");
        let content = if is_known { "" } else { " content=\"properties\"" };
        format!("<{folder}{content}>{inside}</{folder}>")
    };
    folders.into_iter().map(write_folder).collect()
}

fn element_of(name: &str, property: &Property) -> String {
    if let Some((outer, inner)) = name.split_once('.') {
        return format!("<{outer}>{}</{outer}>", element_of(inner, property));
    }
    let content = match property.value() {
        Ok(Value::Null) | Err(_) => return format!("<{name} xsi:nil='true'></{name}>"),
        Ok(Value::Boolean(value)) => u8::from(value).to_string(),
        Ok(Value::Bytes(bytes)) => hex::encode_upper(bytes),
        Ok(Value::Integer(number)) => number.to_string(),
        Ok(Value::Float(number)) => number.to_string(),
        Ok(Value::Text(text)) => escape(&text),
    };
    let mut kind = String::new();
    if let Some((data_type, _)) = TYPES.iter().find(|(_, kind)| *kind == property.kind) {
        let _ = write!(kind, " dt='{data_type}'");
    }
    format!("<{name}{kind}>{content}</{name}>")
}

const ESCAPES: [(&str, &str); 5] =
    [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&apos;")];

fn escape(text: &str) -> String {
    ESCAPES.iter().fold(text.to_owned(), |text, (sign, name)| text.replace(sign, name))
}

fn unescape(text: &str) -> String {
    // The ampersand last, so that `&amp;lt;` becomes `&lt;`.
    ESCAPES.iter().rev().fold(text.to_owned(), |text, (sign, name)| text.replace(name, sign))
}

/// The properties of a folder, or `None` if it cannot be read.
pub(super) fn read(text: &str) -> Option<Vec<Property>> {
    let mut properties = Vec::new();
    let rest = element(text.trim_matches([' ', '\0']), "", 0, &mut properties)?;
    rest.trim().is_empty().then_some(properties)
}

/// Reads one element and returns what follows it.
fn element<'a>(text: &'a str, outer: &str, depth: usize, properties: &mut Vec<Property>) -> Option<&'a str> {
    let (tag, mut rest) = text.strip_prefix('<')?.split_once('>')?;
    if depth > MAX_DEPTH {
        return None;
    }
    let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
    let path = if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") };
    let close = format!("</{name}>");
    let mut has_elements = false;
    while !is_empty && rest.starts_with('<') && !rest.starts_with("</") {
        rest = element(rest, &path, depth + 1, properties)?;
        has_elements = true;
    }
    if has_elements {
        return rest.strip_prefix(close.as_str());
    }
    let (content, rest) = if is_empty { ("", rest) } else { rest.split_once(close.as_str())? };
    // A folder without elements holds no property.
    if depth > 0 {
        properties.push(property(path.strip_prefix("usr.").unwrap_or(&path), attributes, content)?);
    }
    Some(rest)
}

fn property(name: &str, attributes: &str, content: &str) -> Option<Property> {
    let attribute = |name: &str| {
        let (_, rest) = attributes.split_once(name)?;
        let rest = rest.trim_start().strip_prefix('=')?.trim_start();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        rest.get(1..)?.split(quote).next()
    };
    if attribute("xsi:nil") == Some("true") {
        return Some(Property::new(name, Value::Null));
    }
    let data_type = attribute("dt");
    let kind = TYPES.iter().find(|(known, _)| Some(*known) == data_type).map(|(_, kind)| *kind);
    fn number<T: FromStr, const N: usize>(content: &str, bytes: fn(T) -> [u8; N]) -> Option<Vec<u8>> {
        content.parse().ok().map(|number| bytes(number).to_vec())
    }
    let bytes = match kind {
        Some(mq::MQTYPE_BOOLEAN) => i32::from(matches!(content, "1" | "true")).to_ne_bytes().to_vec(),
        Some(mq::MQTYPE_BYTE_STRING) => hex::decode(content).ok()?,
        Some(mq::MQTYPE_INT8) => number(content, i8::to_ne_bytes)?,
        Some(mq::MQTYPE_INT16) => number(content, i16::to_ne_bytes)?,
        Some(mq::MQTYPE_INT32) => number(content, i32::to_ne_bytes)?,
        Some(mq::MQTYPE_INT64) => number(content, i64::to_ne_bytes)?,
        Some(mq::MQTYPE_FLOAT32) => number(content, f32::to_ne_bytes)?,
        Some(mq::MQTYPE_FLOAT64) => number(content, f64::to_ne_bytes)?,
        _ => unescape(content).into_bytes(),
    };
    Some(Property { name: name.to_owned(), kind: kind.unwrap_or(mq::MQTYPE_STRING), bytes })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_folder_that_is_not_whole_is_none() {
        for text in ["<usr>", "<usr><a>1</usr>", "<usr><a>1</b></usr>", "usr", "<usr></usr>x", "<"] {
            assert!(read(text).is_none(), "{text}");
        }
        let deep = format!("{}{}", "<a>".repeat(1_000), "</a>".repeat(1_000));
        assert!(read(&deep).is_none());
    }
}
