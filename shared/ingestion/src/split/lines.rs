use memchr::memchr;

use super::open_item::OpenItem;
use super::{PayloadError, PayloadFault, Piece, is_white, length};

/// NDJSON, framed on line feeds alone.
#[derive(Debug)]
pub(super) struct LineSplitter {
    open: OpenItem,
}

impl LineSplitter {
    pub(super) const fn new(open: OpenItem) -> Self {
        Self { open }
    }

    pub(super) fn feed(&mut self, start: u64, window: &[u8], sink: &mut impl FnMut(Piece<'_>)) {
        let mut at = start;
        let mut rest = window;
        while let Some(feed) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(feed);
            if let Some(part) = self.part(at, line) {
                self.open.end(part, sink);
            }
            rest = after.get(1..).unwrap_or_default();
            at = start.saturating_add(length(window)).saturating_sub(length(rest));
        }
        if let Some(part) = self.part(at, rest) {
            self.open.extend(part);
        }
    }

    pub(super) fn finish(mut self, at: u64, sink: &mut impl FnMut(Piece<'_>)) -> Result<(), PayloadError> {
        if !self.open.is_empty() {
            self.open.end(&[], sink);
        }
        if self.open.ended() == 0 {
            return Err(PayloadError { fault: PayloadFault::Empty, offset: at });
        }
        Ok(())
    }

    /// The part of `line` that belongs to an item; empty if the line is blank so far.
    fn part<'w>(&mut self, at: u64, line: &'w [u8]) -> Option<&'w [u8]> {
        if !self.open.is_empty() {
            return Some(line);
        }
        let blank = line.iter().position(|byte| !is_white(*byte))?;
        let part = line.get(blank..)?;
        self.open.begin(at.saturating_add(length(line)).saturating_sub(length(part)));
        Some(part)
    }
}
