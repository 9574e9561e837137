//! Network addresses of brokers, and the list of addresses that a client tries in order.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Host and port of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Address {
    /// Name or literal IP address of the host, in lower case, without brackets; at most
    /// [`Address::MAX_HOST`] characters.
    pub host: String,
    /// Port number, from 1 to 65535.
    pub port: u16,
}

impl Address {
    /// Maximum length of a host name, in characters (RFC 1035, section 2.3.4).
    pub const MAX_HOST: usize = 253;

    /// Returns the addresses as one text, `host(port)` with commas in between, the form in which
    /// IBM MQ's client tries them in order.
    #[must_use]
    pub fn in_ibm_form(addresses: &[Self]) -> String {
        addresses.iter().map(|Self { host, port }| format!("{host}({port})")).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// Parses `host:port`, `[ipv6]:port` or IBM's `host(port)`.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || "must be host:port or host(port)".to_owned();
        let (host, port) = match text.strip_suffix(')') {
            Some(open) => open.split_once('('),
            None => text.rsplit_once(':'),
        }
        .ok_or_else(malformed)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || host.len() > Self::MAX_HOST || !host.chars().all(allowed) {
            return Err(malformed());
        }
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(malformed)?;
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }
}

/// Addresses of a broker, tried in this order: 1 to 16, without duplicates. The bound limits the
/// time and the connections that a request spends on addresses that do not answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConnName(Vec<Address>);

impl ConnName {
    /// Maximum number of addresses in one connection name.
    pub const MAX_ADDRESSES: usize = 16;
    /// Maximum length in bytes of the text of 16 addresses, each as `host(port)`, with commas.
    pub const MAX_BYTES: usize = Self::MAX_ADDRESSES * (Address::MAX_HOST + "(65535),".len()) - 1;

    /// Returns the addresses in the order in which they are tried; at least one.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.0
    }
}

impl TryFrom<String> for ConnName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() > Self::MAX_BYTES {
            return Err(format!("must be at most {} bytes long, not {}", Self::MAX_BYTES, text.len()));
        }
        let mut addresses = Vec::new();
        for address in text.split(',') {
            let address: Address = address.trim().parse()?;
            if addresses.contains(&address) {
                return Err(format!("names {address} more than once"));
            }
            if addresses.len() == Self::MAX_ADDRESSES {
                return Err(format!("must name at most {} addresses", Self::MAX_ADDRESSES));
            }
            addresses.push(address);
        }
        Ok(Self(addresses))
    }
}

impl From<ConnName> for String {
    fn from(name: ConnName) -> Self {
        name.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}
