//! The content of outgoing messages. Every byte is a function of tenant, key, fingerprint, the
//! claim's creation time and the message's index, so what is sent again after a crash is the same
//! message with the same id.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::base64_bytes::Base64Bytes;
use crate::command::{CorrelIdMode, MqProps, Payload, ProduceCommand, ProduceSource, RateLimit, Transaction};
use crate::explicit::ExplicitMessage;
use crate::headers::Headers;
use crate::message::MessageId;
use crate::properties::OwnProps;

/// What every derived byte starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentSeed {
    digest: [u8; 32],
    created_at: Timestamp,
    idempotency_key: String,
}

impl ContentSeed {
    /// `fingerprint` is the request's, and `created_at` the time of the first claim, which a
    /// takeover keeps.
    #[must_use]
    pub fn new(tenant: &str, idempotency_key: &str, fingerprint: &str, created_at: Timestamp) -> Self {
        let mut hash = Sha256::new();
        for part in [tenant, idempotency_key, fingerprint, &created_at.to_string()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        Self { digest: hash.finalize().into(), created_at, idempotency_key: idempotency_key.to_owned() }
    }

    fn derive(&self, purpose: &str, index: u64) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.digest);
        hash.update(purpose.as_bytes());
        hash.update(index.to_be_bytes());
        hash.finalize().into()
    }

    /// The id of the message at `index`, the same in every attempt.
    #[must_use]
    pub fn message_id(&self, index: u64) -> MessageId {
        let mut id = [0; 24];
        id.copy_from_slice(&self.derive("id", index)[..24]);
        MessageId(id)
    }

    fn rng(&self, purpose: &str, index: u64) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(self.derive(purpose, index))
    }
}

/// One piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Seq,
    Uuid,
    Now,
    Key,
    Random(usize),
}

/// Why a template cannot be used.
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

/// A body with placeholders: `{{seq}}`, `{{uuid}}`, `{{now}}`, `{{key}}` and `{{random(n)}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    source: String,
    pieces: Vec<Piece>,
}

impl Template {
    /// The largest body that a template may render to.
    pub const MAX_BYTES: usize = 4_194_304;

    /// # Errors
    /// When a placeholder is unknown, malformed or never closed, or a body could exceed
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
        let longest = pieces.iter().map(Piece::max_len).fold(0, usize::saturating_add);
        if longest > Self::MAX_BYTES {
            return Err(TemplateError::TooLong(longest));
        }
        Ok(Self { source: source.to_owned(), pieces })
    }

    fn placeholder(name: &str, offset: usize) -> Result<Piece, TemplateError> {
        match name.trim() {
            "seq" => Ok(Piece::Seq),
            "uuid" => Ok(Piece::Uuid),
            "now" => Ok(Piece::Now),
            "key" => Ok(Piece::Key),
            other => {
                let length = other.strip_prefix("random(").and_then(|tail| tail.strip_suffix(')'));
                let Some(length) = length else {
                    return Err(TemplateError::Unknown(offset));
                };
                length
                    .trim()
                    .parse()
                    .ok()
                    .filter(|length| (1..=Self::MAX_BYTES).contains(length))
                    .map(Piece::Random)
                    .ok_or(TemplateError::RandomLength(offset))
            }
        }
    }

    fn render(&self, seed: &ContentSeed, index: u64) -> String {
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

/// A version 8 UUID (RFC 9562, section 5.8) over derived bytes.
fn derived_uuid(bytes: &[u8; 32]) -> Uuid {
    let mut first = [0; 16];
    first.copy_from_slice(&bytes[..16]);
    uuid::Builder::from_custom_bytes(first).into_uuid()
}

fn alphanumeric(rng: &mut ChaCha8Rng) -> char {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    loop {
        // Six bits at a time, and again where they fall beyond the alphabet: no character is
        // likelier than another.
        let index = rng.next_u32() & 63;
        if let Some(character) = usize::try_from(index).ok().and_then(|index| ALPHABET.get(index)) {
            return char::from(*character);
        }
    }
}

/// A message ready to be put.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// Derived, and therefore the same in every attempt.
    pub id: MessageId,
    /// The index within the request, from 0: the value of the property `sequence`.
    pub sequence: u64,
    /// At most 4 MiB.
    pub body: Vec<u8>,
    /// Where the correlation id comes from.
    pub correl_id: CorrelId,
    /// The media type: text, or bytes that nothing is known of.
    pub content_type: &'static str,
}

/// A message's correlation id. The message's own id is left to the broker, whose wire form it
/// takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorrelId {
    /// No correlation id.
    None,
    /// The message's own id, in the broker's form.
    EchoMsgId,
    /// At most 255 bytes, which the caller chose.
    Bytes(Vec<u8>),
}

impl fmt::Debug for OutgoingMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingMessage")
            .field("id", &self.id.to_hex())
            .field("sequence", &self.sequence)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The messages of a produce, made one at a time.
#[derive(Clone, Debug)]
pub struct Outgoing {
    seed: ContentSeed,
    source: ProduceSource,
    props: MqProps,
    headers: Headers,
    rate_limit_per_sec: Option<RateLimit>,
    transaction: Transaction,
}

impl Outgoing {
    /// Copies what the messages are made of, and makes none yet.
    #[must_use]
    pub fn new(command: &ProduceCommand, seed: ContentSeed) -> Self {
        Self {
            seed,
            source: command.source.clone(),
            props: command.props.clone(),
            headers: command.headers.clone(),
            rate_limit_per_sec: command.rate_limit_per_sec,
            transaction: command.transaction,
        }
    }

    /// How many messages there are, those of earlier attempts included.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.source.count()
    }

    /// What holds for every message that does not say otherwise of itself.
    #[must_use]
    pub fn props(&self) -> &MqProps {
        &self.props
    }

    /// What the message at `index` is put with. Nothing is copied where it says nothing of itself.
    #[must_use]
    pub fn props_of(&self, index: u64) -> Cow<'_, MqProps> {
        match self.own(index) {
            Some(own) => Cow::Owned(self.props.overlaid_with(own)),
            None => Cow::Borrowed(&self.props),
        }
    }

    /// Whether any message has a priority.
    #[must_use]
    pub fn has_priorities(&self) -> bool {
        let own = match &self.source {
            ProduceSource::Explicit { messages } => messages.as_slice(),
            ProduceSource::Generated { .. } => &[],
        };
        let mut own = own.iter().filter_map(|message| message.own.as_ref()?.priority);
        self.props.priority.get() > 0 || own.any(|priority| priority.get() > 0)
    }

    fn own(&self, index: u64) -> Option<&OwnProps> {
        self.explicit(index)?.own.as_deref()
    }

    /// Messages per second; `None` if only the broker's confirms set the pace.
    #[must_use]
    pub fn rate_limit_per_sec(&self) -> Option<RateLimit> {
        self.rate_limit_per_sec
    }

    /// How confirms are grouped.
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        self.transaction
    }

    /// The value of the property `idempotencyKey`.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.seed.idempotency_key
    }

    /// When the messages came into being: the claim's time, which a resend shares.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.seed.created_at
    }

    /// The id of the message at `index`, which need not be made for it.
    #[must_use]
    pub fn message_id(&self, index: u64) -> MessageId {
        self.seed.message_id(index)
    }

    /// The caller's headers for the message at `index`.
    #[must_use]
    pub fn headers(&self, index: u64) -> Cow<'_, Headers> {
        match self.explicit(index) {
            Some(message) => self.headers.overlaid_with(&message.headers),
            None => Cow::Borrowed(&self.headers),
        }
    }

    /// Whether the caller gives the message at `index` a header of this name.
    pub fn has_header(&self, index: u64, name: &str) -> bool {
        let is_own = self.explicit(index).is_some_and(|message| message.headers.contains(name));
        is_own || self.headers.contains(name)
    }

    fn explicit(&self, index: u64) -> Option<&ExplicitMessage> {
        match &self.source {
            ProduceSource::Explicit { messages } => messages.get(usize::try_from(index).ok()?),
            ProduceSource::Generated { .. } => None,
        }
    }

    /// Whether messages differ in more than their id, their sequence and their body.
    #[must_use]
    pub fn differs_by_message(&self) -> bool {
        matches!(self.source, ProduceSource::Explicit { .. })
    }

    /// The correlation id of the message at `index`.
    #[must_use]
    pub fn correl_id(&self, index: u64) -> CorrelId {
        let own = self.explicit(index).and_then(|message| message.correl_id.as_ref());
        match (own, self.props.correl_id_mode) {
            (Some(Base64Bytes(bytes)), _) => CorrelId::Bytes(bytes.clone()),
            (None, CorrelIdMode::None) => CorrelId::None,
            (None, CorrelIdMode::EchoMsgId) => CorrelId::EchoMsgId,
            (None, CorrelIdMode::Fixed) => self
                .props
                .fixed_correl_id_base64
                .as_ref()
                .map_or(CorrelId::None, |id| CorrelId::Bytes(id.0.clone())),
        }
    }

    /// The message at `index`, or `None` past the end.
    #[must_use]
    pub fn message(&self, index: u64) -> Option<OutgoingMessage> {
        if index >= self.count() {
            return None;
        }
        let id = self.seed.message_id(index);
        let (body, content_type) = match &self.source {
            ProduceSource::Generated { payload: Payload::Random { size }, .. } => {
                let mut body = vec![0; usize::try_from(size.get()).ok()?];
                self.seed.rng("body", index).fill_bytes(&mut body);
                (body, BINARY)
            }
            ProduceSource::Generated { payload: Payload::Fixed { body }, .. } => (body.0.clone(), BINARY),
            ProduceSource::Generated { payload: Payload::Template { template }, .. } => {
                (template.render(&self.seed, index).into_bytes(), TEXT)
            }
            ProduceSource::Explicit { messages } => {
                let message = messages.get(usize::try_from(index).ok()?)?;
                (message.body.0.clone(), if message.is_text { TEXT } else { BINARY })
            }
        };
        let correl_id = self.correl_id(index);
        Some(OutgoingMessage { id, sequence: index, body, correl_id, content_type })
    }
}

const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";
