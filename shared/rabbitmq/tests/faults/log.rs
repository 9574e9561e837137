//! Everything that is logged while things break, to be searched for secrets.

use std::io::{self, Write};
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use telemetry::Envelope;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps every event at every level. The client library is silent, as it is in the functions.
pub(crate) fn init() {
    let filter = EnvFilter::new("trace,lapin=off");
    tracing_subscriber::registry().with(filter).with(Envelope::to(|| Writer)).init();
}

/// Adds what is not logged here but may be elsewhere: the words of errors, other processes' logs.
pub(crate) fn note(text: &str) {
    LOG.lock().unwrap().extend_from_slice(format!("{text}\n").as_bytes());
}

pub(crate) fn text() -> String {
    String::from_utf8(LOG.lock().unwrap().clone()).expect("a log of text")
}

/// Which of `secrets` can be read in the log, as they are or in a form that they travel in.
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

/// As a URL carries it.
fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
