//! Commands: validated requests of a caller, in the form in which the HTTP function sends them to
//! `mq-access`, the function that connects to brokers.

use serde::{Deserialize, Serialize};

use crate::base64_bytes::{Base64Bytes, IdBytes};
use crate::bounded::bounded;
pub use crate::explicit::ExplicitMessage;
use crate::headers::Headers;
use crate::names::SelectorExpression;
use crate::optional::or_default;
use crate::properties::{OwnProps, Properties};
use crate::template::Template;

bounded! {
    /// Number of generated messages that a produce puts.
    BatchCount: u32, 1..=100_000, default 1;
    /// Size of the body of a generated random message, in bytes.
    MessageSize: u32, 0..=4_194_304, default 1024;
    /// Number of messages in one transaction.
    TxSize: u32, 1..=100_000, default 100;
    /// Maximum rate at which a produce puts messages, in messages per second.
    RateLimit: u32, 1..=1_000_000, default 1;
    /// Priority of a message; 9 is the highest.
    Priority: u8, 0..=9, default 0;
    /// Lifetime of a message, in milliseconds; 0 means that it never expires. AMQP carries at most
    /// 32 bits.
    ExpiryMs: u32, 0..=4_294_967_295, default 0;
    /// Maximum number of messages that a consume takes.
    MaxMessages: u32, 1..=10_000, default 1;
    /// Maximum time that a consume waits for the first message, in seconds.
    WaitSeconds: u32, 0..=60, default 20;
}

/// Member `batch` of a produce request: number and size of generated messages, with the rate and
/// the transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`MessageBatch` in openapi.yaml describes each member")]
pub struct Batch {
    pub count: Option<BatchCount>,
    pub message_size_bytes: Option<MessageSize>,
    pub rate_limit_per_sec: Option<RateLimit>,
    #[serde(default, deserialize_with = "or_default")]
    pub transaction: Transaction,
}

/// Grouping of a produce's messages into transactions. With `atomic`, the request is refused if the
/// broker cannot commit each transaction atomically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`ProduceTransaction` in openapi.yaml describes each member")]
pub struct Transaction {
    #[serde(default, deserialize_with = "or_default")]
    pub enabled: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub tx_size: TxSize,
    #[serde(default, deserialize_with = "or_default")]
    pub atomic: bool,
}

/// Persistence of a message, which decides whether it survives a restart of the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Persistence {
    /// The message is written to disk before it is confirmed, if the queue is durable.
    #[default]
    Persistent,
    /// The message is kept in memory, and lost when the broker restarts.
    Nonpersistent,
}

/// Source of a message's correlation id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CorrelIdMode {
    /// The message gets no correlation id.
    #[default]
    None,
    /// The message id is also the correlation id.
    EchoMsgId,
    /// The correlation id is the value of the member `fixedCorrelIdBase64`.
    Fixed,
}

/// Member of `mqProps` that gives a fixed correlation id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CorrelIdMember {
    /// The member `fixedCorrelIdBase64`, which requires a `correlIdMode`.
    #[default]
    FixedCorrelIdBase64,
    /// The member `correlIdBase64`, which needs no `correlIdMode`.
    CorrelIdBase64,
}

impl CorrelIdMember {
    /// Returns the member's name in a request.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FixedCorrelIdBase64 => "fixedCorrelIdBase64",
            Self::CorrelIdBase64 => "correlIdBase64",
        }
    }

    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Properties of every message of a produce, unless the message sets its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`MessageProperties` in openapi.yaml describes each member")]
pub struct MqProps {
    #[serde(default)]
    pub persistence: Persistence,
    #[serde(default)]
    pub priority: Priority,
    pub expiry_ms: Option<ExpiryMs>,
    #[serde(default)]
    pub correl_id_mode: CorrelIdMode,
    pub fixed_correl_id_base64: Option<IdBytes>,
    #[serde(default, skip_serializing_if = "CorrelIdMember::is_usual")]
    pub correl_id_member: CorrelIdMember,
    #[serde(default, skip_serializing_if = "Properties::is_empty")]
    pub properties: Box<Properties>,
}

impl MqProps {
    /// Returns these properties, with those that a message sets for itself (`own`) in place of the
    /// properties of all messages.
    pub(crate) fn overlaid_with(&self, own: &OwnProps) -> Self {
        Self {
            persistence: own.persistence.unwrap_or(self.persistence),
            priority: own.priority.unwrap_or(self.priority),
            expiry_ms: own.expiry_ms.or(self.expiry_ms),
            correl_id_mode: self.correl_id_mode,
            fixed_correl_id_base64: self.fixed_correl_id_base64.clone(),
            correl_id_member: self.correl_id_member,
            properties: Box::new(self.properties.overlaid_with(&own.properties)),
        }
    }
}

/// Rule for the bodies of generated messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "`MessagePayload` in openapi.yaml describes the modes")]
pub enum Payload {
    Random { size: MessageSize },
    Fixed { body: Base64Bytes },
    Template { template: Template },
}

impl Payload {
    /// Returns the length in bytes of the longest body that this payload can generate.
    #[must_use]
    pub fn longest(&self) -> usize {
        match self {
            Self::Random { size } => usize::try_from(size.get()).unwrap_or(usize::MAX),
            Self::Fixed { body } => body.0.len(),
            Self::Template { template } => template.max_len(),
        }
    }
}

/// Messages that a produce puts: generated by a rule, or given in the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields say the same as their types")]
pub enum ProduceSource {
    /// `count` generated messages, each built when it is put.
    Generated { count: BatchCount, payload: Payload },
    /// Messages that the request contains, 1 to [`BatchCount::MAX`].
    Explicit { messages: Vec<ExplicitMessage> },
}

impl ProduceSource {
    /// Returns the number of messages that the command puts.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Generated { count, .. } => u64::from(count.get()),
            Self::Explicit { messages } => u64::try_from(messages.len()).unwrap_or(u64::MAX),
        }
    }

    /// Counts the bytes of the bodies of the first `count` messages. A template counts as the
    /// longest body that it can render to.
    #[must_use]
    pub fn bytes_of_first(&self, count: u64) -> u64 {
        match self {
            Self::Generated { payload, .. } => count.saturating_mul(as_u64(payload.longest())),
            Self::Explicit { messages } => {
                let bodies = messages.iter().zip(0..count).map(|(message, _)| message.body.0.len());
                bodies.map(as_u64).fold(0, u64::saturating_add)
            }
        }
    }
}

/// Command to put messages on a queue or publish them to an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProduceCommand {
    /// Messages of the request, or the rule that generates them.
    pub source: ProduceSource,
    /// Rate limit in messages per second; `None` if only the broker's confirms limit the rate.
    pub rate_limit_per_sec: Option<RateLimit>,
    /// Grouping of the messages into transactions.
    pub transaction: Transaction,
    /// Properties of every message that does not set its own.
    pub props: MqProps,
    /// Headers of every message. Headers of an explicit message take precedence.
    pub headers: Headers,
    /// Warnings about members of the request that have no effect, for the response's `warnings`.
    pub warnings: Vec<String>,
}

impl ProduceCommand {
    /// Returns the maximum number of bytes of all bodies, headers and properties together. Uploaded
    /// bodies do not count: [`UploadSize`](crate::UploadSize) limits them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let own = |message: &ExplicitMessage| message.body.0.len().saturating_add(message.headers.bytes());
        let bodies = match &self.source {
            ProduceSource::Generated { count, payload } => {
                u64::from(count.get()).saturating_mul(as_u64(payload.longest()))
            }
            ProduceSource::Explicit { messages } => {
                messages.iter().map(own).map(as_u64).fold(0, u64::saturating_add)
            }
        };
        let of_each = self.headers.bytes().saturating_add(self.props.properties.bytes());
        self.source.count().saturating_mul(as_u64(of_each)).saturating_add(bodies)
    }
}

fn as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Settlement of the messages that a consume takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// The messages are removed from the queue once the response is durably stored.
    #[default]
    Commit,
    /// The messages are in the response, and then returned to the queue by a backout.
    Rollback,
    /// The messages are removed at once, outside any transaction; a crash may lose them.
    None,
}

/// Mode of a consume: whether its messages leave the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AckMode {
    /// The messages are taken: removed from the queue, or returned to it after the response.
    Take(Ack),
    /// The messages are browsed, and stay on the queue. The request gets no idempotency record.
    Browse,
}

/// Treatment of a message that is too large for the response, if it is the first one that a consume
/// takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OversizedBodies {
    /// The request is refused, and the message stays on the queue.
    #[default]
    Refuse,
    /// The message's body is stored, and the response refers to the stored object.
    Store,
}

/// Selection of the messages to get. A broker without selectors accepts only an empty selection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "`ConsumeSelector` in openapi.yaml describes each member")]
pub struct Selector {
    pub correl_id_base64: Option<IdBytes>,
    pub msg_id_base64: Option<IdBytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<SelectorExpression>,
}

impl Selector {
    /// True if every message is selected. A request may send an empty selection to any broker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.correl_id_base64.is_none() && self.msg_id_base64.is_none() && self.expression.is_none()
    }
}

/// Treatment of a message whose backout count has reached its queue's threshold (IBM MQ, BOTHRESH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackoutRule {
    /// A consume moves the message to the queue's backout queue (BOQNAME).
    #[default]
    Requeue,
    /// A consume returns the message in its response, with a warning.
    Report,
}

/// Command to consume or browse messages of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumeCommand {
    /// Maximum number of messages to get. The response may have fewer: see
    /// [`Consumed::truncated`](crate::Consumed::truncated).
    pub max_messages: MaxMessages,
    /// Maximum time in seconds that the consume waits for the first message. It waits less if the
    /// request has less time left.
    pub wait_seconds: WaitSeconds,
    /// Mode that decides whether the messages leave the queue.
    pub mode: AckMode,
    /// Selection of the messages to get; an empty one selects every message.
    pub selector: Selector,
    /// True if the queue manager is asked to convert bodies to UTF-8 (IBM MQ).
    #[serde(default)]
    pub convert: bool,
    /// Backout rule of the target's profile. The request's JSON does not contain it; the function
    /// that executes the request sets it.
    #[serde(skip)]
    pub backout: BackoutRule,
    /// Warnings about members of the request that have no effect, for the response's `warnings`.
    pub warnings: Vec<String>,
}
