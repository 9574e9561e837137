//! Exchanges, to which messages are published instead of putting them on a queue by its name.

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::bounded::{not_control, text};
use crate::content::ContentSeed;
use crate::template::Template;

text!(
    /// Name of an exchange, within AMQP's limit for a short string (AMQP 0-9-1, section 4.2.5.3).
    /// The default exchange has no name; its messages name their queue.
    ExchangeName, 1..=255, not_control, "must not contain control characters"
);

/// A routing key, or a template of one: `{{seq}}`, `{{uuid}}`, `{{now}}`, `{{key}}` and
/// `{{random(n)}}` as in bodies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoutingKey(Template);

impl RoutingKey {
    /// Longest rendered key that AMQP carries, in bytes (a short string).
    pub const MAX_BYTES: usize = 255;

    /// Returns the routing key or its template, as it was sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.source()
    }

    pub(crate) fn render(&self, seed: &ContentSeed, index: u64) -> String {
        self.0.render(seed, index)
    }

    /// True if every key that this may render to matches. The stand-in for a placeholder is not a
    /// character of any pattern, once as short and once longer than the longest rendered text: so
    /// only a `*` covers it.
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

/// An exchange, and the routing key of messages that have none of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// Name of the exchange.
    pub name: ExchangeName,
    /// Routing key; empty if the request names none.
    #[serde(default)]
    pub routing_key: RoutingKey,
}
