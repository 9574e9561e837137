//! Search for the name that a caller probably meant.

/// Longest name that is compared with others: the cost is the product of both lengths.
const LONGEST: usize = 64;

/// Returns the known name from which `name` differs by a slip of the keyboard: other capitals or
/// separators, or one or two letters that are wrong, missing, too many or exchanged.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let plain = letters(name);
    // One slip in four letters, and never more than two.
    let most = (plain.len() / 4).clamp(1, 2);
    let distances = known.into_iter().map(|known| (distance(&plain, &letters(known)), known));
    distances
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Returns the letters and digits of a name, in lower case.
fn letters(name: &str) -> Vec<char> {
    name.chars()
        .take(LONGEST)
        .filter(|letter| letter.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Counts the letters to change, add, remove or exchange with the next one (optimal string
/// alignment).
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    let mut last = None;
    for (row, &here) in left.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, &there) in right.iter().enumerate() {
            let of = |line: &[usize], column: usize| line.get(column).copied().unwrap_or(usize::MAX - 1);
            let replaced = of(&above, column) + usize::from(here != there);
            let mut least = replaced.min(of(&above, column + 1) + 1).min(of(&line, column) + 1);
            let is_exchanged = last == Some(there) && column > 0 && right.get(column - 1) == Some(&here);
            if is_exchanged {
                least = least.min(of(&before, column - 1) + 1);
            }
            line.push(least);
        }
        before = std::mem::replace(&mut above, line);
        last = Some(here);
    }
    above.last().copied().unwrap_or_default()
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

    #[test]
    fn slips_are_counted() {
        let of = |left: &str, right: &str| distance(&letters(left), &letters(right));
        for (left, right, slips) in
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("ab", "ba", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(of(left, right), slips, "{left} {right}");
        }
    }
}
