//! Collects everything that is logged during the faults, to search it for secrets.

use std::io::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runtime::Envelope;
use serde_json::Value;
use test_support::log::Sink;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

static LOG: LazyLock<Sink> = LazyLock::new(Sink::default);

/// Records log events of every level, except the client library's, which the functions disable too.
pub(crate) fn init() {
    let filter = EnvFilter::new("trace,lapin=off");
    tracing_subscriber::registry().with(filter).with(Envelope::to(|| LOG.clone())).init();
}

/// Adds text to the log that was logged elsewhere: error messages, and logs of other processes.
pub(crate) fn note(text: &str) {
    writeln!(LOG.clone(), "{text}").unwrap();
}

pub(crate) fn text() -> String {
    LOG.text()
}

/// Returns the logged events of this type, with their fields.
pub(crate) fn events(event_type: &str) -> Vec<Value> {
    let lines = text();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|event| event["event_type"] == event_type).collect()
}

/// Returns those of `secrets` that occur in the log, literally or in an encoded form.
pub(crate) fn leaks<'a>(secrets: &[&'a str]) -> Vec<&'a str> {
    let log = text();
    let is_there = |secret: &&str| {
        let bytes: Vec<_> = secret.bytes().collect();
        let percent: String = bytes.iter().map(|byte| encoded(*byte)).collect();
        [(*secret).to_owned(), STANDARD.encode(&bytes), format!("{bytes:?}"), percent]
            .iter()
            .any(|form| log.contains(form))
    };
    secrets.iter().copied().filter(|secret| is_there(secret)).collect()
}

/// Returns a byte in percent-encoding.
fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
