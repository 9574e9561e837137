//! The canonical form of JSON (RFC 8785).

use serde_json::{Number, Value};

use super::FingerprintError;

/// Maximum integer for which no other integer has the same double: 2^53-1 (RFC 7493, section 2.2).
const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// Appends the canonical form of a JSON value (RFC 8785), in UTF-8.
///
/// # Errors
/// [`FingerprintError::IntegerTooLarge`] for an integer beyond ±(2^53-1).
pub(super) fn write(value: &Value, to: &mut Vec<u8>) -> Result<(), FingerprintError> {
    match value {
        Value::Null => to.extend_from_slice(b"null"),
        Value::Bool(true) => to.extend_from_slice(b"true"),
        Value::Bool(false) => to.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, to)?,
        Value::String(text) => write_text(text, to)?,
        Value::Array(items) => {
            to.push(b'[');
            for (index, item) in items.iter().enumerate() {
                separate(index, to);
                write(item, to)?;
            }
            to.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            // Section 3.2.3: in the order of UTF-16, which differs from that of UTF-8.
            members.sort_unstable_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            to.push(b'{');
            for (index, (name, member)) in members.into_iter().enumerate() {
                separate(index, to);
                write_text(name, to)?;
                to.push(b':');
                write(member, to)?;
            }
            to.push(b'}');
        }
    }
    Ok(())
}

fn separate(index: usize, to: &mut Vec<u8>) {
    if index > 0 {
        to.push(b',');
    }
}

/// Appends a string. `serde_json` escapes the characters that RFC 8785 (section 3.2.2.2) requires,
/// in the required way.
fn write_text(text: &str, to: &mut Vec<u8>) -> Result<(), FingerprintError> {
    serde_json::to_writer(to, text).map_err(FingerprintError::NotCanonical)
}

/// Appends a number as ECMAScript writes it (RFC 8785, section 3.2.2.3).
fn write_number(number: &Number, to: &mut Vec<u8>) -> Result<(), FingerprintError> {
    let integer = number.as_i64().map(i64::unsigned_abs).or_else(|| number.as_u64());
    match (integer, number.as_f64()) {
        (Some(integer), _) if integer > MAX_INTEGER => {
            return Err(FingerprintError::IntegerTooLarge(number.clone()));
        }
        (None, Some(double)) => to.extend_from_slice(ryu_js::Buffer::new().format_finite(double).as_bytes()),
        _ => serde_json::to_writer(to, number).map_err(FingerprintError::NotCanonical)?,
    }
    Ok(())
}
