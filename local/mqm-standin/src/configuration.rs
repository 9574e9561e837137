//! The configuration file of a queue manager.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::definition::{Definition, Kind};
use crate::protocol::{Attribute, Chars, ConnectionName};

#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    #[error("could not read `{path}`")]
    Read { path: String, source: std::io::Error },
    #[error("`{path}` is not a configuration")]
    Parse { path: String, source: Box<toml::de::Error> },
    #[error("`{0}` is no connection name; write host(port)")]
    Listener(String),
    #[error("queue `{queue}`: {fault}")]
    Queue { queue: String, fault: String },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    pub name: String,
    /// Connection names at which clients reach this queue manager.
    pub listeners: Vec<String>,
    /// MAXUMSGS: messages put or got within one unit of work.
    #[serde(default = "uncommitted")]
    pub max_uncommitted: usize,
    #[serde(default = "message_length")]
    pub max_message_length: i32,
    #[serde(default = "ccsid")]
    pub ccsid: i32,
    #[serde(default)]
    pub users: Vec<User>,
    #[serde(default)]
    pub channels: Vec<Channel>,
    #[serde(default)]
    pub authorities: Vec<Authority>,
    #[serde(default)]
    pub queues: Vec<Queue>,
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
    /// The users that may connect through it.
    #[serde(default)]
    pub users: Vec<String>,
    /// The user of clients that give none; without it they are refused.
    pub default_user: Option<String>,
    /// MAXINST: connections at a time.
    pub max_instances: Option<usize>,
    #[serde(default = "message_length")]
    pub max_message_length: i32,
}

/// Rights of users on queues, which are named or have a prefix before `**`.
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
    /// Pass or set the context.
    Context,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Queue {
    pub name: String,
    #[serde(default)]
    pub kind: Kind,
    /// Attributes by the names of MQSC, such as MAXDEPTH.
    #[serde(flatten)]
    pub attributes: BTreeMap<String, toml::Value>,
}

fn uncommitted() -> usize {
    10_000
}

fn message_length() -> i32 {
    4 * 1024 * 1024
}

fn ccsid() -> i32 {
    1208
}

impl Configuration {
    pub fn read(path: &Path) -> Result<Self, ConfigurationError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigurationError::Read { path: name.clone(), source })?;
        toml::from_str(&text)
            .map_err(|source| ConfigurationError::Parse { path: name, source: Box::new(source) })
    }

    pub fn listeners(&self) -> Result<Vec<ConnectionName>, ConfigurationError> {
        let parse = |text: &String| {
            ConnectionName::parse(text).ok_or_else(|| ConfigurationError::Listener(text.clone()))
        };
        self.listeners.iter().map(parse).collect()
    }

    pub fn definitions(&self) -> Result<Vec<Definition>, ConfigurationError> {
        self.queues.iter().map(Queue::definition).collect()
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

impl Queue {
    fn definition(&self) -> Result<Definition, ConfigurationError> {
        let fault = |fault: String| ConfigurationError::Queue { queue: self.name.clone(), fault };
        let mut definition = Definition::new(Chars::from(self.name.as_str()), self.kind);
        for (keyword, value) in &self.attributes {
            let selector =
                Definition::selector(keyword).ok_or_else(|| fault(format!("no attribute {keyword}")))?;
            let attribute = match value {
                toml::Value::Integer(number) => i32::try_from(*number).ok().map(Attribute::Number),
                toml::Value::Boolean(on) => Some(Attribute::Number(i32::from(*on))),
                toml::Value::String(text) => Some(Attribute::Text(text.as_bytes().to_vec())),
                _ => None,
            };
            let set = attribute.and_then(|attribute| definition.set(selector, &attribute));
            set.ok_or_else(|| fault(format!("{keyword} cannot be {value:?}")))?;
        }
        Ok(definition)
    }
}

#[cfg(test)]
mod tests {
    use super::{Configuration, Right};
    use crate::protocol::Chars;

    #[test]
    fn the_configuration_in_the_tree_is_one() {
        let configuration: Configuration = toml::from_str(include_str!("../qm1.toml")).unwrap();
        configuration.listeners().unwrap();
        let queues = configuration.definitions().unwrap();
        assert!(queues.iter().any(|queue| queue.name == Chars::from("DEV.QUEUE.1")));
        assert!(configuration.may("app", &Chars::from("DEV.QUEUE.1"), Right::Put));
        assert!(!configuration.may("app", &Chars::from("SYSTEM.ADMIN.COMMAND.QUEUE"), Right::Put));
    }

    #[test]
    fn an_unknown_attribute_is_refused() {
        let text = "name = 'Q'\nlisteners = []\n[[queues]]\nname = 'A'\nMAXDEPHT = 3";
        let configuration: Configuration = toml::from_str(text).unwrap();
        assert!(configuration.definitions().unwrap_err().to_string().contains("MAXDEPHT"));
    }
}
