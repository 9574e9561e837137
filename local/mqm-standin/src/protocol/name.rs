//! Connection names: the addresses at which clients find a queue manager.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Chars;

const DEFAULT_PORT: u16 = 1414;

/// Address in a connection name, such as `host(1414)`. It stands for a Unix socket of that name in
/// the stand-in's directory. An address where nothing listens is a socket that does not exist.
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
    /// Parses an address, `host(port)` or `host` with the default port 1414; `None` if the text is
    /// neither.
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

    /// Parses a connection name with one or more addresses, and combines each with this channel, in
    /// their order.
    pub fn route(channel: &Chars, name: &str) -> Vec<(Chars, Self)> {
        name.split(',').filter_map(Self::parse).map(|address| (channel.clone(), address)).collect()
    }

    /// Returns the path of the address's Unix socket.
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
