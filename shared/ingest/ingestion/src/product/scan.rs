//! Fast scan for the members of a JSON object that is like nearly all: names without escapes,
//! numbers without exponents.
//!
//! All other objects, valid or not, are left to serde_json, which also reports the faults. So the
//! scan changes only the speed.

use serde::de::IgnoredAny;

use crate::split::ValueScan;

/// Value of a JSON member that is not parsed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Json<'a> {
    /// A string known to have no escapes, without its quotation marks.
    Plain(&'a str),
    /// Any JSON value, as it was sent.
    Any(&'a str),
}

/// Scans a JSON object, and passes the name and the value of each member to a function. `None` if
/// the object has a form that this fast scan does not know, such as escapes in a name; the members
/// before that were passed already.
pub(super) fn object<'a>(text: &'a str, mut member: impl FnMut(&'a str, Json<'a>)) -> Option<()> {
    let mut scan = Scan { text, at: 0 };
    scan.white();
    scan.take(b'{')?;
    scan.white();
    if scan.peek()? == b'}' {
        scan.at += 1;
        return scan.end();
    }
    loop {
        let name = scan.name()?;
        scan.white();
        scan.take(b':')?;
        scan.white();
        member(name, scan.value()?);
        scan.white();
        match scan.peek()? {
            b',' => scan.at += 1,
            b'}' => {
                scan.at += 1;
                return scan.end();
            }
            _ => return None,
        }
        scan.white();
    }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn white(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn end(mut self) -> Option<()> {
        self.white();
        (self.at == self.text.len()).then_some(())
    }

    fn name(&mut self) -> Option<&'a str> {
        match self.string()? {
            Json::Plain(name) => Some(name),
            Json::Any(_) => None,
        }
    }

    fn value(&mut self) -> Option<Json<'a>> {
        let json = match self.peek()? {
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            byte @ (b'{' | b'[') => self.nested(byte),
            _ => ["null", "true", "false"]
                .into_iter()
                .find(|literal| self.rest().starts_with(literal.as_bytes()))
                .and_then(|literal| self.advance(literal.len())),
        };
        json.map(Json::Any)
    }

    fn advance(&mut self, length: usize) -> Option<&'a str> {
        let from = self.at;
        self.at += length;
        self.text.get(from..self.at)
    }

    fn string(&mut self) -> Option<Json<'a>> {
        let from = self.at;
        self.take(b'"')?;
        let mut has_escapes = false;
        loop {
            self.at += special(self.rest())?;
            match self.rest() {
                [b'"', ..] => {
                    let end = self.at;
                    self.at += 1;
                    return if has_escapes {
                        self.text.get(from..self.at).map(Json::Any)
                    } else {
                        self.text.get(from + 1..end).map(Json::Plain)
                    };
                }
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
                [b'\\', b'u', h1, h2, h3, h4, ..]
                    if [h1, h2, h3, h4].into_iter().all(u8::is_ascii_hexdigit) =>
                {
                    self.at += 6;
                }
                _ => return None,
            }
            has_escapes = true;
        }
    }

    fn number(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let digits = |from: usize| rest.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let whole = digits(sign);
        if whole == 0 || (whole > 1 && rest.get(sign) == Some(&b'0')) {
            return None;
        }
        let mut length = sign + whole;
        if rest.get(length) == Some(&b'.') {
            let fraction = digits(length + 1);
            if fraction == 0 {
                return None;
            }
            length += 1 + fraction;
        }
        self.advance(length)
    }

    fn nested(&mut self, byte: u8) -> Option<&'a str> {
        let length = ValueScan::beginning_with(byte).end_in(self.rest())?;
        let value = self.advance(length)?;
        serde_json::from_str::<IgnoredAny>(value).ok().map(|_| value)
    }
}

/// Returns the index of the first byte that does not stand for itself in a JSON string: a quotation
/// mark, a backslash or a control character; `None` if there is none.
pub(super) fn special(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<{ Word::LENGTH }>();
    for (index, word) in words.iter().enumerate() {
        if let Some(place) = Word(u64::from_le_bytes(*word)).special() {
            return Some(index * Word::LENGTH + place);
        }
    }
    let place = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
    Some(words.len() * Word::LENGTH + place)
}

/// Eight bytes in one integer, the first byte in the lowest bits, so that all are compared at once.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    const LENGTH: usize = 8;
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = Self::ONES << 7;

    fn special(self) -> Option<usize> {
        let found = self.less(b' ') | self.equal(b'"') | self.equal(b'\\');
        (found != 0).then(|| usize::try_from(found.trailing_zeros() / 8).unwrap_or_default())
    }

    /// Returns the highest bit of each byte that is below `limit`, which is at most 128. Only the
    /// lowest bit of the result is reliable, since the subtraction borrows from the bytes above.
    fn less(self, limit: u8) -> u64 {
        self.0.wrapping_sub(Self::all(limit)) & !self.0 & Self::HIGH
    }

    fn equal(self, byte: u8) -> u64 {
        Self(self.0 ^ Self::all(byte)).less(1)
    }

    fn all(byte: u8) -> u64 {
        Self::ONES * u64::from(byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn special_bytes_are_found_where_they_are(bytes in prop::collection::vec(
            prop_oneof![9 => prop::sample::select(b" !#[]\x7f\x80\xa2\xdc\xff".to_vec()), 1 => any::<u8>()],
            0..40,
        )) {
            let expected = bytes.iter().position(|byte| *byte < b' ' || matches!(byte, b'"' | b'\\'));
            prop_assert_eq!(special(&bytes), expected);
        }
    }
}
