//! Oracles of the fuzz targets: functions that panic if a property does not hold for an input. The
//! fuzzer calls them with inputs that libFuzzer generates, and a test with the seeds of each
//! target.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "an oracle panics where something does not hold"
)]

mod frames;
mod item;
mod json;
mod request;
mod splitter;

/// Function that checks the properties of one fuzz target for an input, and panics if one does not
/// hold.
pub type Oracle = fn(&[u8]);

/// Fuzz targets by name, with their oracles. Each also has a binary in `fuzz/Cargo.toml`, and a
/// folder of seeds.
pub const TARGETS: [(&str, Oracle); 5] = [
    ("frames", frames::check),
    ("item", item::check),
    ("json", json::check),
    ("request", request::check),
    ("splitter", splitter::check),
];

/// Checks an input with the oracle of the fuzz target that has this name.
///
/// # Panics
/// If a property does not hold for the input, or no target has this name.
pub fn check(target: &str, input: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, oracle) = found.expect("a target of the table");
    oracle(input);
}

/// Returns whether JSON allows a byte as white space.
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

/// Divides bytes into consecutive blocks (windows), whose sizes repeat in turn. A block may be
/// empty, but if all sizes are 0, each has one byte.
fn windows<'b>(bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    if sizes.iter().all(|size| *size == 0) {
        return bytes.chunks(1).collect();
    }
    let (mut windows, mut rest) = (Vec::new(), bytes);
    for size in sizes.iter().cycle() {
        let (window, after) = rest.split_at((*size).min(rest.len()));
        windows.push(window);
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    windows
}
