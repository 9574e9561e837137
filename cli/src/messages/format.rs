//! Format in which messages are printed, with fields such as `%s` in the manner of kcat's option
//! `-f`.

use std::io::{self, Write as _};

use super::received::Received;
use crate::exit::Failure;
use crate::member::text;
use crate::output::Output;

/// Parsed format in which `consume` and `browse` print each message, such as `%i %s\n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Field(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Body,
    Size,
    Id,
    CorrelationId,
    Headers,
    Queue,
    RoutingKey,
    ContentType,
    Time,
    Number,
    Json,
}

impl Template {
    /// Parses a message format such as `%i %S\n%s\n`.
    ///
    /// # Errors
    /// If a field or an escape is unknown.
    pub(crate) fn parse(format: &str) -> Result<Self, Failure> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut rest = format.chars();
        while let Some(character) = rest.next() {
            match character {
                '%' => match rest.next() {
                    Some('%') => literal.push(b'%'),
                    other => {
                        let field = field(other).ok_or_else(|| unknown(format, "%", other))?;
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                        pieces.push(Piece::Field(field));
                    }
                },
                '\\' => match rest.next() {
                    Some('n') => literal.push(b'\n'),
                    Some('t') => literal.push(b'\t'),
                    Some('r') => literal.push(b'\r'),
                    Some('0') => literal.push(0),
                    Some('\\') => literal.push(b'\\'),
                    Some('x') => {
                        let digits: String = rest.by_ref().take(2).collect();
                        let byte = u8::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 2);
                        literal.push(byte.ok_or_else(|| unknown(format, "\\x", digits.chars().next()))?);
                    }
                    other => return Err(unknown(format, "\\", other)),
                },
                other => literal.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        pieces.push(Piece::Text(literal));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self(pieces))
    }

    /// Writes a message in this format.
    ///
    /// # Errors
    /// If standard output did not accept everything.
    pub(crate) fn show(&self, message: &Received, out: &mut Output) -> io::Result<()> {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => out.exactly(text),
            Piece::Field(field) => {
                let mut value = Vec::new();
                field.render(message, &mut value);
                out.raw(&value)
            }
        })
    }
}

fn field(letter: Option<char>) -> Option<Field> {
    Some(match letter? {
        's' => Field::Body,
        'S' => Field::Size,
        'i' => Field::Id,
        'c' => Field::CorrelationId,
        'h' => Field::Headers,
        'q' => Field::Queue,
        'r' => Field::RoutingKey,
        'y' => Field::ContentType,
        'T' => Field::Time,
        'n' => Field::Number,
        'J' => Field::Json,
        _ => return None,
    })
}

fn unknown(format: &str, begin: &str, letter: Option<char>) -> Failure {
    let letter = letter.map(String::from).unwrap_or_default();
    Failure::usage(format!("the format `{format}` has `{begin}{letter}`, which means nothing"))
        .next("fields are %s %S %i %c %h %q %r %y %T %n %J %%, and escapes \\n \\t \\r \\0 \\\\ \\xHH")
}

impl Field {
    fn render(self, message: &Received, line: &mut Vec<u8>) {
        let json = &message.json;
        match self {
            Self::Body => line.extend_from_slice(&message.body),
            // Nothing fails that is written to memory.
            Self::Size => drop(write!(line, "{}", message.body.len())),
            Self::Id => line.extend_from_slice(text(json, "msgIdBase64").as_bytes()),
            Self::CorrelationId => line.extend_from_slice(text(json, "correlIdBase64").as_bytes()),
            Self::Headers => line.extend_from_slice(message.headers().as_bytes()),
            Self::Queue => line.extend_from_slice(message.queue.as_bytes()),
            Self::RoutingKey => line.extend_from_slice(text(json, "routingKey").as_bytes()),
            Self::ContentType => line.extend_from_slice(text(json, "contentType").as_bytes()),
            Self::Time => line.extend_from_slice(text(json, "putAt").as_bytes()),
            Self::Number => drop(write!(line, "{}", message.number)),
            Self::Json => drop(write!(line, "{json}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::Format;
    use crate::output::memory::output;

    fn rendered(format: &str) -> String {
        let message = Received {
            json: json!({"msgIdBase64": "aWQ=", "correlIdBase64": null, "routingKey": "r",
                "contentType": "text/plain", "putAt": "2026-11-21T10:00:00.000Z", "headers": {"a": "1", "b": 2}}),
            body: b"ol\xc3\xa1".to_vec(),
            queue: "ORDERS".to_owned(),
            number: 7,
        };
        let (mut out, data, _) = output(Format::Text, None);
        Template::parse(format).unwrap().show(&message, &mut out).unwrap();
        data.text()
    }

    #[test]
    fn each_field_and_escape_is_what_the_help_says() {
        assert_eq!(rendered("%n: %i %c|%S %s\\n"), "7: aWQ= |4 olá\n");
        assert_eq!(
            rendered("%q %r %y %T [%h] 100%%\\t\\x41\\\\"),
            "ORDERS r text/plain 2026-11-21T10:00:00.000Z [a=1,b=2] 100%\tA\\"
        );
        assert_eq!(rendered("%J").parse::<serde_json::Value>().unwrap()["msgIdBase64"], "aWQ=");
        assert_eq!(rendered("ação"), "ação");
        assert_eq!(rendered(""), "");
    }

    #[test]
    fn a_field_that_there_is_not_is_named() {
        for format in ["%z", "%", "\\q", "\\", "\\x4", "\\xzz"] {
            let failure = Template::parse(format).unwrap_err();
            assert!(failure.exit.code() == 2 && failure.next.unwrap().contains("%s"), "{format}");
        }
    }
}
