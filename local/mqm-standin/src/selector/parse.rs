//! From the words of a selection string to its condition.

use super::evaluate::Operand;
use super::token::{Token, tokens};
use super::{Comparison, Condition, Expression};

/// How deep parentheses and NOT may nest.
const MAX_DEPTH: usize = 100;

pub(super) fn condition(text: &str) -> Option<Condition> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let condition = parser.disjunction()?;
    parser.peek().is_none().then_some(condition)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn sign(&mut self, sign: &str) -> bool {
        let there = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        self.at += usize::from(there);
        there
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        let there = matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword));
        self.at += usize::from(there);
        there
    }

    fn disjunction(&mut self) -> Option<Condition> {
        let mut left = self.conjunction()?;
        while self.keyword("OR") {
            left = Condition::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        Some(left)
    }

    fn conjunction(&mut self) -> Option<Condition> {
        let mut left = self.negation()?;
        while self.keyword("AND") {
            left = Condition::And(Box::new(left), Box::new(self.negation()?));
        }
        Some(left)
    }

    fn negation(&mut self) -> Option<Condition> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let condition = if self.keyword("NOT") {
            Some(Condition::Not(Box::new(self.negation()?)))
        } else {
            self.primary()
        };
        self.depth -= 1;
        condition
    }

    fn primary(&mut self) -> Option<Condition> {
        let start = self.at;
        // A parenthesis may hold a condition or the left side of a comparison.
        if self.sign("(") {
            let inner = self.disjunction();
            if let Some(inner) = inner
                && self.sign(")")
                && !self.continues_expression()
            {
                return Some(inner);
            }
            self.at = start;
        }
        self.predicate()
    }

    fn continues_expression(&self) -> bool {
        match self.peek() {
            Some(Token::Sign(sign)) => !matches!(*sign, ")" | ","),
            Some(Token::Word(word)) => {
                ["BETWEEN", "IN", "LIKE", "IS"].iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
            }
            _ => false,
        }
    }

    fn predicate(&mut self) -> Option<Condition> {
        let left = self.sum()?;
        if self.keyword("IS") {
            let not = self.keyword("NOT");
            return self.keyword("NULL").then(|| negate(not, Condition::IsNull(left)));
        }
        let not = self.keyword("NOT");
        if self.keyword("BETWEEN") {
            let least = self.sum()?;
            let most = self.keyword("AND").then(|| self.sum())??;
            return Some(negate(not, Condition::Between(left, least, most)));
        }
        if self.keyword("IN") {
            return Some(negate(not, Condition::In(left, self.list()?)));
        }
        if self.keyword("LIKE") {
            let Some(Token::Text(pattern)) = self.next() else { return None };
            let escape = if self.keyword("ESCAPE") {
                let Some(Token::Text(text)) = self.next() else { return None };
                Some(text.chars().next()?)
            } else {
                None
            };
            return Some(negate(not, Condition::Like(left, pattern, escape)));
        }
        match self.comparison() {
            _ if not => None,
            Some(comparison) => Some(Condition::Compare(left, comparison, self.sum()?)),
            None if matches!(left, Expression::Property(_) | Expression::Literal(Operand::Boolean(_))) => {
                Some(Condition::Holds(left))
            }
            None => None,
        }
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let Some(Token::Sign(sign)) = self.peek() else { return None };
        let comparison = match *sign {
            "=" => Comparison::Equal,
            "<>" | "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        };
        self.at += 1;
        Some(comparison)
    }

    fn list(&mut self) -> Option<Vec<Expression>> {
        let mut list = Vec::new();
        if !self.sign("(") {
            return None;
        }
        loop {
            list.push(self.sum()?);
            if self.sign(")") {
                return Some(list);
            }
            if !self.sign(",") {
                return None;
            }
        }
    }

    fn sum(&mut self) -> Option<Expression> {
        let mut left = self.product()?;
        loop {
            let sign = if self.sign("+") {
                '+'
            } else if self.sign("-") {
                '-'
            } else {
                return Some(left);
            };
            left = Expression::Arithmetic(Box::new(left), sign, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Option<Expression> {
        let mut left = self.factor()?;
        loop {
            let sign = if self.sign("*") {
                '*'
            } else if self.sign("/") {
                '/'
            } else {
                return Some(left);
            };
            left = Expression::Arithmetic(Box::new(left), sign, Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let factor = self.operand();
        self.depth -= 1;
        factor
    }

    fn operand(&mut self) -> Option<Expression> {
        if self.sign("-") {
            return Some(Expression::Negative(Box::new(self.factor()?)));
        }
        if self.sign("+") {
            return self.factor();
        }
        if self.sign("(") {
            let inner = self.sum()?;
            return self.sign(")").then_some(inner);
        }
        Some(match self.next()? {
            Token::Text(text) => Expression::Literal(Operand::Text(text)),
            Token::Integer(number) => Expression::Literal(Operand::Integer(number)),
            Token::Float(number) => Expression::Literal(Operand::Float(number)),
            Token::Word(word) if word.eq_ignore_ascii_case("TRUE") => {
                Expression::Literal(Operand::Boolean(true))
            }
            Token::Word(word) if word.eq_ignore_ascii_case("FALSE") => {
                Expression::Literal(Operand::Boolean(false))
            }
            Token::Word(word) => Expression::Property(word),
            Token::Sign(_) => return None,
        })
    }
}

fn negate(not: bool, condition: Condition) -> Condition {
    if not { Condition::Not(Box::new(condition)) } else { condition }
}
