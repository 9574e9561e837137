//! Templates: texts with placeholders, which are rendered anew for each message.

use rand_chacha::ChaCha8Rng;
use rand_core::Rng as _;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::content::ContentSeed;

/// Piece of a [`Template`]: literal text, or a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Seq,
    Uuid,
    Now,
    Key,
    Random(usize),
}

/// Error of a template that cannot be parsed, or may render to too long a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what is wrong")]
pub enum TemplateError {
    #[error("`{{{{` at byte {0} is never closed")]
    Unclosed(usize),
    #[error("the placeholder at byte {0} is unknown: use seq, uuid, now, key or random(n)")]
    Unknown(usize),
    #[error("random(n) at byte {0} takes a number from 1 to {max}", max = Template::MAX_BYTES)]
    RandomLength(usize),
    #[error("messages of up to {0} bytes exceed the limit of {max}", max = Template::MAX_BYTES)]
    TooLong(usize),
}

/// Text of a body or a routing key, with placeholders that are filled in for each message:
/// `{{seq}}`, `{{uuid}}`, `{{now}}`, `{{key}}` and `{{random(n)}}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    source: String,
    pieces: Vec<Piece>,
}

impl Template {
    /// Maximum length in bytes of the text that a template may render to.
    pub const MAX_BYTES: usize = 4_194_304;

    /// Parses the template of a body or a routing key.
    ///
    /// # Errors
    /// If a placeholder is unknown, malformed or never closed, or a body could exceed
    /// [`Self::MAX_BYTES`].
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = source;
        while let Some((literal, tail)) = rest.split_once("{{") {
            let offset = source.len() - tail.len() - 2;
            let (name, tail) = tail.split_once("}}").ok_or(TemplateError::Unclosed(offset))?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal.to_owned()));
            }
            pieces.push(Self::placeholder(name, offset)?);
            rest = tail;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        let template = Self { source: source.to_owned(), pieces };
        let longest = template.max_len();
        if longest > Self::MAX_BYTES {
            return Err(TemplateError::TooLong(longest));
        }
        Ok(template)
    }

    /// Returns the maximum length in bytes of the text that the template may render to.
    pub(crate) fn max_len(&self) -> usize {
        self.pieces.iter().map(Piece::max_len).fold(0, usize::saturating_add)
    }

    /// Returns the source text of the template, with its placeholders.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the template's text with `stand_in` in place of each placeholder.
    pub(crate) fn with_stand_ins(&self, stand_in: &str) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            _ => stand_in.to_owned(),
        };
        self.pieces.iter().map(text).collect()
    }

    fn placeholder(name: &str, offset: usize) -> Result<Piece, TemplateError> {
        match name.trim() {
            "seq" => Ok(Piece::Seq),
            "uuid" => Ok(Piece::Uuid),
            "now" => Ok(Piece::Now),
            "key" => Ok(Piece::Key),
            other => {
                let length = other.strip_prefix("random(").and_then(|tail| tail.strip_suffix(')'));
                let length = length.ok_or(TemplateError::Unknown(offset))?.trim().parse::<usize>().ok();
                let allowed = length.filter(|length| (1..=Self::MAX_BYTES).contains(length));
                allowed.map(Piece::Random).ok_or(TemplateError::RandomLength(offset))
            }
        }
    }

    pub(crate) fn render(&self, seed: &ContentSeed, index: u64) -> String {
        let mut body = String::new();
        for (position, piece) in (0_u64..).zip(&self.pieces) {
            match piece {
                Piece::Literal(text) => body.push_str(text),
                Piece::Seq => body.push_str(&index.to_string()),
                Piece::Uuid => {
                    let uuid = derived_uuid(&seed.derive(&format!("uuid {position}"), index));
                    body.push_str(&uuid.to_string());
                }
                Piece::Now => body.push_str(&format!("{:.3}", seed.created_at)),
                Piece::Key => body.push_str(&seed.idempotency_key),
                Piece::Random(length) => {
                    let mut rng = seed.rng(&format!("random {position}"), index);
                    body.extend((0..*length).map(|_| alphanumeric(&mut rng)));
                }
            }
        }
        body
    }
}

impl Piece {
    fn max_len(&self) -> usize {
        match self {
            Self::Literal(text) => text.len(),
            Self::Seq => "100000".len(),
            Self::Uuid | Self::Key => 36,
            Self::Now => "2026-01-01T00:00:00.000Z".len(),
            Self::Random(length) => *length,
        }
    }
}

impl TryFrom<String> for Template {
    type Error = TemplateError;

    fn try_from(source: String) -> Result<Self, TemplateError> {
        Self::parse(&source)
    }
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.source
    }
}

/// Builds a version 8 UUID (RFC 9562, section 5.8) from the first 16 of `bytes`, which are derived
/// from the request's seed and the message's index.
fn derived_uuid(bytes: &[u8; 32]) -> Uuid {
    let mut first = [0; 16];
    first.copy_from_slice(&bytes[..16]);
    uuid::Builder::from_custom_bytes(first).into_uuid()
}

fn alphanumeric(rng: &mut ChaCha8Rng) -> char {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    loop {
        // Six bits at a time, and again if they fall beyond the alphabet, so that all characters
        // are equally likely.
        let index = rng.next_u32() & 63;
        if let Some(character) = usize::try_from(index).ok().and_then(|index| ALPHABET.get(index)) {
            return char::from(*character);
        }
    }
}
