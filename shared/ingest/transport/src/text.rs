//! Text that SQS accepts in messages.

use std::borrow::Cow;

/// Maximum number of characters of a message attribute, which counts towards the message's size.
const LONGEST_ATTRIBUTE: usize = 300;

/// Maximum number of bytes of a message body. With its attributes, a message stays below the 256
/// KiB that every queue accepts.
const LONGEST_BODY: usize = 250_000;

/// Returns the first 300 characters of a text, without control characters, as the value of a
/// message attribute.
#[must_use]
pub fn attribute(text: &str) -> String {
    let is_fit = |character: &char| !character.is_control() && is_accepted(*character);
    text.chars().filter(is_fit).take(LONGEST_ATTRIBUTE).collect()
}

/// Converts the value of a Kafka record, whatever its bytes, to a message body. Bytes that are not
/// UTF-8, and characters that SQS does not accept, become `\u{fffd}`. A long value is cut, and a
/// missing or empty one becomes a text that says so.
pub(crate) fn body(value: Option<&[u8]>) -> Cow<'_, str> {
    let Some(value) = value else { return "(the record has no value, or one that cannot be read)".into() };
    if value.is_empty() {
        return "(the record has an empty value)".into();
    }
    let text = String::from_utf8_lossy(value);
    let text = if text.chars().all(is_accepted) {
        text
    } else {
        let replace =
            |character| if is_accepted(character) { character } else { char::REPLACEMENT_CHARACTER };
        text.chars().map(replace).collect::<String>().into()
    };
    if text.len() <= LONGEST_BODY {
        return text;
    }
    let end = text.floor_char_boundary(LONGEST_BODY);
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}\n(cut: the record has {} bytes)", value.len()).into()
}

/// True if SQS accepts the character: one that XML 1.0 allows.
const fn is_accepted(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reasons_are_short_and_have_no_characters_that_sqs_refuses() {
        assert_eq!(attribute("line\nbreak\u{0}é\u{ffff}"), "linebreaké");
        assert_eq!(attribute(&"é".repeat(1000)).chars().count(), LONGEST_ATTRIBUTE);
    }

    #[test]
    fn a_body_is_never_empty_and_says_what_it_stands_for() {
        assert_eq!(body(None), "(the record has no value, or one that cannot be read)");
        assert_eq!(body(Some(b"")), "(the record has an empty value)");
        assert_eq!(body(Some(b"{\"a\":1}")), "{\"a\":1}");
        assert_eq!(body(Some(b"a\0\xff\xef\xbf\xbfz")), "a\u{fffd}\u{fffd}\u{fffd}z");
        let long = "é".repeat(LONGEST_BODY);
        assert!(body(Some(long.as_bytes())).ends_with("é\n(cut: the record has 500000 bytes)"));
    }

    proptest! {
        #[test]
        fn any_value_becomes_a_body_that_sqs_takes(
            value in prop::collection::vec(any::<u8>(), 0..200),
            // One in four is long, and often too long.
            times in prop_oneof![3 => 1..50_usize, 1 => 1..4000_usize],
        ) {
            let value = value.repeat(times);
            let body = body(Some(&value));
            prop_assert!(!body.is_empty() && body.len() < 256 * 1024 - 2000);
            prop_assert!(body.chars().all(is_accepted));
        }
    }
}
