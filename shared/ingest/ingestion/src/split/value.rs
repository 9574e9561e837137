use memchr::{memchr2, memchr3};

use super::block::Block;
use super::is_white;

/// State of the scan for the end of a JSON value, which may extend over several parts of the
/// payload.
///
/// An object ends where its braces balance outside strings, whatever its brackets do, and an array
/// where its brackets balance. For valid JSON this makes no difference; in other text, it confines
/// more mistakes to their own item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueScan {
    Nested {
        open: u8,
        close: u8,
        depth: u64,
        text: StringPosition,
    },
    Text(StringPosition),
    /// Number, literal or other text, which ends at the next byte that cannot belong to it.
    Bare,
}

/// Position of the scan relative to a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringPosition {
    Outside,
    Inside,
    /// Within a string, right after a backslash.
    Escaped,
}

impl ValueScan {
    /// Starts the scan of a value whose first byte is `byte`. The scan reads that byte again.
    pub(crate) const fn beginning_with(byte: u8) -> Self {
        match byte {
            b'{' => Self::Nested { open: b'{', close: b'}', depth: 0, text: StringPosition::Outside },
            b'[' => Self::Nested { open: b'[', close: b']', depth: 0, text: StringPosition::Outside },
            b'"' => Self::Text(StringPosition::Outside),
            _ => Self::Bare,
        }
    }

    /// Returns the number of bytes of `window`, the next bytes of the payload, up to the value's
    /// end; `None` if the value continues after them.
    pub(crate) fn end_in(&mut self, window: &[u8]) -> Option<usize> {
        match self {
            Self::Nested { open, close, depth, text } => nested_end(*open, *close, depth, text, window),
            Self::Text(text) => text_end(text, window),
            Self::Bare => window
                .iter()
                .position(|byte| is_white(*byte) || matches!(byte, b',' | b']' | b'[' | b'{' | b'}' | b'"')),
        }
    }
}

fn nested_end(
    open: u8,
    close: u8,
    depth: &mut u64,
    text: &mut StringPosition,
    window: &[u8],
) -> Option<usize> {
    let mut at = 0;
    loop {
        if let Some(end) = end_in_blocks(open, close, depth, text, window, &mut at) {
            return Some(end);
        }
        if *text != StringPosition::Outside {
            at += text_end(text, window.get(at..)?)?;
        }
        at += memchr3(b'"', open, close, window.get(at..)?)? + 1;
        match *window.get(at - 1)? {
            b'"' => *text = StringPosition::Inside,
            byte if byte == open => *depth = depth.saturating_add(1),
            _ => *depth = depth.saturating_sub(1),
        }
        if *depth == 0 {
            return Some(at);
        }
    }
}

/// Continues the scan for the end of an array or object from `at`, in whole blocks of 64 bytes that
/// contain no backslash, and moves `at` behind them. Returns the value's end if it is in one of
/// these blocks. `open` and `close` are the value's brackets, `depth` is the number of open ones.
fn end_in_blocks(
    open: u8,
    close: u8,
    depth: &mut u64,
    text: &mut StringPosition,
    window: &[u8],
    at: &mut usize,
) -> Option<usize> {
    while *text != StringPosition::Escaped {
        let block = Block::of(window.get(*at..)?.first_chunk()?, open, close)?;
        let inside = block.inside_strings(*text == StringPosition::Inside);
        let mut brackets = block.brackets & !inside;
        while brackets != 0 {
            let place = usize::try_from(brackets.trailing_zeros()).unwrap_or_default();
            let is_open = window.get(*at + place) == Some(&open);
            *depth = if is_open { depth.saturating_add(1) } else { depth.saturating_sub(1) };
            if *depth == 0 {
                *text = StringPosition::Outside;
                return Some(*at + place + 1);
            }
            brackets &= brackets - 1;
        }
        *text = if inside >> 63 == 1 { StringPosition::Inside } else { StringPosition::Outside };
        *at += Block::LENGTH;
    }
    None
}

/// Returns the number of bytes of `window` up to the string's closing quotation mark, inclusive;
/// `None` if the string continues after the window.
fn text_end(text: &mut StringPosition, window: &[u8]) -> Option<usize> {
    let mut at = 0;
    if *text != StringPosition::Inside {
        // The opening quotation mark, or a byte that a backslash of the window before escapes.
        window.first()?;
        *text = StringPosition::Inside;
        at = 1;
    }
    loop {
        at += memchr2(b'"', b'\\', window.get(at..)?)? + 1;
        if window.get(at - 1) == Some(&b'"') {
            *text = StringPosition::Outside;
            return Some(at);
        }
        if at == window.len() {
            *text = StringPosition::Escaped;
            return None;
        }
        at += 1;
    }
}
