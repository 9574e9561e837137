use super::apart::{Part, PartState, is_outside_brackets, parts};
use super::{Format, Piece, Sink, is_white, length};

/// Item that the splitter has begun to read, and whose end may be in a later part of the payload.
/// Its bytes so far are kept; of an item that exceeds the size limit only the first bytes and the
/// length.
#[derive(Debug)]
pub(super) struct OpenItem {
    format: Format,
    limit: usize,
    index: u64,
    offset: u64,
    held: Vec<u8>,
    /// Number of bytes so far, if the item exceeds the size limit; otherwise `None`.
    beyond: Option<u64>,
}

impl OpenItem {
    pub(super) const fn new(format: Format, limit: usize) -> Self {
        Self { format, limit, index: 0, offset: 0, held: Vec::new(), beyond: None }
    }

    pub(super) const fn begin(&mut self, offset: u64) {
        self.offset = offset;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.held.is_empty() && self.beyond.is_none()
    }

    /// Returns the number of pieces (items, or texts in place of items) that have ended so far.
    pub(super) const fn ended(&self) -> u64 {
        self.index
    }

    #[cfg(test)]
    pub(super) const fn capacity(&self) -> usize {
        self.held.capacity()
    }

    /// Returns the number of bytes by which the item may still grow; `None` if it exceeds the size
    /// limit already.
    pub(super) const fn room(&self) -> Option<usize> {
        if self.beyond.is_some() { None } else { Some(self.limit.saturating_sub(self.held.len())) }
    }

    /// Appends bytes to the item. Bytes beyond the size limit are counted but not kept.
    pub(super) fn extend(&mut self, part: &[u8]) {
        if let Some(beyond) = &mut self.beyond {
            *beyond = beyond.saturating_add(length(part));
            return;
        }
        let room = self.limit.saturating_sub(self.held.len());
        if part.len() > room {
            self.beyond = Some(length(&self.held).saturating_add(length(part)));
        }
        self.held.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// Searches for further items in the first bytes of an item that exceeds the size limit: the
    /// kept bytes, and `part` up to the limit. If there are any, passes all parts but the last to
    /// `sink`, and returns the last part's offset and bytes, since it may continue beyond the
    /// limit.
    pub(super) fn told_apart(&mut self, part: &[u8], sink: &mut impl Sink) -> Option<(u64, Vec<u8>)> {
        let mut text = std::mem::take(&mut self.held);
        let held = text.len();
        text.extend_from_slice(part);
        let parts = parts(&text, self.format);
        let Some((last, before)) = parts.split_last().filter(|(_, before)| !before.is_empty()) else {
            text.truncate(held);
            self.held = text;
            return None;
        };
        let offset = self.offset;
        self.pass(offset, &text, before, sink);
        Some(last.of(offset, &text))
    }

    /// Sets the beginning of the open item: a part that was separated from others.
    pub(super) fn hold(&mut self, offset: u64, bytes: Vec<u8>) {
        self.offset = offset;
        self.held = bytes;
    }

    /// Ends the item with its last bytes `part`, and passes it to `sink`. White space at its end
    /// counts towards the size limit, and is then cut off. In an array, an item that is not JSON
    /// may have ended too early; its last part is then returned, and continues.
    pub(super) fn end(&mut self, part: &[u8], sink: &mut impl Sink) -> Option<(u64, Vec<u8>)> {
        if self.is_empty() && part.len() <= self.limit {
            return self.item(without_white_end(part), sink);
        }
        self.extend(part);
        let mut held = std::mem::take(&mut self.held);
        let continues = match self.beyond.take() {
            Some(length) => {
                let (index, offset) = (self.index, self.offset);
                let _ = sink(Piece::TooLarge { index, offset, length, beginning: &held });
                self.index = self.index.saturating_add(1);
                None
            }
            None => self.item(without_white_end(&held), sink),
        };
        held.clear();
        self.held = held;
        continues
    }

    /// Handles the end of an array that is inside an open item, because a mistake in the item hid
    /// it. If the item is complete without the payload's last bracket, that bracket ends the array,
    /// and the item's parts are passed to `sink`. Returns false otherwise: the payload then ends
    /// too early.
    pub(super) fn end_with_array(mut self, sink: &mut impl Sink) -> bool {
        if self.beyond.is_some() {
            return false;
        }
        let held = std::mem::take(&mut self.held);
        let Some(text) = without_white_end(&held).strip_suffix(b"]").map(without_white_end) else {
            return false;
        };
        let parts = parts(text, self.format);
        let is_whole = parts.last().is_some_and(|last| {
            let text = text.get(last.place.clone()).unwrap_or_default();
            last.state != PartState::Unfinished && text.ends_with(b"}") && is_outside_brackets(text)
        });
        if is_whole {
            self.pass(self.offset, text, &parts, sink);
        }
        is_whole
    }

    /// Passes an item to `sink`, or its parts if it is not JSON. Returns the last part if that may
    /// continue.
    fn item(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Option<(u64, Vec<u8>)> {
        let offset = self.offset;
        if sink(Piece::Item { index: self.index, offset, bytes }).is_ok() {
            self.index = self.index.saturating_add(1);
            return None;
        }
        let parts = parts(bytes, self.format);
        match parts.split_last() {
            Some((last, before))
                if self.format == Format::Array
                    && last.state == PartState::Unfinished
                    && !before.is_empty() =>
            {
                self.pass(offset, bytes, before, sink);
                Some(last.of(offset, bytes))
            }
            _ => {
                self.pass(offset, bytes, &parts, sink);
                None
            }
        }
    }

    fn pass(&mut self, offset: u64, text: &[u8], parts: &[Part], sink: &mut impl Sink) {
        for part in parts {
            let index = self.index;
            let offset = part.offset(offset);
            let bytes = text.get(part.place.clone()).unwrap_or_default();
            // A sound part that is all of the text is the item that was refused.
            let is_new = part.state == PartState::Sound && bytes.len() < text.len();
            let is_taken = is_new && sink(Piece::Item { index, offset, bytes }).is_ok();
            if !is_taken {
                let _ = sink(Piece::Broken { index, offset, bytes });
            }
            self.index = self.index.saturating_add(1);
        }
    }
}

fn without_white_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !is_white(*byte)).map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or(bytes)
}
