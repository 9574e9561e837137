//! Lines of JSON on the log.

use std::io::Write;

use serde::Serialize;

/// Writes `line` to `to` with one call.
pub(crate) fn write(line: &impl Serialize, mut to: impl Write) {
    // A line that cannot be written must not end the work that it is about.
    if let Ok(mut text) = serde_json::to_vec(line) {
        text.push(b'\n');
        let _ = to.write_all(&text);
    }
}
