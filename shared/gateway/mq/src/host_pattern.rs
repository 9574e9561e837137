//! Patterns of an allow-list for the hosts of brokers. A pattern for host names never matches an IP
//! address, and a pattern for addresses never matches a name.

use std::net::IpAddr;
use std::str::FromStr;
use std::{iter, mem};

/// Host name that always means the local host (RFC 6761, section 6.3).
const LOCAL_HOST: &str = "localhost";

/// Pattern for the host of a broker. `?` stands for one character and `*` for any number of
/// characters, both without dots (or the colons of an IPv6 address); `**` also matches those.
///
/// A pattern of digits, dots and wildcards matches only literal IP addresses: `10.0.**` does not
/// match the name `10.0.attacker.example`. A range in CIDR notation, such as `10.0.0.0/8`, matches
/// only literal IP addresses, too. Every other pattern matches names only. `**` alone matches every
/// host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPattern {
    kind: Kind,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Any,
    Name,
    Address,
    Range(IpRange),
}

/// Range of IP addresses: those whose first `length` bits equal the bits of `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IpRange {
    first: IpAddr,
    length: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Exactly(char),
    One,
    WithinLabel,
    Across,
}

/// Kind of a host: an IP address, a name, or neither, such as `10.1`, which only old resolvers read
/// as an address.
enum Host {
    Address(IpAddr),
    Name,
    Neither,
}

impl Host {
    fn of(text: &str) -> Self {
        if let Ok(address) = text.parse() {
            return Self::Address(address);
        }
        let last = text.rsplit('.').find(|label| !label.is_empty()).unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
        if is_number || text.contains(':') { Self::Neither } else { Self::Name }
    }
}

impl HostPattern {
    /// True if the pattern matches `host`, which is in lower case.
    pub(crate) fn matches(&self, host: &str) -> bool {
        match (self.kind, Host::of(host)) {
            (Kind::Any, _) => true,
            (Kind::Name, Host::Name) => self.covers(host),
            (Kind::Address, Host::Address(address)) => self.covers(&address.to_string()),
            (Kind::Range(range), Host::Address(address)) => range.contains(address),
            (Kind::Name | Kind::Address | Kind::Range(_), _) => false,
        }
    }

    /// True if the pattern names `host` specifically: as this literal address, as a range that
    /// contains it, or as `localhost`.
    pub(crate) fn lists(&self, host: &str) -> bool {
        let is_exact = self.parts.iter().all(|part| matches!(part, Part::Exactly(_)));
        self.matches(host)
            && match self.kind {
                Kind::Any => false,
                Kind::Name => is_exact && host == LOCAL_HOST,
                Kind::Address => is_exact,
                Kind::Range(_) => true,
            }
    }

    /// True if the pattern matches the whole of `text`. Tracks, for each part of the pattern, the
    /// positions in the text that a match can have reached.
    fn covers(&self, text: &str) -> bool {
        let places = || iter::once(None).chain(text.chars().map(Some));
        let mut reached: Vec<_> = places().map(|before| before.is_none()).collect();
        for part in &self.parts {
            // Whether the place before was reached without this part, and with it.
            let (mut had, mut has) = (false, false);
            for (place, before) in reached.iter_mut().zip(places()) {
                let is_within = before.is_some_and(|character| !matches!(character, '.' | ':'));
                let comes = match part {
                    Part::Exactly(expected) => had && before == Some(*expected),
                    Part::One => had && is_within,
                    // A wildcard may stand for nothing.
                    Part::WithinLabel => *place || has && is_within,
                    Part::Across => *place || has,
                };
                (had, has) = (mem::replace(place, comes), comes);
            }
        }
        reached.last().copied().unwrap_or_default()
    }
}

impl FromStr for HostPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let text = text.to_ascii_lowercase();
        if text.is_empty() {
            return Err("the host must not be empty; `**` allows any");
        }
        if text.contains('/') {
            return Ok(Self { kind: Kind::Range(text.parse()?), parts: Vec::new() });
        }
        let kind = kind(&text)?;
        // An address has one spelling here, as it has where it is compared.
        let text = text.parse::<IpAddr>().map_or(text, |address| address.to_string());
        let mut parts = Vec::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            parts.push(match character {
                '*' if characters.next_if_eq(&'*').is_some() => Part::Across,
                '*' => Part::WithinLabel,
                '?' => Part::One,
                other => Part::Exactly(other),
            });
        }
        Ok(Self { kind, parts })
    }
}

impl IpRange {
    fn contains(self, address: IpAddr) -> bool {
        let same = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => (first.to_bits() ^ address.to_bits()).leading_zeros(),
            (IpAddr::V6(first), IpAddr::V6(address)) => (first.to_bits() ^ address.to_bits()).leading_zeros(),
            _ => return false,
        };
        same >= self.length
    }
}

impl FromStr for IpRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const FORM: &str =
            "a range of addresses is an address, a slash and the length of its prefix, as in 10.0.0.0/8";
        let (first, length) = text.split_once('/').ok_or(FORM)?;
        let first: IpAddr = first.parse().map_err(|_| FORM)?;
        let length: u32 = length.parse().map_err(|_| FORM)?;
        let (longest, zeros) = match first {
            IpAddr::V4(first) => (32, first.to_bits().trailing_zeros()),
            IpAddr::V6(first) => (128, first.to_bits().trailing_zeros()),
        };
        if length > longest {
            return Err(FORM);
        }
        if length + zeros < longest {
            return Err("a range of addresses begins with its first address, as in 10.0.0.0/8");
        }
        Ok(Self { first, length })
    }
}

fn kind(text: &str) -> Result<Kind, &'static str> {
    if text == "**" {
        return Ok(Kind::Any);
    }
    if text.contains(':') {
        return Ok(Kind::Address);
    }
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '*' | '?');
    if !text.chars().all(is_number) || !text.contains(|c: char| c.is_ascii_digit()) {
        return Ok(Kind::Name);
    }
    if text.contains("**") || text.split('.').count() == 4 {
        Ok(Kind::Address)
    } else {
        Err("a pattern for addresses has four numbers, as in 10.0.*.*, or `**`")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, host: &str) -> bool {
        pattern.parse::<HostPattern>().unwrap().matches(host)
    }

    #[test]
    fn a_star_stays_within_its_label() {
        assert!(matches("*.mq.example.com", "a.mq.example.com"));
        assert!(!matches("*.mq.example.com", "a.b.mq.example.com"));
        assert!(matches("**.mq.example.com", "a.b.mq.example.com"));
        assert!(matches("broker-*", "broker-1") && !matches("broker-*", "broker-x.attacker.example"));
        assert!(
            matches("mq?.Example.com", "mq1.example.com") && !matches("mq?", "mq.") && !matches("mq?", "mq")
        );
        assert!(matches("*", "localhost") && !matches("*", "mq.example.com"));
    }

    #[test]
    fn a_pattern_for_addresses_matches_literal_addresses_only() {
        assert!(matches("10.0.*.*", "10.0.3.4") && !matches("10.0.*.*", "10.1.3.4"));
        assert!(matches("10.**", "10.0.3.4") && matches("127.0.0.1", "127.0.0.1"));
        for host in ["10.0.attacker.example", "10.0.3.attacker", "10.0.3", "10.0.3.4.example", "10.0.3.999"] {
            assert!(!matches("10.0.*.*", host) && !matches("10.**", host), "{host}");
        }
        assert!(matches("::1", "::1") && matches("0:0::1", "::1") && !matches("::1", "::2"));
        assert!(
            matches("fe80::*", "fe80::1")
                && !matches("fe80::*", "fe80::1:2")
                && matches("fe80:**", "fe80::1:2")
        );
        assert!(!matches("10.0.*.*", "::ffff:10.0.3.4"));
    }

    #[test]
    fn a_pattern_for_names_matches_no_address_in_any_spelling() {
        for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0x7f000001", "127.0.0.1.", "::1", "1::zz"]
        {
            assert!(!matches("*", host) && !matches("*.*", host) && !matches("*.*.*.*", host), "{host}");
            assert!(matches("**", host), "{host}");
        }
    }

    #[test]
    fn a_range_matches_the_literal_addresses_within_it() {
        assert!(matches("10.0.0.0/8", "10.255.3.4") && !matches("10.0.0.0/8", "11.0.0.0"));
        assert!(matches("192.0.2.128/25", "192.0.2.255") && !matches("192.0.2.128/25", "192.0.2.127"));
        assert!(matches("192.0.2.1/32", "192.0.2.1") && !matches("192.0.2.1/32", "192.0.2.0"));
        assert!(matches("0.0.0.0/0", "203.0.113.9") && !matches("0.0.0.0/0", "::1"));
        assert!(matches("fd00::/8", "fd12::1") && !matches("fd00::/8", "fe00::1"));
        for host in ["10.attacker.example", "localhost", "10.1", "::ffff:10.0.3.4"] {
            assert!(!matches("10.0.0.0/8", host) && !matches("0.0.0.0/0", host), "{host}");
        }
    }

    #[test]
    fn an_address_is_listed_by_itself_or_a_range_and_not_by_wildcards() {
        let lists = |pattern: &str, host: &str| pattern.parse::<HostPattern>().unwrap().lists(host);
        assert!(lists("127.0.0.1", "127.0.0.1") && lists("127.0.0.0/8", "127.0.0.1"));
        assert!(lists("0:0::1", "::1") && lists("::1/128", "::1") && lists("LocalHost", "localhost"));
        for pattern in ["**", "127.0.0.*", "127.**", "127.0.0.2", "128.0.0.0/8"] {
            assert!(!lists(pattern, "127.0.0.1"), "{pattern}");
        }
        for pattern in ["*", "local*", "**"] {
            assert!(!lists(pattern, "localhost"), "{pattern}");
        }
        assert!(!lists("broker.example", "broker.example"));
    }

    #[test]
    fn a_pattern_that_could_match_nothing_is_refused() {
        let ranges = ["10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "/8", "host/8", "10.0.0.*/8", "fd00::/129"];
        for pattern in ["", "10.0.*", "10", "1.2.3.4.5"].into_iter().chain(ranges) {
            assert!(pattern.parse::<HostPattern>().is_err(), "{pattern}");
        }
    }

    fn label() -> impl Strategy<Value = String> {
        "[a-z][a-z0-9-]{0,5}"
    }

    /// True if the pattern matches the text. This reference implementation tries all ways to match.
    fn by_trying(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['*', '*', rest @ ..], _) => (0..=text.len()).any(|taken| by_trying(rest, &text[taken..])),
            (['*', rest @ ..], _) => (0..=text.len())
                .take_while(|taken| !text[..*taken].contains(&'.'))
                .any(|taken| by_trying(rest, &text[taken..])),
            (['?', rest @ ..], [first, others @ ..]) => *first != '.' && by_trying(rest, others),
            ([expected, rest @ ..], [first, others @ ..]) => expected == first && by_trying(rest, others),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn what_matches_is_what_trying_everything_finds(pattern in "[ab.*?]{0,7}z", host in "[ab.]{0,8}z") {
            let characters = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = by_trying(&characters(&pattern), &characters(&host));
            prop_assert_eq!(matches(&pattern, &host), expected);
        }

        #[test]
        fn without_two_stars_a_pattern_never_matches_more_labels_than_it_has(
            pattern in prop::collection::vec("[a-z*?][a-z?]{0,3}[*]?", 1..4),
            host in prop::collection::vec(label(), 1..6),
        ) {
            let pattern_text = pattern.join(".");
            prop_assume!(!pattern_text.contains("**"));
            if matches(&pattern_text, &host.join(".")) {
                prop_assert_eq!(pattern.len(), host.len());
            }
        }

        #[test]
        fn no_name_is_taken_for_an_address(
            pattern in "([0-9]{1,3}|[*?]|[*][*])([.]([0-9]{1,3}|[*?]|[*][*])){3}",
            numbers in prop::collection::vec(0_u8.., 0..4),
            name in prop::collection::vec(label(), 1..4),
        ) {
            let labels = numbers.iter().map(ToString::to_string).chain(name).collect::<Vec<_>>();
            prop_assume!(pattern.contains(|c: char| c.is_ascii_digit()));
            prop_assert!(!matches(&pattern, &labels.join(".")));
        }
    }
}
