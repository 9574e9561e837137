//! Members of JSON objects in responses of the API. An absent member reads as an empty text or 0.

use serde_json::Value;

/// Returns the text of a JSON member; empty if the member is missing or no text.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number of a JSON member; 0 if it is missing or not a count.
pub(crate) fn number(object: &Value, name: &str) -> u64 {
    object.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// Returns a JSON member of any type as text for people; empty if it is missing or null.
pub(crate) fn shown(object: &Value, name: &str) -> String {
    object.get(name).filter(|value| !value.is_null()).map(plain).unwrap_or_default()
}

/// Returns a JSON value as text for people: strings without quotation marks.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_absent_member_is_empty() {
        let object = json!({"a": "x", "b": 3, "c": null, "d": true});
        assert_eq!(["a", "b", "z"].map(|name| text(&object, name)), ["x", "", ""]);
        assert_eq!(["a", "b", "z"].map(|name| number(&object, name)), [0, 3, 0]);
        assert_eq!(["a", "b", "c", "d", "z"].map(|name| shown(&object, name)), ["x", "3", "", "true", ""]);
    }
}
