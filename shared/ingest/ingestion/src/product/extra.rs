//! Canonical form of an item's members that have no column: equal content gives equal bytes, in any
//! spelling and order.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Decimal;
use super::error::{Fault, without_place};
use super::members;
use super::scalar::Scalar;
use super::scan::{Json, special};

/// Maximum depth of arrays and objects in a member without a column.
const MAX_DEPTH: usize = 32;
/// Maximum number of bytes of a number that is too long for a [`Decimal`] and is kept as it was
/// written.
const MAX_NUMBER: usize = 200;
/// Initial capacity in bytes for the JSON object of members without a column, which suffices for
/// nearly all.
const USUAL_LENGTH: usize = 128;
/// Maximum number of bytes of a member's name that an error shows.
const MAX_NAME: usize = 100;

/// Serializes the members without a column as a JSON object in canonical form; `None` if there are
/// none.
pub(super) fn object(members: Vec<(Cow<'_, str>, Json<'_>)>) -> Result<Option<String>, Fault> {
    if members.is_empty() {
        return Ok(None);
    }
    let mut json = String::with_capacity(USUAL_LENGTH);
    write_object(members, 0, None, &mut json)?;
    Ok(Some(json))
}

/// Writes an object with its members in the order of their names. `depth` is its depth of nesting,
/// 0 for the outermost object. `top` is the item's member that contains the object, which errors
/// name; `None` for the outermost object.
fn write_object(
    mut members: Vec<(Cow<'_, str>, Json<'_>)>,
    depth: usize,
    top: Option<&str>,
    json: &mut String,
) -> Result<(), Fault> {
    // The sort is stable, so that of a repeated name the same member is always at fault.
    members.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut last: Option<&str> = None;
    json.push('{');
    for (name, value) in &members {
        if last == Some(name) {
            return Err(match top {
                None => fault(name, "it is given more than once"),
                Some(top) => fault(top, format!("its member `{}` is given more than once", shown(name))),
            });
        }
        let top = top.unwrap_or(name);
        if last.is_some() {
            json.push(',');
        }
        write_text(top, name, json)?;
        json.push(':');
        write_value(*value, depth, top, json)?;
        last = Some(name);
    }
    json.push('}');
    Ok(())
}

fn write_value(value: Json<'_>, depth: usize, top: &str, json: &mut String) -> Result<(), Fault> {
    match Scalar::of(value).map_err(|detail| fault(top, detail))? {
        Scalar::Null => json.push_str("null"),
        Scalar::Boolean(text) => json.push_str(text),
        Scalar::Text(text) => write_text(top, &text, json)?,
        Scalar::Number(number) => {
            json.push_str(&plain(number).ok_or_else(|| fault(top, "its number is too long"))?);
        }
        Scalar::Nested(_) if depth >= MAX_DEPTH => {
            return Err(fault(top, "it is nested deeper than 32 levels"));
        }
        Scalar::Nested(text) => write_nested(text, depth + 1, top, json)?,
    }
    Ok(())
}

fn write_nested(text: &str, depth: usize, top: &str, json: &mut String) -> Result<(), Fault> {
    if text.starts_with('{') {
        let members = members::of_object(text).map_err(|error| fault(top, without_place(&error)))?;
        return write_object(members, depth, Some(top), json);
    }
    let items: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| fault(top, without_place(&error)))?;
    json.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        write_value(Json::Any(item.get()), depth, top, json)?;
    }
    json.push(']');
    Ok(())
}

fn write_text(top: &str, text: &str, json: &mut String) -> Result<(), Fault> {
    if special(text.as_bytes()).is_none() {
        json.push('"');
        json.push_str(text);
        json.push('"');
        return Ok(());
    }
    if text.contains('\0') {
        return Err(fault(top, "it holds a NUL character"));
    }
    let escaped = serde_json::to_string(text).map_err(|error| fault(top, without_place(&error)))?;
    json.push_str(&escaped);
    Ok(())
}

/// Returns a number in the canonical form of a [`Decimal`], or as it was written if it is too long
/// for that; `None` if PostgreSQL's `jsonb` might not hold it.
fn plain(number: &str) -> Option<Cow<'_, str>> {
    if let Ok(decimal) = number.parse::<Decimal>() {
        return Some(Cow::Owned(decimal.to_string()));
    }
    let exponent =
        number.split_once(['e', 'E']).map_or(Ok(0), |(_, exponent)| exponent.parse::<i32>()).ok()?;
    (number.len() <= MAX_NUMBER && exponent.abs() <= 1000).then_some(Cow::Borrowed(number))
}

fn fault(name: &str, detail: impl Into<Cow<'static, str>>) -> Fault {
    Fault::invalid(shown(name), detail)
}

/// Returns a member's name as an error shows it: cut, and without NUL, which the database cannot
/// store.
fn shown(name: &str) -> String {
    let end = name.floor_char_boundary(MAX_NAME);
    name.get(..end).unwrap_or_default().replace('\0', "\u{fffd}")
}
