//! Search for the name that a caller probably meant.

use strsim::osa_distance;

/// Maximum bytes of a name that is compared with known names. The cost grows with the product of
/// both lengths.
const LONGEST: usize = 64;

/// Returns the known name that `name` probably is a misspelling of: one with other capitals or
/// separators, or with one or two letters wrong, missing, added or exchanged. `None` if no known
/// name is so similar.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let plain = letters(name);
    // One slip in four letters, and never more than two.
    let most = (plain.chars().count() / 4).clamp(1, 2);
    let distances = known.into_iter().map(|known| (osa_distance(&plain, &letters(known)), known));
    distances
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Returns only the letters and digits of a name, in lower case.
fn letters(name: &str) -> String {
    name.chars()
        .take(LONGEST)
        .filter(|letter| letter.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["maxMessages", "waitSeconds", "ack", "target", "targetRef", "count"];

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        for (name, meant) in [
            ("maxMesages", Some("maxMessages")),
            ("max_messages", Some("maxMessages")),
            ("MaxMessages", Some("maxMessages")),
            ("maxMessagess", Some("maxMessages")),
            ("cuont", Some("count")),
            ("akc", Some("ack")),
            ("targetref", Some("targetRef")),
            ("tragetRef", Some("targetRef")),
            ("waitMillis", None),
            ("queue", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, KNOWN), meant, "{name}");
        }
        assert_eq!(nearest(&"ack".repeat(1000), KNOWN), None);
    }
}
