//! What must hold of any bytes, as panics where it does not. The targets hand it what libFuzzer
//! makes up.

pub mod item;
pub mod json;
pub mod request;
pub mod splitter;

/// Tells whether JSON calls a byte white space.
fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn without_white_start(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !is_white(*byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

fn without_white_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !is_white(*byte)).map_or(0, |last| last + 1);
    &bytes[..end]
}
