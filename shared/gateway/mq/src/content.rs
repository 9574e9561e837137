//! Content of outgoing messages. Each byte follows from the tenant, the idempotency key, the
//! request's fingerprint, the creation time of its idempotency record, and the message's index. So
//! a message that is sent again after a crash has the same id and content.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};

use crate::base64_bytes::Base64Bytes;
use crate::command::{CorrelIdMode, MqProps, Payload, ProduceCommand, ProduceSource, RateLimit, Transaction};
use crate::exchange::RoutingKey;
use crate::explicit::ExplicitMessage;
use crate::headers::Headers;
use crate::message::MessageId;
use crate::properties::{Member, OwnProps};

/// Seed from which the message ids and generated bodies of one request are derived, so that a
/// repeated attempt at the request creates the same messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentSeed {
    digest: [u8; 32],
    pub(crate) created_at: Timestamp,
    pub(crate) idempotency_key: String,
}

impl ContentSeed {
    /// Creates the seed from which the message ids and generated bodies of a request are derived.
    /// `created_at` is the creation time of the request's idempotency record, which every later
    /// attempt at the request keeps.
    #[must_use]
    pub fn new(tenant: &str, idempotency_key: &str, fingerprint: &str, created_at: Timestamp) -> Self {
        let mut hash = Sha256::new();
        for part in [tenant, idempotency_key, fingerprint, &created_at.to_string()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        Self { digest: hash.finalize().into(), created_at, idempotency_key: idempotency_key.to_owned() }
    }

    pub(crate) fn derive(&self, purpose: &str, index: u64) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.digest);
        hash.update(purpose.as_bytes());
        hash.update(index.to_be_bytes());
        hash.finalize().into()
    }

    /// Returns the id of the message at `index`, the same in every attempt at the request.
    #[must_use]
    pub fn message_id(&self, index: u64) -> MessageId {
        let mut id = [0; 24];
        id.copy_from_slice(&self.derive("id", index)[..24]);
        MessageId(id)
    }

    pub(crate) fn rng(&self, purpose: &str, index: u64) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(self.derive(purpose, index))
    }
}

/// Message of a produce, complete and ready to be put on a queue.
#[derive(Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// Id of the message, derived from the request's [`ContentSeed`]: the same in every attempt.
    pub id: MessageId,
    /// Index of the message within the request, from 0: the value of the message property
    /// `sequence`.
    pub sequence: u64,
    /// Body of the message: at most 4 MiB, or 32 MiB if it was uploaded.
    pub body: Vec<u8>,
    /// Correlation id to write into the message.
    pub correl_id: CorrelId,
    /// Media type of the body: `text/plain; charset=utf-8` or `application/octet-stream`.
    pub content_type: &'static str,
}

/// Correlation id of an outgoing message. The broker's crate writes an echoed message id, since its
/// form depends on the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorrelId {
    /// The message has no correlation id.
    None,
    /// Correlation id that equals the message's own id, in the broker's form.
    EchoMsgId,
    /// Correlation id that the caller chose, at most 255 bytes.
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

/// Messages of a produce, built one at a time by their index. Clones share the caller's bodies.
#[derive(Clone, Debug)]
pub struct Outgoing {
    seed: ContentSeed,
    source: Arc<ProduceSource>,
    props: MqProps,
    headers: Headers,
    rate_limit_per_sec: Option<RateLimit>,
    transaction: Transaction,
    earlier_attempts: u32,
}

impl Outgoing {
    /// Creates the messages of `command` from a copy of its parts.
    #[must_use]
    pub fn new(command: &ProduceCommand, seed: ContentSeed) -> Self {
        Self::of(command.clone(), seed)
    }

    /// Creates the messages of `command` without a copy of its parts, which saves memory for large
    /// bodies.
    #[must_use]
    pub fn of(command: ProduceCommand, seed: ContentSeed) -> Self {
        let ProduceCommand { source, props, headers, rate_limit_per_sec, transaction, warnings: _ } = command;
        let source = Arc::new(source);
        Self { seed, source, props, headers, rate_limit_per_sec, transaction, earlier_attempts: 0 }
    }

    /// Sets the number of earlier attempts at the request, which may have put some of the messages
    /// with the same ids.
    #[must_use]
    pub fn after(self, earlier_attempts: u32) -> Self {
        Self { earlier_attempts, ..self }
    }

    /// Returns the seed from which the messages' ids and bodies are derived.
    #[must_use]
    pub fn seed(&self) -> &ContentSeed {
        &self.seed
    }

    /// True if there was no earlier attempt at the request that may have put messages.
    #[must_use]
    pub fn is_first_attempt(&self) -> bool {
        self.earlier_attempts == 0
    }

    /// Returns the number of messages of the produce, including those that earlier attempts put.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.source.count()
    }

    /// Counts the bytes of the bodies of the first `count` messages, as
    /// [`ProduceSource::bytes_of_first`] does.
    #[must_use]
    pub fn bytes_of_first(&self, count: u64) -> u64 {
        self.source.bytes_of_first(count)
    }

    /// Returns the request's `mqProps`: properties of each message that does not set its own.
    #[must_use]
    pub fn props(&self) -> &MqProps {
        &self.props
    }

    /// Returns the properties of the message at `index`: the request's, unless the message sets its
    /// own. Copies properties only for a message that sets its own.
    #[must_use]
    pub fn props_of(&self, index: u64) -> Cow<'_, MqProps> {
        match self.own(index) {
            Some(own) => Cow::Owned(self.props.overlaid_with(own)),
            None => Cow::Borrowed(&self.props),
        }
    }

    /// True if any message has a priority above 0.
    #[must_use]
    pub fn has_priorities(&self) -> bool {
        let own = match &*self.source {
            ProduceSource::Explicit { messages } => messages.as_slice(),
            ProduceSource::Generated { .. } => &[],
        };
        let mut own = own.iter().filter_map(|message| message.own.as_ref()?.priority);
        self.props.priority.get() > 0 || own.any(|priority| priority.get() > 0)
    }

    /// Renders the routing key of the message at `index`: the message's own key, or `of_all` if the
    /// message has none.
    #[must_use]
    pub fn routing_key(&self, index: u64, of_all: &RoutingKey) -> String {
        let own = self.own(index).and_then(|own| own.routing_key.as_ref());
        own.unwrap_or(of_all).render(&self.seed, index)
    }

    /// Returns the JSON Pointer to the request's `member` for the message at `index`: in `messages`
    /// if the message itself sets `member` or `required_by`, otherwise in `mqProps`. `required_by`
    /// is a member that makes `member` necessary.
    #[must_use]
    pub fn pointer(&self, index: u64, member: Member, required_by: Option<Member>) -> String {
        let name = member.name();
        match [Some(member), required_by].into_iter().flatten().any(|member| self.has_own(index, member)) {
            true => format!("/messages/{index}/{name}"),
            false => format!("/mqProps/{name}"),
        }
    }

    /// True if the message at `index` itself sets the member.
    #[must_use]
    pub fn has_own(&self, index: u64, member: Member) -> bool {
        self.own(index).is_some_and(|own| member.is_in(own))
    }

    /// Returns the JSON Pointer to the member that sets the correlation id of the message at
    /// `index`.
    #[must_use]
    pub fn correl_id_pointer(&self, index: u64) -> String {
        match self.explicit(index).is_some_and(|message| message.correl_id.is_some()) {
            true => format!("/messages/{index}/correlIdBase64"),
            false => format!("/mqProps/{}", self.props.correl_id_member.name()),
        }
    }

    /// Returns the JSON Pointer to the header `name` of the message at `index`: in the message if
    /// it has such a header, otherwise in the request's `headers`.
    #[must_use]
    pub fn header_pointer(&self, index: u64, name: &str) -> String {
        // RFC 6901, section 3.
        let escaped = name.replace('~', "~0").replace('/', "~1");
        match self.explicit(index).is_some_and(|message| message.headers.contains(name)) {
            true => format!("/messages/{index}/headers/{escaped}"),
            false => format!("/headers/{escaped}"),
        }
    }

    fn own(&self, index: u64) -> Option<&OwnProps> {
        self.explicit(index)?.own.as_deref()
    }

    /// Returns the rate limit in messages per second; `None` if only the broker's confirms limit
    /// the rate.
    #[must_use]
    pub fn rate_limit_per_sec(&self) -> Option<RateLimit> {
        self.rate_limit_per_sec
    }

    /// Returns how the request groups its messages into transactions.
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        self.transaction
    }

    /// Returns the request's idempotency key, which each message carries as the property
    /// `idempotencyKey`.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.seed.idempotency_key
    }

    /// Returns the creation time of the messages: the time at which the first attempt at the
    /// request was recorded, the same in every attempt.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        self.seed.created_at
    }

    /// Returns the id of the message at `index` without building the message.
    #[must_use]
    pub fn message_id(&self, index: u64) -> MessageId {
        self.seed.message_id(index)
    }

    /// Returns the caller's headers for the message at `index`: the request's, with the message's
    /// own in place of those of the same name.
    #[must_use]
    pub fn headers(&self, index: u64) -> Cow<'_, Headers> {
        match self.explicit(index) {
            Some(message) => self.headers.overlaid_with(&message.headers),
            None => Cow::Borrowed(&self.headers),
        }
    }

    /// True if the caller gives the message at `index` a header of this name.
    #[must_use]
    pub fn has_header(&self, index: u64, name: &str) -> bool {
        let is_own = self.explicit(index).is_some_and(|message| message.headers.contains(name));
        is_own || self.headers.contains(name)
    }

    fn explicit(&self, index: u64) -> Option<&ExplicitMessage> {
        match &*self.source {
            ProduceSource::Explicit { messages } => messages.get(usize::try_from(index).ok()?),
            ProduceSource::Generated { .. } => None,
        }
    }

    /// True if the request contains each message, possibly with properties and headers of its own.
    /// False if a rule generates the messages, which then differ only in id, sequence and body.
    #[must_use]
    pub fn differs_by_message(&self) -> bool {
        matches!(*self.source, ProduceSource::Explicit { .. })
    }

    /// True if the message at `index` has properties or headers of its own.
    #[must_use]
    pub fn has_own_members(&self, index: u64) -> bool {
        self.explicit(index).is_some_and(|message| message.own.is_some() || !message.headers.is_empty())
    }

    /// Returns the correlation id of the message at `index`.
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

    /// Builds the message at `index`; `None` if the index is past the last message.
    #[must_use]
    pub fn message(&self, index: u64) -> Option<OutgoingMessage> {
        if index >= self.count() {
            return None;
        }
        match &*self.source {
            ProduceSource::Generated { .. } => self.generated(index),
            ProduceSource::Explicit { messages } => {
                let body = messages.get(usize::try_from(index).ok()?)?.body.0.clone();
                Some(OutgoingMessage { body, ..self.without_body(index) })
            }
        }
    }

    /// Builds the generated message at `index`; `None` if the request contains its messages itself.
    /// The index may be past the end, because a load test has no fixed number of messages.
    #[must_use]
    pub fn generated(&self, index: u64) -> Option<OutgoingMessage> {
        let ProduceSource::Generated { payload, .. } = &*self.source else { return None };
        let body = match payload {
            Payload::Random { size } => {
                let mut body = vec![0; usize::try_from(size.get()).ok()?];
                self.seed.rng("body", index).fill_bytes(&mut body);
                body
            }
            Payload::Fixed { body } => body.0.clone(),
            Payload::Template { template } => template.render(&self.seed, index).into_bytes(),
        };
        Some(OutgoingMessage { body, ..self.without_body(index) })
    }

    /// Builds the message at `index` with an empty body, for callers that need only its id and its
    /// other fields. The index may be past the end.
    #[must_use]
    pub fn without_body(&self, index: u64) -> OutgoingMessage {
        let is_text = match &*self.source {
            ProduceSource::Generated { payload, .. } => matches!(payload, Payload::Template { .. }),
            ProduceSource::Explicit { .. } => self.explicit(index).is_some_and(|message| message.is_text),
        };
        let content_type = if is_text { TEXT } else { BINARY };
        OutgoingMessage { content_type, ..self.with_body(index, Vec::new()) }
    }

    /// Builds the message at `index` with `body` and the media type `application/octet-stream`. The
    /// index may be past the end.
    #[must_use]
    pub fn with_body(&self, index: u64, body: Vec<u8>) -> OutgoingMessage {
        OutgoingMessage {
            id: self.seed.message_id(index),
            sequence: index,
            body,
            correl_id: self.correl_id(index),
            content_type: BINARY,
        }
    }
}

const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";
