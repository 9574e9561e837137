//! Reader of client channel definition tables (CCDT) in JSON files.

use std::fs::File;
use std::io::{BufReader, Read as _};

use libmqm_sys as mq;
use mqm_standin::protocol::{Chars, ConnectionName, Reason};
use serde::Deserialize;

use crate::connection::Route;

/// Maximum size of a channel table in bytes. A larger table is refused.
const MAX_LENGTH: u64 = 1024 * 1024;

#[derive(Debug, Deserialize)]
struct Table {
    channel: Vec<Channel>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Channel {
    name: String,
    client_connection: Option<ClientConnection>,
    #[serde(default)]
    transmission_security: TransmissionSecurity,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConnection {
    connection: Vec<Connection>,
    #[serde(default)]
    queue_manager: String,
}

#[derive(Debug, Deserialize)]
struct Connection {
    host: String,
    #[serde(default = "port")]
    port: u16,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TransmissionSecurity {
    #[serde(default)]
    cipher_specification: String,
}

fn port() -> u16 {
    1414
}

/// Finds the channels and addresses that a table (CCDT) has for a queue manager, or for a group of
/// queue managers if the name begins with `*`. They are returned in the order in which they are
/// tried: channels in alphabetical order, as if none had a weight.
pub(crate) fn find(url: &str, queue_manager: &Chars) -> Result<Route, Reason> {
    let table = read(url).ok_or(Reason(mq::MQRC_CCDT_URL_ERROR))?;
    let name = queue_manager.to_string();
    let wanted = name.strip_prefix('*').unwrap_or(&name);
    let mut channels: Vec<_> = table
        .channel
        .into_iter()
        .filter_map(|channel| {
            let connection = channel.client_connection?;
            let fits = connection.queue_manager.trim() == wanted;
            fits.then_some((channel.name, connection.connection, channel.transmission_security))
        })
        .collect();
    if channels.is_empty() {
        return Err(Reason(mq::MQRC_Q_MGR_NAME_ERROR));
    }
    if channels.iter().any(|(_, _, security)| !security.cipher_specification.trim().is_empty()) {
        return Err(Reason(mq::MQRC_SSL_INITIALIZATION_ERROR));
    }
    channels.sort_by(|one, other| one.0.cmp(&other.0));
    let address = |connection: &Connection| format!("{}({})", connection.host, connection.port);
    let route = channels.iter().flat_map(|(name, connections, _)| {
        let addresses: Vec<_> = connections.iter().map(address).collect();
        ConnectionName::route(&Chars::from(name.as_str()), &addresses.join(","))
    });
    Ok(route.collect())
}

/// Reads a channel table from a path or a `file:` URL; other URLs are not supported.
fn read(url: &str) -> Option<Table> {
    let url = url.trim();
    let path = url.strip_prefix("file://").unwrap_or(url);
    // What has no length, such as a device, has an end here too.
    let file = File::open(path).ok()?;
    serde_json::from_reader(BufReader::new(file.take(MAX_LENGTH))).ok()
}
