//! Exchanges of RabbitMQ, to which messages are published instead of being put on a queue by its
//! name.

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::bounded::{not_control, text};
use crate::content::ContentSeed;
use crate::template::Template;

text!(
    /// Name of an exchange, at most 255 bytes (short string of AMQP 0-9-1, section 4.2.5.3). The
    /// default exchange has an empty name, so a request names a queue instead.
    ExchangeName, 1..=255, not_control, "must not contain control characters"
);

/// Routing key, or template of one with `{{seq}}`, `{{uuid}}`, `{{now}}`, `{{key}}` and
/// `{{random(n)}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoutingKey(Template);

impl RoutingKey {
    /// Maximum length in bytes of a rendered routing key (a short string of AMQP 0-9-1).
    pub const MAX_BYTES: usize = 255;

    /// Returns the routing key or its template, as the request gives it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.source()
    }

    pub(crate) fn render(&self, seed: &ContentSeed, index: u64) -> String {
        self.0.render(seed, index)
    }

    /// True if `pattern` matches every key that this template can render to. To find out, a
    /// private-use character replaces each placeholder, once alone and once repeated 256 times. The
    /// pattern covers the template if it matches both texts, as only its wildcard `*` can.
    pub(crate) fn is_covered_by(&self, pattern: &WildMatch) -> bool {
        const STAND_IN: &str = "\u{f8ff}";
        let matches = |stand_in: &str| pattern.matches(&self.0.with_stand_ins(stand_in));
        matches(STAND_IN) && matches(&STAND_IN.repeat(Self::MAX_BYTES + 1))
    }
}

impl Default for RoutingKey {
    /// Returns the empty routing key.
    fn default() -> Self {
        Self(Template::default())
    }
}

impl TryFrom<String> for RoutingKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let max = Self::MAX_BYTES;
        if text.len() > max {
            return Err(format!("must be at most {max} bytes long, not {}", text.len()));
        }
        if !text.chars().all(not_control) {
            return Err("must not contain control characters".to_owned());
        }
        let template = Template::parse(&text).map_err(|error| error.to_string())?;
        match template.max_len() {
            length if length > max => Err(format!("renders to {length} bytes, and may to {max}")),
            _ => Ok(Self(template)),
        }
    }
}

impl From<RoutingKey> for String {
    fn from(key: RoutingKey) -> Self {
        key.0.into()
    }
}

/// Exchange, with the routing key for messages that have no routing key of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// Name of the exchange.
    pub name: ExchangeName,
    /// Routing key for messages without their own; empty if the request names none.
    #[serde(default)]
    pub routing_key: RoutingKey,
}
