//! The parser of selection strings: from an operator that binds loosely to one that binds tightly.

use super::Expression;
use crate::protocol::Value;

/// Maximum nesting of parentheses, signs and NOT.
const MAX_DEPTH: usize = 100;

const COMPARISONS: [&str; 7] = ["<>", "!=", "<=", ">=", "=", "<", ">"];

pub(super) fn condition(text: &str) -> Option<Expression> {
    let mut parser = Parser { rest: text.trim_start(), depth: 0 };
    let condition = parser.disjunction()?.into_condition()?;
    parser.rest.is_empty().then_some(condition)
}

impl Expression {
    /// Returns the expression, if it can be true or false.
    fn into_condition(self) -> Option<Self> {
        let is_value = match &self {
            Self::Literal(value) => !matches!(value, Value::Boolean(_)),
            Self::Binary(_, operator, _) => matches!(*operator, "+" | "-" | "*" | "/"),
            Self::Negative(_) => true,
            _ => false,
        };
        (!is_value).then_some(self)
    }

    /// Returns the boxed expression, if it can be compared or computed with.
    fn into_value(self) -> Option<Box<Self>> {
        let is_value = match &self {
            Self::Literal(_) | Self::Property(_) | Self::Negative(_) => true,
            Self::Binary(_, operator, _) => matches!(*operator, "+" | "-" | "*" | "/"),
            _ => false,
        };
        is_value.then(|| Box::new(self))
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Consumes `length` bytes, and the blanks after them.
    fn take(&mut self, length: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest.trim_start();
        Some(taken)
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.rest.starts_with(sign) && self.take(sign.len()).is_some()
    }

    /// The name or keyword that follows.
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

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let parsed = if self.depth > MAX_DEPTH { None } else { parse(self) };
        self.depth -= 1;
        parsed
    }

    fn disjunction(&mut self) -> Option<Expression> {
        self.conditions("OR", Self::conjunction)
    }

    fn conjunction(&mut self) -> Option<Expression> {
        self.conditions("AND", Self::negation)
    }

    fn conditions(
        &mut self,
        keyword: &'static str,
        next: fn(&mut Self) -> Option<Expression>,
    ) -> Option<Expression> {
        let mut left = next(self)?;
        while self.keyword(keyword) {
            let right = next(self)?.into_condition()?;
            left = Expression::Binary(Box::new(left.into_condition()?), keyword, Box::new(right));
        }
        Some(left)
    }

    fn negation(&mut self) -> Option<Expression> {
        if !self.keyword("NOT") {
            return self.predicate();
        }
        let inner = self.nested(Self::negation)?.into_condition()?;
        Some(Expression::Not(Box::new(inner)))
    }

    fn predicate(&mut self) -> Option<Expression> {
        let left = self.sum()?;
        if self.keyword("IS") {
            let not = self.keyword("NOT");
            let is_null = Expression::IsNull(left.into_value()?);
            return self.keyword("NULL").then(|| negated(not, is_null));
        }
        let not = self.keyword("NOT");
        if self.keyword("BETWEEN") {
            let (tested, least) = (left.into_value()?, self.sum()?.into_value()?);
            let most = self.keyword("AND").then(|| self.sum())??.into_value()?;
            let over = Expression::Binary(tested.clone(), ">=", least);
            let under = Expression::Binary(tested, "<=", most);
            return Some(negated(not, Expression::Binary(Box::new(over), "AND", Box::new(under))));
        }
        if self.keyword("IN") {
            return Some(negated(not, Expression::In(left.into_value()?, self.list()?)));
        }
        if self.keyword("LIKE") {
            let pattern = self.text()?;
            let escape = if self.keyword("ESCAPE") { Some(self.text()?.chars().next()?) } else { None };
            return Some(negated(not, Expression::Like(left.into_value()?, pattern, escape)));
        }
        match COMPARISONS.into_iter().find(|sign| self.sign(sign)) {
            _ if not => None,
            Some(sign) => Some(Expression::Binary(left.into_value()?, sign, self.sum()?.into_value()?)),
            None => Some(left),
        }
    }

    fn list(&mut self) -> Option<Vec<Expression>> {
        let mut list = Vec::new();
        if !self.sign("(") {
            return None;
        }
        loop {
            list.push(*self.sum()?.into_value()?);
            if self.sign(")") {
                return Some(list);
            }
            if !self.sign(",") {
                return None;
            }
        }
    }

    fn sum(&mut self) -> Option<Expression> {
        self.arithmetic(["+", "-"], Self::product)
    }

    fn product(&mut self) -> Option<Expression> {
        self.arithmetic(["*", "/"], Self::operand)
    }

    fn arithmetic(
        &mut self,
        signs: [&'static str; 2],
        next: fn(&mut Self) -> Option<Expression>,
    ) -> Option<Expression> {
        let mut left = next(self)?;
        while let Some(sign) = signs.into_iter().find(|sign| self.sign(sign)) {
            left = Expression::Binary(left.into_value()?, sign, next(self)?.into_value()?);
        }
        Some(left)
    }

    fn operand(&mut self) -> Option<Expression> {
        if self.sign("-") {
            return Some(Expression::Negative(self.nested(Self::operand)?.into_value()?));
        }
        if self.sign("+") {
            return self.nested(Self::operand)?.into_value().map(|operand| *operand);
        }
        if self.sign("(") {
            let inner = self.nested(Self::disjunction)?;
            return self.sign(")").then_some(inner);
        }
        match self.rest.chars().next()? {
            '\'' => self.text().map(|text| Expression::Literal(Value::Text(text))),
            '"' => self.quoted_name(),
            '0'..='9' | '.' => self.number().map(Expression::Literal),
            _ => {
                let word = self.take(self.word().len()).filter(|word| !word.is_empty())?;
                Some(if word.eq_ignore_ascii_case("TRUE") {
                    Expression::Literal(Value::Boolean(true))
                } else if word.eq_ignore_ascii_case("FALSE") {
                    Expression::Literal(Value::Boolean(false))
                } else {
                    Expression::Property(word.to_owned())
                })
            }
        }
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

    /// `"0x41"` is a string of bytes; any other text in double quotes is a name.
    fn quoted_name(&mut self) -> Option<Expression> {
        let end = self.rest.get(1..)?.find('"')?;
        let text = self.take(end + 2)?.trim_matches('"');
        Some(match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => Expression::Literal(Value::Text(format!("0x{}", digits.to_ascii_uppercase()))),
            None => Expression::Property(text.to_owned()),
        })
    }

    fn number(&mut self) -> Option<Value> {
        let mut previous = ' ';
        let ends = |letter: char| {
            let is_signed = matches!(letter, '+' | '-') && matches!(previous, 'e' | 'E');
            previous = letter;
            !letter.is_ascii_digit() && !matches!(letter, '.' | 'e' | 'E') && !is_signed
        };
        let digits = self.take(self.rest.find(ends).unwrap_or(self.rest.len()))?;
        let integer = digits.parse().map(Value::Integer).ok();
        integer.or_else(|| digits.parse().map(Value::Float).ok())
    }
}

fn negated(not: bool, condition: Expression) -> Expression {
    if not { Expression::Not(Box::new(condition)) } else { condition }
}
