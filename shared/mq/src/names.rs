//! Names that callers give: queues and message headers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::bounded::{not_control, text};

text!(
    /// The name of a queue, within AMQP's limit for a short string (AMQP 0-9-1, section 4.2.5.3).
    /// IBM MQ's own limit (48) is checked where the broker is known.
    QueueName, 1..=255, not_control, "must not contain control characters"
);
text!(
    /// A queue manager, or RabbitMQ's virtual host, which is a short string; empty means the
    /// default.
    QueueManagerName, 0..=255, not_control, "must not contain control characters"
);
text!(
    /// A channel of IBM MQ (MQ_CHANNEL_NAME_LENGTH).
    ChannelName, 1..=20, is_of_an_ibm_name, "must consist of letters, digits and ./_%"
);
text!(
    /// A cipher specification of IBM MQ (MQ_SSL_CIPHER_SPEC_LENGTH).
    CipherSpec, 1..=32, is_of_a_cipher_spec, "must consist of letters, digits and _"
);
text!(
    /// Where a client channel definition table is; in profiles only.
    CcdtUrl, 1..=2048, not_control, "must not contain control characters"
);
text!(
    /// A user of a broker. SASL PLAIN separates user and password by NUL (RFC 4616, section 2).
    UserName, 1..=255, not_control, "must not contain control characters"
);
text!(
    /// The name of a target profile. It is part of an item's key, which DynamoDB limits to 2,048
    /// bytes.
    ProfileName, 1..=255, not_control, "must not contain control characters"
);

text!(
    /// The body of a message as text. It shares the 4 MB of a request with everything else.
    BodyText, 0..=4_194_304, |_| true, "any text"
);

/// A character that names of IBM MQ's objects may hold (IBM MQ, "Rules for naming IBM MQ objects").
pub(crate) fn is_of_an_ibm_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "./_%".contains(character)
}

fn is_of_a_cipher_spec(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Properties that every message carries and a caller may not set.
const RESERVED: [&str; 2] = ["idempotencyKey", "sequence"];

/// The name of a message property: 1 to 255 bytes, and not one that the gateway sets itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct HeaderName(String);

impl HeaderName {
    /// The name as it was sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for HeaderName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.is_empty() || name.len() > 255 {
            return Err(format!("a header's name must be 1 to 255 bytes long, not {}", name.len()));
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(format!("the header `{name}` is set by the gateway on every message"));
        }
        Ok(Self(name))
    }
}

/// A message's own properties. Names and values together stay under [`Headers::MAX_BYTES`], because
/// a broker sends them in one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<HeaderName, String>")]
pub struct Headers(BTreeMap<HeaderName, String>);

impl Headers {
    /// Bytes of all names and values together.
    pub const MAX_BYTES: usize = 32 * 1024;
    /// How many headers a message may have.
    pub const MAX_COUNT: usize = 1000;

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These headers with `more` laid over them.
    #[must_use]
    pub fn overlaid_with(&self, more: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(more.0.clone());
        Self(all)
    }
}

impl TryFrom<BTreeMap<HeaderName, String>> for Headers {
    type Error = String;

    fn try_from(headers: BTreeMap<HeaderName, String>) -> Result<Self, String> {
        if headers.len() > Self::MAX_COUNT {
            return Err(format!("must be at most {} headers, not {}", Self::MAX_COUNT, headers.len()));
        }
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > Self::MAX_BYTES {
            return Err(format!("names and values must not exceed {} bytes, not {bytes}", Self::MAX_BYTES));
        }
        Ok(Self(headers))
    }
}

impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
