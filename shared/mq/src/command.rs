//! What a caller may ask: validated commands, as they travel to the function that speaks to the
//! broker.

use serde::{Deserialize, Serialize};

use crate::base64_bytes::{Base64Bytes, IdBytes};
use crate::bounded::bounded;
use crate::content::Template;
pub use crate::explicit::ExplicitMessage;
use crate::names::Headers;

bounded!(
    /// How many messages a produce puts.
    BatchCount: u32, 1..=100_000, default 1
);
bounded!(
    /// The size of a random body, in bytes.
    MessageSize: u32, 0..=4_194_304, default 1024
);
bounded!(
    /// How many messages form one transaction.
    TxSize: u32, 1..=100_000, default 100
);
bounded!(
    /// The pace of a produce, in messages per second.
    RateLimit: u32, 1..=1_000_000, default 1
);
bounded!(
    /// A message's priority; 9 is the highest.
    Priority: u8, 0..=9, default 0
);
bounded!(
    /// How long a message lives, in milliseconds; 0 is for ever. AMQP carries at most 32 bits.
    ExpiryMs: u32, 0..=4_294_967_295, default 0
);
bounded!(
    /// How many messages a consume takes at most.
    MaxMessages: u32, 1..=10_000, default 1
);
bounded!(
    /// How long a consume waits for the first message, in seconds.
    WaitSeconds: u32, 0..=60, default 20
);

/// How the messages of a produce are paced and grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Batch {
    pub count: Option<BatchCount>,
    pub message_size_bytes: Option<MessageSize>,
    pub rate_limit_per_sec: Option<RateLimit>,
    #[serde(default)]
    pub transaction: Transaction,
}

/// Transactions of a produce. `atomic` asks to refuse the request if the broker cannot make each
/// of them all or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Transaction {
    #[serde(default)]
    pub enabled: bool,
    #[serde(default)]
    pub tx_size: TxSize,
    #[serde(default)]
    pub atomic: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Persistence {
    #[default]
    Persistent,
    Nonpersistent,
}

/// Where a message's correlation id comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CorrelIdMode {
    #[default]
    None,
    /// The message's own id.
    EchoMsgId,
    /// `fixedCorrelIdBase64`.
    Fixed,
}

/// The properties that every message of a produce gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MqProps {
    #[serde(default)]
    pub persistence: Persistence,
    #[serde(default)]
    pub priority: Priority,
    pub expiry_ms: Option<ExpiryMs>,
    #[serde(default)]
    pub correl_id_mode: CorrelIdMode,
    pub fixed_correl_id_base64: Option<IdBytes>,
}

/// The body of generated messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Payload {
    Random { size: MessageSize },
    Fixed { body: Base64Bytes },
    Template { template: Template },
}

/// What a produce puts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProduceSource {
    Generated { count: BatchCount, payload: Payload },
    Explicit { messages: Vec<ExplicitMessage> },
}

impl ProduceSource {
    /// How many messages there are.
    pub fn count(&self) -> u64 {
        match self {
            Self::Generated { count, .. } => u64::from(count.get()),
            Self::Explicit { messages } => u64::try_from(messages.len()).unwrap_or(u64::MAX),
        }
    }
}

/// Put messages on a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProduceCommand {
    pub source: ProduceSource,
    pub rate_limit_per_sec: Option<RateLimit>,
    pub transaction: Transaction,
    pub props: MqProps,
    pub headers: Headers,
    /// What in the request has no effect, for the answer's `warnings`.
    pub warnings: Vec<String>,
}

/// What becomes of messages that were got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// Removed, once they are durably stored.
    #[default]
    Commit,
    /// Returned to the caller, then backed out: they stay on the queue.
    Rollback,
    /// Removed at once, outside any transaction; a crash may lose them.
    None,
}

/// How messages leave the queue, or do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AckMode {
    Take(Ack),
    Browse,
}

/// Which messages to get. If the broker has no selectors, a non-empty one is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selector {
    pub correl_id_base64: Option<IdBytes>,
    pub msg_id_base64: Option<IdBytes>,
}

impl Selector {
    pub fn is_empty(&self) -> bool {
        self.correl_id_base64.is_none() && self.msg_id_base64.is_none()
    }
}

/// Get messages from a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumeCommand {
    pub max_messages: MaxMessages,
    pub wait_seconds: WaitSeconds,
    pub mode: AckMode,
    pub selector: Selector,
    /// What in the request has no effect, for the answer's `warnings`.
    pub warnings: Vec<String>,
}
