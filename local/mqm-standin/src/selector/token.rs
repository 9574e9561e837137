//! The words of a selection string.

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name or keyword.
    Word(String),
    Text(String),
    Integer(i64),
    Float(f64),
    Sign(&'static str),
}

const SIGNS: [&str; 14] = ["<>", "<=", ">=", "!=", "=", "<", ">", "(", ")", ",", "+", "-", "*", "/"];

pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '\'' => quoted(rest)?,
            '"' => quoted_name(rest)?,
            '0'..='9' | '.' => number(rest)?,
            letter if is_start(letter) => {
                let length = rest.find(|next| !is_part(next)).unwrap_or(rest.len());
                (Token::Word(rest.get(..length)?.to_owned()), length)
            }
            _ => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
                (Token::Sign(sign), sign.len())
            }
        };
        tokens.push(token);
        rest = rest.get(length..)?.trim_start();
    }
    Some(tokens)
}

fn is_start(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_' || letter == '$'
}

fn is_part(letter: char) -> bool {
    is_start(letter) || letter.is_ascii_digit() || letter == '.'
}

/// `'it''s'`: a quote within is doubled.
fn quoted(rest: &str) -> Option<(Token, usize)> {
    let mut text = String::new();
    let mut letters = rest.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != '\'' {
            text.push(letter);
        } else if letters.next_if(|(_, next)| *next == '\'').is_some() {
            text.push('\'');
        } else {
            return Some((Token::Text(text), at + 1));
        }
    }
    None
}

/// `"0x41"` is a string of bytes; any other text in double quotes is a name.
fn quoted_name(rest: &str) -> Option<(Token, usize)> {
    let end = rest.get(1..)?.find('"')?;
    let text = rest.get(1..=end)?;
    let token = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => Token::Text(format!("0x{}", digits.to_ascii_uppercase())),
        None => Token::Word(text.to_owned()),
    };
    Some((token, end + 2))
}

fn number(rest: &str) -> Option<(Token, usize)> {
    let mut previous = ' ';
    let is_part = |letter: char| {
        let signed = (letter == '+' || letter == '-') && matches!(previous, 'e' | 'E');
        let part = letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E') || signed;
        previous = letter;
        part
    };
    let length = rest.find(not(is_part)).unwrap_or(rest.len());
    let digits = rest.get(..length)?;
    let integer = digits.parse().map(Token::Integer).ok();
    let token = match integer {
        Some(token) => token,
        None => Token::Float(digits.parse().ok()?),
    };
    Some((token, length))
}

fn not(mut is_part: impl FnMut(char) -> bool) -> impl FnMut(char) -> bool {
    move |letter| !is_part(letter)
}
