use memchr::memchr;

use super::open_item::OpenItem;
use super::{PayloadError, PayloadFault, Sink, is_white, length};

/// Splitter of an NDJSON payload, which is framed by line feeds. Other line ends are only looked
/// for in a line that is not JSON.
#[derive(Debug)]
pub(super) struct LineSplitter {
    open: OpenItem,
}

impl LineSplitter {
    pub(super) const fn new(open: OpenItem) -> Self {
        Self { open }
    }

    pub(super) fn feed(&mut self, start: u64, window: &[u8], sink: &mut impl Sink) {
        let mut at = start;
        let mut rest = window;
        while let Some(feed) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(feed);
            if let Some(part) = self.part(at, line) {
                let rest = self.fill(part, sink);
                // The line is complete, so no part of it continues.
                let _ = self.open.end(rest, sink);
            }
            rest = after.get(1..).unwrap_or_default();
            at = start.saturating_add(length(window)).saturating_sub(length(rest));
        }
        if let Some(part) = self.part(at, rest) {
            let rest = self.fill(part, sink);
            self.open.extend(rest);
        }
    }

    /// Passes the items of a line that exceeds the size limit to `sink`, as long as they can be
    /// separated, and keeps the last one. Returns the bytes of `part` that are left.
    fn fill<'w>(&mut self, mut part: &'w [u8], sink: &mut impl Sink) -> &'w [u8] {
        while let Some((beginning, rest)) = self.open.room().and_then(|room| part.split_at_checked(room))
            && !rest.is_empty()
        {
            let Some((offset, last)) = self.open.told_apart(beginning, sink) else { break };
            self.open.hold(offset, last);
            part = rest;
        }
        part
    }

    pub(super) fn finish(mut self, at: u64, sink: &mut impl Sink) -> Result<(), PayloadError> {
        if !self.open.is_empty() {
            let _ = self.open.end(&[], sink);
        }
        if self.open.ended() == 0 {
            return Err(PayloadError { fault: PayloadFault::Empty, offset: at });
        }
        Ok(())
    }

    /// Returns the part of `line`, at the offset `at` of the payload, that belongs to the open
    /// item. If no item is open, begins one at the first byte that is not blank. `None` if the line
    /// is blank so far.
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
