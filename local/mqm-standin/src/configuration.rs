//! The configuration file of a queue manager.

use std::path::Path;

use serde::Deserialize;

use crate::definition::{Definition, message_length};
use crate::protocol::{Chars, ConnectionName};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    pub name: String,
    /// Connection names at which clients reach this queue manager.
    pub listeners: Vec<ConnectionName>,
    /// Maximum number of messages that are put or got within one unit of work (MAXUMSGS).
    #[serde(default = "uncommitted")]
    pub max_uncommitted: usize,
    #[serde(default = "message_length")]
    pub max_message_length: i32,
    #[serde(default)]
    pub users: Vec<User>,
    #[serde(default)]
    pub channels: Vec<Channel>,
    #[serde(default)]
    pub authorities: Vec<Authority>,
    #[serde(default)]
    pub queues: Vec<Definition>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub name: String,
    pub password: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    pub name: String,
    /// Users that may connect through the channel.
    #[serde(default)]
    pub users: Vec<String>,
    /// User of clients that connect without credentials; if it is not set, such clients are
    /// refused.
    pub default_user: Option<String>,
    /// Maximum number of connections at the same time (MAXINST); `None` for no limit.
    pub max_instances: Option<usize>,
}

/// Rights of users on queues. A queue name may end with `**`, which stands for any ending.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authority {
    pub users: Vec<String>,
    pub queues: Vec<String>,
    pub allow: Vec<Right>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    Browse,
    Get,
    Put,
    Inquire,
    /// Right to pass on or set the context of a message: its sender and its time.
    Context,
}

fn uncommitted() -> usize {
    10_000
}

impl Configuration {
    /// Reads the configuration file of a queue manager.
    ///
    /// # Errors
    /// If the file cannot be read or is no configuration. The text gives the reason.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("could not read `{}`: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("`{}` is not a configuration: {error}", path.display()))
    }

    pub fn channel(&self, name: &Chars) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.name.as_bytes() == name.as_bytes())
    }

    pub fn may(&self, user: &str, queue: &Chars, right: Right) -> bool {
        self.authorities.iter().any(|authority| {
            authority.allow.contains(&right)
                && authority.users.iter().any(|name| name == user)
                && authority.queues.iter().any(|pattern| covers(pattern, queue.as_bytes()))
        })
    }
}

fn covers(pattern: &str, name: &[u8]) -> bool {
    match pattern.strip_suffix("**") {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::Configuration;

    #[test]
    fn an_unknown_attribute_is_refused() {
        let text = "name = 'Q'\nlisteners = []\n[[queues]]\nname = 'A'\nMAXDEPHT = 3";
        assert!(toml::from_str::<Configuration>(text).unwrap_err().to_string().contains("MAXDEPHT"));
    }
}
