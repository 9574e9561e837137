//! Separates the items of a text that is not JSON as a whole: an item with a stray quotation mark
//! and its neighbours, objects of one line, lines that end with a carriage return.
//!
//! The text is cut into parts, each of which should be an item. A part begins where an object can
//! only be an item: behind another object or a comma, or first on its line, and outside brackets.
//! In JSON, an object behind a comma or another object is always in an array. A part is sound if it
//! is JSON and another part, or the end, follows it. Otherwise the end of its item is unknown: the
//! part is broken, up to where the next one begins.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::{Format, is_white};

/// Maximum number of times that the bytes of a text are read in total, on average. Without this
/// limit, each of many broken parts before one distant mistake would be read up to that mistake.
const READINGS: usize = 8;

/// Part of a text that is not JSON as a whole: its place in the text, and whether it is an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) place: Range<usize>,
    pub(super) state: PartState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartState {
    /// The part is JSON, as far as can be said without a check of its UTF-8. Or it was not read,
    /// because the limit on reading was reached.
    Sound,
    /// The part is not JSON.
    Broken,
    /// The part is JSON so far, and the text ends within it.
    Unfinished,
}

impl Part {
    /// Returns the part's offset in the payload, for a text that begins at `offset`.
    pub(super) fn offset(&self, offset: u64) -> u64 {
        offset.saturating_add(u64::try_from(self.place.start).unwrap_or(u64::MAX))
    }

    /// Returns the part's offset in the payload, and all of the text from the part on.
    pub(super) fn of(&self, offset: u64, text: &[u8]) -> (u64, Vec<u8>) {
        (self.offset(offset), text.get(self.place.start..).unwrap_or_default().to_vec())
    }
}

/// Splits a text that is not JSON into its parts, in order. There is at least one, and no part is
/// empty unless the text is.
pub(super) fn parts(text: &[u8], format: Format) -> Vec<Part> {
    let Some(mut start) = text.iter().position(|byte| !is_separator(*byte)) else {
        return vec![Part { place: 0..text.len(), state: PartState::Broken }];
    };
    let mut parts = Vec::new();
    let mut unread = text.len().saturating_mul(READINGS);
    while start < text.len() {
        let rest = text.get(start..).unwrap_or_default();
        let (next, state) = match read(rest, unread) {
            Read::Not => (None, PartState::Sound),
            Read::Complete(end) => {
                unread = unread.saturating_sub(end);
                match behind(rest, end, format) {
                    Behind::Item(next) => (Some((next, end)), PartState::Sound),
                    Behind::End => (Some((rest.len(), end)), PartState::Sound),
                    Behind::Other => (None, PartState::Broken),
                }
            }
            Read::Unfinished => {
                unread = unread.saturating_sub(rest.len());
                (Some((rest.len(), without_end(rest, rest.len()))), PartState::Unfinished)
            }
            Read::Broken(seen) => {
                unread = unread.saturating_sub(seen);
                (None, PartState::Broken)
            }
        };
        let (next, end) = next.unwrap_or_else(|| {
            let next = next_item(rest, format).unwrap_or(rest.len());
            (next, without_end(rest, next))
        });
        parts.push(Part { place: start..start.saturating_add(end), state });
        start = start.saturating_add(next);
    }
    parts
}

/// True if the square brackets of a text balance, including those within strings.
pub(super) fn is_outside_brackets(text: &[u8]) -> bool {
    text.iter().fold(0, |depth, byte| depth_behind(depth, *byte)) == 0
}

enum Read {
    Not,
    /// The first value is complete and has this number of bytes.
    Complete(usize),
    Unfinished,
    /// The text is not JSON. The value is the number of bytes that were read until this was
    /// certain.
    Broken(usize),
}

/// Reads the first JSON value of a text, and returns where it ends or fails. `unread` is the number
/// of bytes that may still be read; if it is 0, nothing is read ([`Read::Not`]).
fn read(text: &[u8], unread: usize) -> Read {
    if unread == 0 {
        return Read::Not;
    }
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => Read::Complete(values.byte_offset()),
        Some(Err(error)) if !error.is_eof() => Read::Broken(error_place(text, &error)),
        Some(Err(_)) | None => Read::Unfinished,
    }
}

/// Returns the number of bytes of a text up to the one at which the JSON parser failed, inclusive.
pub(crate) fn error_place(text: &[u8], error: &serde_json::Error) -> usize {
    let lines = error.line().saturating_sub(1);
    let line = memchr::memchr_iter(b'\n', text).take(lines).last().map_or(0, |feed| feed + 1);
    line.saturating_add(error.column())
}

enum Behind {
    /// An item begins at this index.
    Item(usize),
    End,
    Other,
}

/// Returns what follows a value that ends at `end`, after white space and commas.
fn behind(text: &[u8], end: usize, format: Format) -> Behind {
    let after = text.get(end..).unwrap_or_default();
    let Some(gap) = after.iter().position(|byte| !is_separator(*byte)) else { return Behind::End };
    let between = after.get(..gap).unwrap_or_default();
    let is_item = after.get(gap) == Some(&b'{') || (format == Format::Lines && between.contains(&b'\r'));
    if is_item { Behind::Item(end.saturating_add(gap)) } else { Behind::Other }
}

/// Returns the next index, after the first byte, at which an item must begin; `None` if there is
/// none.
fn next_item(text: &[u8], format: Format) -> Option<usize> {
    let mut depth = 0;
    let (mut before, mut is_first_on_line) = (None, false);
    for (at, byte) in text.iter().copied().enumerate() {
        if is_white(byte) {
            is_first_on_line |= matches!(byte, b'\r' | b'\n');
            continue;
        }
        let is_behind_an_item = matches!(before, Some(b'}' | b','));
        let begins = match byte {
            b'{' if names_a_member(text, at) => {
                is_behind_an_item || (is_first_on_line && !matches!(before, None | Some(b':' | b'[')))
            }
            b',' => false,
            // The text behind a line that ends with a carriage return.
            _ => format == Format::Lines && is_first_on_line && is_behind_an_item,
        };
        if depth == 0 && begins {
            return Some(at);
        }
        depth = depth_behind(depth, byte);
        (before, is_first_on_line) = (Some(byte), false);
    }
    None
}

/// True if the object that begins at index `at` has a member.
fn names_a_member(text: &[u8], at: usize) -> bool {
    let inner = text.get(at.saturating_add(1)..).unwrap_or_default();
    inner.iter().find(|byte| !is_white(**byte)) == Some(&b'"')
}

const fn depth_behind(depth: u64, byte: u8) -> u64 {
    match byte {
        b'[' => depth.saturating_add(1),
        b']' => depth.saturating_sub(1),
        _ => depth,
    }
}

/// Returns the end of the text before `end` without trailing white space and commas.
fn without_end(text: &[u8], end: usize) -> usize {
    let text = text.get(..end).unwrap_or(text);
    text.iter().rposition(|byte| !is_separator(*byte)).map_or(0, |last| last + 1)
}

const fn is_separator(byte: u8) -> bool {
    is_white(byte) || byte == b','
}
