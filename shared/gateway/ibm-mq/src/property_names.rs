//! Converts names of headers to names of IBM MQ's message properties, and back.
//!
//! IBM MQ takes as a property's name an identifier of Java that is not a keyword of selectors, and
//! a dot in it separates a folder. So letters, digits and `_` of a header's name are kept, and
//! every other byte of the name in UTF-8 becomes `$` and two hexadecimal digits. So does the first
//! character of a name that would begin with a digit or be reserved. For example, `x-trace` becomes
//! `x$2dtrace`, and a JMS receiver finds the property under that name.

use std::fmt::Write as _;

/// Keywords of message selectors. IBM MQ allows none of them as a property name, in upper, lower or
/// mixed case.
const WORDS: [&str; 12] =
    ["AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE", "MQ"];

/// Prefix of application properties. The name of such a property may be written with or without the
/// prefix.
const USER_FOLDER: &str = "usr.";

/// Converts the name of a header to a valid name of an IBM MQ property.
pub(crate) fn to_property(name: &str) -> String {
    let mut property = String::with_capacity(name.len());
    let is_reserved = is_reserved(name);
    for (index, byte) in name.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || byte == b'_';
        let is_hidden = index == 0 && (is_reserved || byte.is_ascii_digit());
        if is_plain && !is_hidden {
            property.push(char::from(byte));
        } else {
            let _ = write!(property, "${byte:02x}");
        }
    }
    property
}

/// Converts the name of an IBM MQ property to the name of a header. A name that [`to_property`]
/// cannot have produced stays unchanged.
pub(crate) fn from_property(mut property: String) -> String {
    if property.starts_with(USER_FOLDER) {
        property.drain(..USER_FOLDER.len());
    }
    if !property.contains('$') {
        return property;
    }
    match decode(&property) {
        Some(name) if to_property(&name) == property => name,
        _ => property,
    }
}

/// True if the IBM MQ property `property` carries the header `header`, whose name must be one that
/// [`to_property`] does not change.
pub(crate) fn is_called(property: &str, header: &str) -> bool {
    property.strip_prefix(USER_FOLDER).unwrap_or(property) == header
}

/// True if the property has a reserved `$` name. The gateway gives such names to those of its own
/// properties that have no field in the message descriptor. No header is converted to such a name:
/// in a converted name, two hexadecimal digits follow each `$`.
pub(crate) const fn is_own(property: &str) -> bool {
    match property.as_bytes() {
        [b'$', first, second, ..] => !(first.is_ascii_hexdigit() && second.is_ascii_hexdigit()),
        _ => false,
    }
}

fn is_reserved(name: &str) -> bool {
    let begins = |start: &str| name.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
    WORDS.iter().any(|word| name.eq_ignore_ascii_case(word))
        || begins("JMS")
        || begins("Root")
        || begins("MQ")
}

fn decode(property: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(property.len());
    let mut rest = property.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'$' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_ibm_mq_forbids_are_mapped_and_others_stay() {
        for (name, property) in [
            ("k1", "k1"),
            ("traceId", "traceId"),
            ("x-trace", "x$2dtrace"),
            ("com.acme", "com$2eacme"),
            ("1st", "$31st"),
            ("null", "$6eull"),
            ("JMSType", "$4aMSType"),
            ("mqps", "$6dqps"),
            ("a$b", "a$24b"),
            ("é", "$c3$a9"),
        ] {
            assert_eq!(to_property(name), property);
            assert_eq!(from_property(property.to_owned()), name);
        }
        assert_eq!(from_property("usr.k1".to_owned()), "k1");
    }

    #[test]
    fn a_plain_name_is_found_with_its_folder_and_without() {
        for (property, header, is_called_so) in
            [("usr.k1", "k1", true), ("k1", "k1", true), ("mcd.k1", "k1", false), ("k1", "k", false)]
        {
            assert_eq!(is_called(property, header), is_called_so, "{property}");
        }
    }

    #[test]
    fn names_of_others_are_shown_as_they_are() {
        for name in ["a$41", "a$", "a$zz", "$ff", "mcd.Msd", "JMSXGroupID", "a.b"] {
            assert_eq!(from_property(name.to_owned()), name);
        }
    }

    proptest! {
        #[test]
        fn every_name_comes_back(name in "\\PC{1,40}") {
            let property = to_property(&name);
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
            prop_assert!(property.chars().all(is_allowed), "{property}");
            prop_assert!(!property.starts_with(|c: char| c.is_ascii_digit()));
            prop_assert!(!is_own(&property));
            prop_assert_eq!(from_property(property), name);
        }
    }
}
