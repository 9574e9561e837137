use super::open_item::OpenItem;
use super::value::ValueScan;
use super::{PayloadError, PayloadFault, Sink, is_white, length};

/// Splitter of a payload that is one JSON array.
#[derive(Debug)]
pub(super) struct ArraySplitter {
    open: OpenItem,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Start,
    /// After the opening bracket, where an item or the end of the array may follow.
    First,
    Item(ValueScan),
    /// After an item, where a comma or the end of the array may follow.
    Between,
    /// After a comma, where an item must follow.
    Next,
    End,
}

impl ArraySplitter {
    pub(super) const fn new(open: OpenItem) -> Self {
        Self { open, state: State::Start }
    }

    pub(super) fn feed(
        &mut self,
        start: u64,
        window: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), PayloadError> {
        let mut rest = window;
        while !rest.is_empty() {
            if let State::Item(mut value) = self.state {
                let end = value.end_in(rest);
                if let Some(after) = self.tell_apart(end, rest, sink)? {
                    rest = after;
                    continue;
                }
                let Some(end) = end else {
                    self.state = State::Item(value);
                    self.open.extend(rest);
                    return Ok(());
                };
                let (part, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
                let continues = self.open.end(part, sink);
                self.state = State::Between;
                rest = after;
                if let Some((offset, beginning)) = continues {
                    self.state = State::Next;
                    self.feed(offset, &beginning, sink)?;
                    continue;
                }
            }
            let Some(white) = rest.iter().position(|byte| !is_white(*byte)) else { return Ok(()) };
            rest = rest.get(white..).unwrap_or_default();
            let Some(byte) = rest.first() else { return Ok(()) };
            let at = start.saturating_add(length(window)).saturating_sub(length(rest));
            rest = self.step(at, *byte, rest)?;
        }
        Ok(())
    }

    /// Searches for further items in an open item that `rest`, the next bytes of the payload, makes
    /// larger than the size limit. `end` is the number of bytes in `rest` up to the item's end;
    /// `None` if it ends later. If there are further items, consumes the bytes within the limit and
    /// returns those after them; otherwise returns `None`.
    fn tell_apart<'w>(
        &mut self,
        end: Option<usize>,
        rest: &'w [u8],
        sink: &mut impl Sink,
    ) -> Result<Option<&'w [u8]>, PayloadError> {
        let room = self.open.room().filter(|room| end.unwrap_or(rest.len()) > *room);
        let Some((beginning, after)) = room.and_then(|room| rest.split_at_checked(room)) else {
            return Ok(None);
        };
        let Some((offset, last)) = self.open.told_apart(beginning, sink) else { return Ok(None) };
        self.state = State::Next;
        self.feed(offset, &last, sink)?;
        Ok(Some(after))
    }

    /// Returns the bytes of memory that the open item occupies.
    #[cfg(test)]
    pub(super) const fn held(&self) -> usize {
        self.open.capacity()
    }

    pub(super) fn finish(self, at: u64, sink: &mut impl Sink) -> Result<(), PayloadError> {
        let fault = match self.state {
            State::End => return Ok(()),
            State::Start => PayloadFault::Empty,
            State::Item(_) if self.open.end_with_array(sink) => return Ok(()),
            State::First | State::Item(_) | State::Between | State::Next => PayloadFault::Truncated,
        };
        Err(PayloadError { fault, offset: at })
    }

    /// Handles a byte outside the items: the first of `rest`, at the offset `at` of the payload.
    /// Returns the bytes with which the scan continues.
    fn step<'w>(&mut self, at: u64, byte: u8, rest: &'w [u8]) -> Result<&'w [u8], PayloadError> {
        let fault = |fault| Err(PayloadError { fault, offset: at });
        self.state = match (self.state, byte) {
            (State::Start, b'[') => State::First,
            (State::Start, _) => return fault(PayloadFault::NotAnArray),
            (State::First | State::Between, b']') => State::End,
            (State::Next, b']') => return fault(PayloadFault::TrailingComma),
            (State::Between, b',') => State::Next,
            (State::First | State::Next, b',') => return fault(PayloadFault::MissingItem),
            (State::Between, _) | (State::First | State::Next, b'}') => {
                return fault(PayloadFault::Unexpected);
            }
            (State::First | State::Next, _) => {
                self.open.begin(at);
                self.state = State::Item(ValueScan::beginning_with(byte));
                return Ok(rest);
            }
            (State::End, _) => return fault(PayloadFault::TrailingContent),
            // `feed` ends items itself.
            (State::Item(value), _) => State::Item(value),
        };
        Ok(rest.get(1..).unwrap_or_default())
    }
}
