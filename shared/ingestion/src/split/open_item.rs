use super::{Piece, is_white, length};

/// The item that is being read: its bytes from earlier windows, or only its length once it is
/// beyond the limit.
#[derive(Debug)]
pub(super) struct OpenItem {
    limit: usize,
    index: u64,
    offset: u64,
    held: Vec<u8>,
    /// Bytes so far of an item beyond the limit, which are not held.
    skipped: Option<u64>,
}

impl OpenItem {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, index: 0, offset: 0, held: Vec::new(), skipped: None }
    }

    pub(super) const fn begin(&mut self, offset: u64) {
        self.offset = offset;
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.held.is_empty() && self.skipped.is_none()
    }

    /// How many items were ended.
    pub(super) const fn ended(&self) -> u64 {
        self.index
    }

    #[cfg(test)]
    pub(super) const fn capacity(&self) -> usize {
        self.held.capacity()
    }

    /// Keeps the end of a window that belongs to the item.
    pub(super) fn extend(&mut self, part: &[u8]) {
        if let Some(skipped) = &mut self.skipped {
            *skipped = skipped.saturating_add(length(part));
        } else if self.held.len().saturating_add(part.len()) > self.limit {
            self.skipped = Some(length(&self.held).saturating_add(length(part)));
            self.held.clear();
        } else {
            self.held.extend_from_slice(part);
        }
    }

    /// Passes the item on; `part` is its last part. White space at its end counts towards the
    /// limit, and is then cut off.
    pub(super) fn end(&mut self, part: &[u8], sink: &mut impl FnMut(Piece<'_>)) {
        let (index, offset) = (self.index, self.offset);
        if self.is_empty() && part.len() <= self.limit {
            sink(Piece::Item { index, offset, bytes: without_white_end(part) });
        } else {
            self.extend(part);
            match self.skipped.take() {
                Some(length) => sink(Piece::TooLarge { index, offset, length }),
                None => sink(Piece::Item { index, offset, bytes: without_white_end(&self.held) }),
            }
            self.held.clear();
        }
        self.index = self.index.saturating_add(1);
    }
}

fn without_white_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !is_white(*byte)).map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or(bytes)
}
