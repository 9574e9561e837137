//! Connection names: the addresses at which clients find a queue manager.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Chars;

const DEFAULT_PORT: u16 = 1414;

/// An address of a connection name, `host(port)`. It stands for a unix socket of that name in the
/// stand-in's directory, so that an address where nothing listens is a file that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ConnectionName(String);

impl TryFrom<String> for ConnectionName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is no connection name; write host(port)"))
    }
}

impl ConnectionName {
    /// Reads `host(port)`, or `host` with MQ's port; `None` if the text is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (host, port) = match text.split_once('(') {
            Some((host, rest)) => (host.trim(), rest.strip_suffix(')')?.trim().parse().ok()?),
            None => (text, DEFAULT_PORT),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        let fits = !host.is_empty() && host.len() <= 64 && host.bytes().all(plain) && !host.starts_with('.');
        fits.then(|| Self(format!("{}({port})", host.to_ascii_lowercase())))
    }

    /// A channel to each address of a whole connection name, in their order.
    pub fn route(channel: &Chars, name: &str) -> Vec<(Chars, Self)> {
        name.split(',').filter_map(Self::parse).map(|address| (channel.clone(), address)).collect()
    }

    /// The path of the socket.
    pub fn socket(&self, directory: &Path) -> PathBuf {
        directory.join(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Chars, ConnectionName};

    #[test]
    fn an_address_without_a_port_has_mqs_own() {
        assert_eq!(ConnectionName::parse("Localhost"), ConnectionName::parse(" localhost(1414) "));
    }

    #[test]
    fn what_leaves_the_directory_is_no_address() {
        for text in ["", "../x(1)", "a/b", "host(x)", "host(1", "host(99999)", "."] {
            assert_eq!(ConnectionName::parse(text), None, "{text}");
        }
        assert_eq!(ConnectionName::route(&Chars::default(), "one(1),two(2)").len(), 2);
    }
}
