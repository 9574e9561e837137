//! Log of everything that the client under test logs during the faults. At the end the tests search
//! it for secrets.

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

/// Starts to collect log events of every level, except those of `lapin`, which the functions
/// disable too.
pub(crate) fn init() {
    let filter = EnvFilter::new("trace,lapin=off");
    tracing_subscriber::registry().with(filter).with(Envelope::to(|| LOG.clone())).init();
}

/// Adds text to the collected log: an error message, or the log of the process that was frozen.
pub(crate) fn note(text: &str) {
    writeln!(LOG.clone(), "{text}").unwrap();
}

pub(crate) fn text() -> String {
    LOG.text()
}

/// Returns the collected events of this `event_type` as JSON objects.
pub(crate) fn events(event_type: &str) -> Vec<Value> {
    let lines = text();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|event| event["event_type"] == event_type).collect()
}

/// Returns the secrets that occur in the collected log: literally, in base64, in percent-encoding
/// or as a list of bytes.
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
