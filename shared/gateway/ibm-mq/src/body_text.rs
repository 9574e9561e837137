//! Decodes the body of a received message as text, by the message's format and character set.

use libmqm_sys as mqi;
use mq::BodyAsText;

use crate::mqi::UTF_8;

/// Format name (MQMD `Format`) with which IBM MQ marks text: MQFMT_STRING.
pub(crate) const TEXT: &str = "MQSTR";

const LATIN_1: mqi::MQLONG = 819;
const LATIN_9: mqi::MQLONG = 923;
const WINDOWS_LATIN_1: mqi::MQLONG = 1252;

/// Ids (CCSIDs) of the character sets whose first 128 characters are those of ASCII.
const LIKE_ASCII: [mqi::MQLONG; 30] = [
    367, 437, 813, 850, 852, 855, 857, 858, 860, 861, 862, 863, 865, 866, 869, 912, 914, 915, 916, 920, 921,
    922, 1250, 1251, 1253, 1254, 1255, 1256, 1257, 1258,
];

/// Bytes that stand for other characters in ISO 8859-15 than in ISO 8859-1, each with the character
/// of ISO 8859-15.
const LATIN_9_DIFFERS: [(u8, char); 8] =
    [(0xa4, '€'), (0xa6, 'Š'), (0xa8, 'š'), (0xb4, 'Ž'), (0xb8, 'ž'), (0xbc, 'Œ'), (0xbd, 'œ'), (0xbe, 'Ÿ')];

/// Characters of windows-1252 for the bytes 0x80 to 0x9F. A NUL stands for each of the five
/// unassigned bytes.
const WINDOWS: &str = "€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ";

/// Decodes the body of a message. `ccsid` is the id of its character set. If its format declares
/// text, the result is the text, or [`BodyAsText::Unknown`] if the character set is not known. A
/// body of any other format counts as text if it is valid UTF-8.
pub(crate) fn as_text(format: &str, ccsid: mqi::MQLONG, body: &[u8]) -> BodyAsText {
    if format != TEXT {
        return BodyAsText::IfUtf8;
    }
    let decoded = |decode: fn(u8) -> Option<char>| {
        body.iter().map(|byte| decode(*byte)).collect::<Option<String>>().map(BodyAsText::Is)
    };
    let text = match ccsid {
        UTF_8 => Some(BodyAsText::IfUtf8),
        LATIN_1 => decoded(|byte| Some(char::from(byte))),
        LATIN_9 => decoded(latin_9),
        WINDOWS_LATIN_1 => decoded(windows),
        ccsid if LIKE_ASCII.contains(&ccsid) && body.is_ascii() => Some(BodyAsText::IfUtf8),
        _ => None,
    };
    text.unwrap_or(BodyAsText::Unknown)
}

fn latin_9(byte: u8) -> Option<char> {
    let differs = LATIN_9_DIFFERS.iter().find(|(place, _)| *place == byte);
    Some(differs.map_or(char::from(byte), |(_, character)| *character))
}

fn windows(byte: u8) -> Option<char> {
    match byte.checked_sub(0x80).and_then(|place| WINDOWS.chars().nth(place.into())) {
        Some('\0') => None,
        Some(character) => Some(character),
        None => Some(char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(text: &str) -> BodyAsText {
        BodyAsText::Is(text.to_owned())
    }

    #[test]
    fn text_of_a_known_single_byte_set_is_shown() {
        assert_eq!(as_text(TEXT, 819, b"caf\xe9"), is("café"));
        assert_eq!(as_text(TEXT, 923, b"5 \xa4"), is("5 €"));
        assert_eq!(as_text(TEXT, 1252, b"5 \x80 \xe9"), is("5 € é"));
        // Bytes that are valid UTF-8, too.
        assert_eq!(as_text(TEXT, 819, "é".as_bytes()), is("Ã©"));
        for ccsid in [1208, 367, 850, 1251] {
            assert_eq!(as_text(TEXT, ccsid, b"plain"), BodyAsText::IfUtf8);
        }
    }

    #[test]
    fn text_whose_characters_are_not_certain_is_not_shown() {
        // EBCDIC and UTF-16, and bytes that are undefined or differ between the sets.
        for (ccsid, body) in [(37, &b"AB"[..]), (1200, b"A\0"), (1252, b"\x81"), (850, b"\xe9")] {
            assert_eq!(as_text(TEXT, ccsid, body), BodyAsText::Unknown, "{ccsid}");
        }
    }

    #[test]
    fn other_bodies_are_text_if_they_are_utf_8() {
        assert_eq!(as_text("", 37, b"AB"), BodyAsText::IfUtf8);
        assert_eq!(as_text("MQHRF2", 819, b"AB"), BodyAsText::IfUtf8);
    }
}
