//! Finds the members of an object in one pass, where the object is as nearly all are: names without escapes, numbers without exponents.
//!
//! It takes only what it is sure of. Whatever else there is, valid or not, is left to serde_json, which also says what is wrong; so this decides nothing
//! but speed.

use memchr::memchr2;
use serde::de::IgnoredAny;

use crate::split::Value;

/// Hands on the name and the value's text of each member, or nothing where the object is not of this kind; members before are then handed on
/// already.
pub(super) fn object<'a>(text: &'a str, mut member: impl FnMut(&'a str, &'a str)) -> Option<()> {
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
        let name = self.string()?.strip_prefix('"')?.strip_suffix('"')?;
        (!name.contains('\\')).then_some(name)
    }

    fn value(&mut self) -> Option<&'a str> {
        match self.peek()? {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            byte @ (b'{' | b'[') => self.nested(byte),
            _ => ["null", "true", "false"]
                .into_iter()
                .find(|literal| self.rest().starts_with(literal.as_bytes()))
                .and_then(|literal| self.advance(literal.len())),
        }
    }

    fn advance(&mut self, length: usize) -> Option<&'a str> {
        let from = self.at;
        self.at += length;
        self.text.get(from..self.at)
    }

    /// A string with its quotation marks.
    fn string(&mut self) -> Option<&'a str> {
        let from = self.at;
        self.take(b'"')?;
        loop {
            let rest = self.rest();
            let end = memchr2(b'"', b'\\', rest)?;
            let (part, rest) = rest.split_at_checked(end)?;
            // Without an early way out, so that it is done many bytes at a time.
            if part.iter().fold(false, |control, byte| control | (*byte < b' ')) {
                return None;
            }
            self.at += end;
            match rest {
                [b'"', ..] => {
                    self.at += 1;
                    return self.text.get(from..self.at);
                }
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
                [b'\\', b'u', h1, h2, h3, h4, ..]
                    if [h1, h2, h3, h4].into_iter().all(u8::is_ascii_hexdigit) =>
                {
                    self.at += 6;
                }
                _ => return None,
            }
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
        let length = Value::beginning_with(byte).end_in(self.rest())?;
        let value = self.advance(length)?;
        serde_json::from_str::<IgnoredAny>(value).ok().map(|_| value)
    }
}
