//! Checks client channel definition tables (CCDT) of targets that require TLS.
//!
//! The table has the cipher specification of each channel, and IBM's client does not report which
//! one it used. A channel without one is not protected, whatever the target requires, and the
//! password would cross the network in the clear. So the table is checked before the client reads
//! it.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _};

use serde::Deserialize;

/// Maximum size in bytes of a client channel definition table. One channel takes about 1 KiB.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Reason why a client channel definition table does not guarantee TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelTableError {
    #[error(
        "ssl.enabled needs a table whose channels can be checked before they are used: ccdtUrl must name a file \
         (file://) with a table in JSON"
    )]
    NotAFile,
    #[error("the table of channels cannot be read")]
    Unreadable(#[source] io::Error),
    #[error("the table of channels has more than {LONGEST} bytes")]
    TooLong,
    #[error("the table of channels is not in JSON as IBM describes it, so ssl.enabled cannot be kept")]
    Malformed(#[source] Box<dyn Error + Send + Sync>),
    #[error(
        "the channel `{0}` of the table has no transmissionSecurity.cipherSpecification, although the target wants TLS"
    )]
    Unprotected(String),
}

#[derive(Deserialize)]
struct Table {
    channel: Vec<Channel>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Channel {
    name: String,
    client_connection: Option<ClientConnection>,
    transmission_security: Option<TransmissionSecurity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConnection {
    #[serde(default)]
    queue_manager: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TransmissionSecurity {
    #[serde(default)]
    cipher_specification: String,
}

/// Checks in the channel table at `url` that each channel that may lead to the queue manager has a
/// cipher specification.
///
/// # Errors
/// If a channel has none, or the table cannot be checked.
#[expect(clippy::disallowed_methods, reason = "no more than a byte beyond the longest table is read")]
pub(crate) fn promises_tls(url: &str, queue_manager: &str) -> Result<(), ChannelTableError> {
    let path = url.strip_prefix("file://").ok_or(ChannelTableError::NotAFile)?;
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text));
    if read.map_err(ChannelTableError::Unreadable)? > usize::try_from(LONGEST).unwrap_or(usize::MAX) {
        return Err(ChannelTableError::TooLong);
    }
    let table: Table = serde_json::from_slice(&text).map_err(|error| malformed(&error))?;
    // A queue manager group's name begins with `*`, which is not part of the name in the table.
    let wanted = queue_manager.strip_prefix('*').unwrap_or(queue_manager).trim();
    let unprotected =
        table.channel.into_iter().find(|channel| channel.serves(wanted) && !channel.is_protected());
    unprotected.map_or(Ok(()), |channel| Err(ChannelTableError::Unprotected(channel.name)))
}

/// Builds the error of a channel table that is not valid JSON, or lacks a member. The parser's own
/// text is left out, because it may quote the file.
fn malformed(error: &serde_json::Error) -> ChannelTableError {
    let (line, column) = (error.line(), error.column());
    ChannelTableError::Malformed(
        format!("{:?} error at line {line} column {column}", error.classify()).into(),
    )
}

impl Channel {
    /// True if the client may use this channel for the queue manager. A channel without a queue
    /// manager's name may be used for any name.
    fn serves(&self, queue_manager: &str) -> bool {
        let Some(client) = &self.client_connection else { return false };
        let name = client.queue_manager.trim();
        name.is_empty() || queue_manager.is_empty() || name == queue_manager
    }

    fn is_protected(&self) -> bool {
        self.transmission_security.as_ref().is_some_and(|tls| !tls.cipher_specification.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::{Value, json};

    use super::*;

    fn judged(table: &Value, queue_manager: &str) -> Result<(), String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(table.to_string().as_bytes()).unwrap();
        let url = format!("file://{}", file.path().display());
        promises_tls(&url, queue_manager).map_err(|error| error.to_string())
    }

    fn channel(name: &str, queue_manager: Option<&str>, cipher: Option<&str>) -> Value {
        json!({
            "name": name,
            "type": "clientConnection",
            "clientConnection": {"connection": [{"host": "mq.example", "port": 1414}], "queueManager": queue_manager.unwrap_or_default()},
            "transmissionSecurity": {"cipherSpecification": cipher.unwrap_or_default()},
        })
    }

    #[test]
    fn every_channel_that_may_be_chosen_has_to_be_protected() {
        let safe = channel("SAFE", Some("QM1"), Some("ANY_TLS12_OR_HIGHER"));
        let plain = channel("PLAIN", Some("QM2"), None);
        let table = json!({"channel": [safe, plain]});
        assert_eq!(judged(&table, "QM1"), Ok(()));
        assert_eq!(judged(&table, "*QM1"), Ok(()));
        for queue_manager in ["QM2", "*QM2", "", "*"] {
            assert!(judged(&table, queue_manager).unwrap_err().contains("PLAIN"), "{queue_manager}");
        }
        let any = json!({"channel": [table["channel"][0], channel("ANY", None, None)]});
        assert!(judged(&any, "QM1").unwrap_err().contains("ANY"));
        let mut bare = channel("BARE", Some("QM1"), None);
        bare.as_object_mut().unwrap().remove("transmissionSecurity");
        assert!(judged(&json!({"channel": [bare]}), "QM1").unwrap_err().contains("BARE"));
        // Channels between queue managers are not used by clients.
        let server = json!({"name": "TO.QM2", "type": "sender"});
        assert_eq!(judged(&json!({"channel": [server]}), "QM1"), Ok(()));
    }

    #[test]
    fn a_table_that_cannot_be_checked_promises_nothing() {
        assert!(matches!(
            promises_tls("https://ccdt.example/t.json", "QM1"),
            Err(ChannelTableError::NotAFile)
        ));
        assert!(matches!(
            promises_tls("file:///not/there.json", "QM1"),
            Err(ChannelTableError::Unreadable(_))
        ));
        assert!(judged(&json!(["AMQR"]), "QM1").unwrap_err().contains("JSON"));
        let long = json!({"channel": [], "padding": "x".repeat(4 * 1024 * 1024)});
        assert!(judged(&long, "QM1").unwrap_err().contains("bytes"));
    }
}
