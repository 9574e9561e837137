//! Parser of selection strings, by recursive descent from loosely to tightly binding operators.

use wildmatch::WildMatchPattern;

use super::Selector;
use crate::protocol::Value;

/// Maximum nesting of parentheses and NOT.
const MAX_DEPTH: usize = 100;

const COMPARISONS: [&str; 6] = ["<>", "<=", ">=", "=", "<", ">"];

pub(super) fn selector(text: &str) -> Option<Selector> {
    let mut parser = Parser { rest: text.trim_ascii_start(), depth: 0 };
    let selector = parser.disjunction()?;
    parser.rest.is_empty().then_some(selector)
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Consumes `length` bytes, and the blanks after them.
    fn take(&mut self, length: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest.trim_ascii_start();
        Some(taken)
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.rest.starts_with(sign) && self.take(sign.len()).is_some()
    }

    /// Returns the name or keyword at the present position; empty if there is none.
    fn word(&self) -> &'a str {
        let is_start = |letter: char| letter.is_alphabetic() || letter == '_' || letter == '$';
        let is_part = |letter: char| is_start(letter) || letter.is_ascii_digit() || letter == '.';
        let length = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let length = if self.rest.starts_with(is_start) { length } else { 0 };
        self.rest.get(..length).unwrap_or_default()
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        self.word().eq_ignore_ascii_case(keyword) && self.take(keyword.len()).is_some()
    }

    fn disjunction(&mut self) -> Option<Selector> {
        let mut left = self.conjunction()?;
        while self.keyword("OR") {
            left = Selector::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        Some(left)
    }

    fn conjunction(&mut self) -> Option<Selector> {
        let mut left = self.condition()?;
        while self.keyword("AND") {
            left = Selector::And(Box::new(left), Box::new(self.condition()?));
        }
        Some(left)
    }

    fn condition(&mut self) -> Option<Selector> {
        if self.keyword("NOT") {
            return Some(negated(true, self.nested(Self::condition)?));
        }
        if self.sign("(") {
            let inner = self.nested(Self::disjunction)?;
            return self.sign(")").then_some(inner);
        }
        self.predicate()
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Option<Selector>) -> Option<Selector> {
        self.depth += 1;
        let parsed = if self.depth > MAX_DEPTH { None } else { parse(self) };
        self.depth -= 1;
        parsed
    }

    /// Parses a condition on a property. A property's name alone means that the property is true.
    fn predicate(&mut self) -> Option<Selector> {
        let name = self.take(self.word().len()).filter(|word| !word.is_empty())?.to_owned();
        if let Some(sign) = COMPARISONS.into_iter().find(|sign| self.sign(sign)) {
            return Some(Selector::Compare(name, sign, self.literal()?));
        }
        if self.keyword("IS") {
            let not = self.keyword("NOT");
            return self.keyword("NULL").then(|| negated(not, Selector::IsNull(name)));
        }
        let not = self.keyword("NOT");
        if self.keyword("IN") {
            return Some(negated(not, Selector::In(name, self.list()?)));
        }
        if self.keyword("LIKE") {
            let pattern = WildMatchPattern::new(&self.text()?);
            return Some(negated(not, Selector::Like(name, pattern)));
        }
        (!not).then_some(Selector::Compare(name, "=", Value::Boolean(true)))
    }

    fn list(&mut self) -> Option<Vec<Value>> {
        let mut list = Vec::new();
        let mut before = "(";
        while self.sign(before) {
            list.push(self.literal()?);
            before = ",";
        }
        (!list.is_empty() && self.sign(")")).then_some(list)
    }

    fn literal(&mut self) -> Option<Value> {
        if self.rest.starts_with('\'') {
            return self.text().map(Value::Text);
        }
        for (keyword, value) in [("TRUE", true), ("FALSE", false)] {
            if self.keyword(keyword) {
                return Some(Value::Boolean(value));
            }
        }
        let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E' | '+' | '-');
        let digits = self.take(self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len()))?;
        digits.parse().map(Value::Integer).or_else(|_| digits.parse().map(Value::Float)).ok()
    }

    /// Parses a text literal, such as `'it''s'`, in which a quote is doubled.
    fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut letters = self.rest.strip_prefix('\'')?.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            if letter != '\'' {
                text.push(letter);
            } else if letters.next_if(|(_, next)| *next == '\'').is_some() {
                text.push('\'');
            } else {
                self.take(at + 2)?;
                return Some(text);
            }
        }
        None
    }
}

fn negated(not: bool, condition: Selector) -> Selector {
    if not { Selector::Not(Box::new(condition)) } else { condition }
}
