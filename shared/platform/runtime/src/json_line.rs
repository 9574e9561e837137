//! Writing of log lines as JSON.

use std::io::Write;

use serde::Serialize;

/// Serializes `line` as a line of JSON, and writes it to `to` in one call. Errors are ignored.
pub(crate) fn write(line: &impl Serialize, mut to: impl Write) {
    // A line that cannot be written must not end the work that it is about.
    if let Ok(mut text) = serde_json::to_vec(line) {
        text.push(b'\n');
        let _ = to.write_all(&text);
    }
}
