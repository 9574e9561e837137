use memchr::{memchr2, memchr3};

use super::is_white;

/// Finds where a JSON value ends, across windows.
///
/// An object ends where its braces balance outside strings, whatever its brackets do, and an array where its brackets balance: for JSON
/// that is the same, and of what is not JSON, more mistakes stay within their item.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Nested {
        open: u8,
        close: u8,
        depth: u64,
        text: Text,
    },
    Text(Text),
    /// A number, a literal, or what stands in its place: up to the next byte that could not belong to it.
    Bare,
}

/// Whether the scan stands within a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    Outside,
    Inside,
    /// Within a string, after a backslash.
    Escaped,
}

impl Value {
    /// The value that begins with `byte`, which is also the first byte that the scan wants to see.
    pub(super) const fn beginning_with(byte: u8) -> Self {
        match byte {
            b'{' => Self::Nested { open: b'{', close: b'}', depth: 0, text: Text::Outside },
            b'[' => Self::Nested { open: b'[', close: b']', depth: 0, text: Text::Outside },
            b'"' => Self::Text(Text::Outside),
            _ => Self::Bare,
        }
    }

    /// The number of bytes of `window` up to the value's end, or nothing if it goes on after the window.
    pub(super) fn end_in(&mut self, window: &[u8]) -> Option<usize> {
        match self {
            Self::Nested { open, close, depth, text } => nested_end(*open, *close, depth, text, window),
            Self::Text(text) => text_end(text, window),
            Self::Bare => window
                .iter()
                .position(|byte| is_white(*byte) || matches!(byte, b',' | b']' | b'[' | b'{' | b'}' | b'"')),
        }
    }
}

fn nested_end(open: u8, close: u8, depth: &mut u64, text: &mut Text, window: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        if *text != Text::Outside {
            at += text_end(text, window.get(at..)?)?;
        }
        at += memchr3(b'"', open, close, window.get(at..)?)? + 1;
        match *window.get(at - 1)? {
            b'"' => *text = Text::Inside,
            byte if byte == open => *depth = depth.saturating_add(1),
            _ => *depth = depth.saturating_sub(1),
        }
        if *depth == 0 {
            return Some(at);
        }
    }
}

/// The number of bytes up to and with the string's closing quotation mark.
fn text_end(text: &mut Text, window: &[u8]) -> Option<usize> {
    let mut at = 0;
    if *text != Text::Inside {
        // The opening quotation mark, or what a backslash of the window before escapes.
        window.first()?;
        *text = Text::Inside;
        at = 1;
    }
    loop {
        at += memchr2(b'"', b'\\', window.get(at..)?)? + 1;
        if window.get(at - 1) == Some(&b'"') {
            *text = Text::Outside;
            return Some(at);
        }
        if at == window.len() {
            *text = Text::Escaped;
            return None;
        }
        at += 1;
    }
}
