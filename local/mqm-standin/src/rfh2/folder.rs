//! The folders of MQRFH2: elements with a data type each.

use std::fmt::Write as _;

use crate::protocol::{Property, Value};

/// The folder of properties whose name has none.
const DEFAULT: &str = "usr";

/// How deep elements may nest.
const MAX_DEPTH: usize = 32;

/// One text for each folder, in the order in which properties name them.
pub(super) fn write(properties: &[Property]) -> Vec<String> {
    let mut folders: Vec<(&str, Vec<(&str, &Value)>)> = Vec::new();
    for property in properties {
        let (folder, name) = property.name.split_once('.').unwrap_or((DEFAULT, &property.name));
        match folders.iter_mut().find(|(there, _)| *there == folder) {
            Some((_, inside)) => inside.push((name, &property.value)),
            None => folders.push((folder, vec![(name, &property.value)])),
        }
    }
    let write_folder = |(folder, properties): (&str, Vec<(&str, &Value)>)| {
        let is_known = matches!(folder, "usr" | "jms" | "mcd" | "mqext");
        let content = if is_known { "" } else { " content=\"properties\"" };
        let mut text = format!("<{folder}{content}>");
        for (name, value) in properties {
            write_element(&mut text, name, value);
        }
        let _ = write!(text, "</{folder}>");
        text
    };
    folders.into_iter().map(write_folder).collect()
}

fn write_element(text: &mut String, name: &str, value: &Value) {
    if let Some((outer, inner)) = name.split_once('.') {
        let _ = write!(text, "<{outer}>");
        write_element(text, inner, value);
        let _ = write!(text, "</{outer}>");
        return;
    }
    let (kind, content) = match value {
        Value::Null => (" xsi:nil='true'", String::new()),
        Value::Boolean(value) => (" dt='boolean'", u8::from(*value).to_string()),
        Value::Bytes(bytes) => (" dt='bin.hex'", hex(bytes)),
        Value::Int8(number) => (" dt='i1'", number.to_string()),
        Value::Int16(number) => (" dt='i2'", number.to_string()),
        Value::Int32(number) => (" dt='i4'", number.to_string()),
        Value::Int64(number) => (" dt='i8'", number.to_string()),
        Value::Float32(number) => (" dt='r4'", number.to_string()),
        Value::Float64(number) => (" dt='r8'", number.to_string()),
        Value::Text(content) => ("", escape(content)),
    };
    let _ = write!(text, "<{name}{kind}>{content}</{name}>");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
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
        let name = path.strip_prefix("usr.").unwrap_or(&path);
        properties.push(Property::new(name, value(attributes, content)?));
    }
    Some(rest)
}

fn value(attributes: &str, content: &str) -> Option<Value> {
    let of = |name: &str| {
        let (_, rest) = attributes.split_once(name)?;
        let rest = rest.trim_start().strip_prefix('=')?.trim_start();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        rest.get(1..)?.split(quote).next()
    };
    if of("xsi:nil") == Some("true") {
        return Some(Value::Null);
    }
    Some(match of("dt") {
        Some("boolean") => Value::Boolean(matches!(content, "1" | "true")),
        Some("bin.hex") => Value::Bytes(unhex(content)?),
        Some("i1") => Value::Int8(content.parse().ok()?),
        Some("i2") => Value::Int16(content.parse().ok()?),
        Some("i4" | "int") => Value::Int32(content.parse().ok()?),
        Some("i8") => Value::Int64(content.parse().ok()?),
        Some("r4") => Value::Float32(content.parse().ok()?),
        Some("r8") => Value::Float64(content.parse().ok()?),
        _ => Value::Text(unescape(content)),
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
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
