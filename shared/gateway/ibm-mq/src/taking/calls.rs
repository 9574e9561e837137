//! MQGET calls of a consume or browse. Each message is checked for whether it fits the response.

use std::time::Duration;

use libmqm_sys::{self as mqi, MQLONG};

use super::{Next, Taking};
use crate::incoming::received;
use crate::mqi::{Got, Refusal, Take};
use crate::reason::Reason;

/// Maximum number of response bytes that one byte of a message's body takes. The response has the
/// body as base64 and also as text, in which a control character is escaped twice.
const LONGEST_FORM: usize = 9;

/// Bytes of a consume response reserved for properties and other members of a message that is
/// received without browsing it first.
const BESIDE_BODY: usize = 64 * 1024;

/// Maximum number of bytes of one message's properties, even if its body is too large for a
/// response.
const MOST_PROPERTIES: usize = 8 * 1024 * 1024;

/// Maximum number of bytes that one byte of text becomes when it is converted to UTF-8.
const LONGEST_CONVERSION: usize = 4;

/// Options that make an MQGET browse a message instead of removing it.
const BROWSE_OPTIONS: MQLONG = mqi::MQGMO_BROWSE_FIRST | mqi::MQGMO_BROWSE_NEXT;

impl Taking<'_> {
    /// Gets a message whose body is certain to fit into the rest of the response, and waits at most
    /// `wait` for one. Returns [`Next::MayNotFit`] for a longer body, which stays on the queue.
    pub(super) fn get(&mut self, wait: Duration) -> Result<Next, Refusal> {
        let most = self.surely_fits();
        self.call(mqi::MQGMO_SYNCPOINT, wait, most, Next::MayNotFit)
    }

    /// Gets a message whose body is certain to fit into the rest of the response, and waits at most
    /// `wait` for one. For the first message, it is enough that its base64 fits. Returns
    /// [`Next::DoesNotFit`] for a longer body.
    pub(super) fn get_unseen(&mut self, wait: Duration) -> Result<Next, Refusal> {
        let is_first = self.taken.consumed.messages.is_empty();
        let most = if is_first { self.may_fit() } else { self.surely_fits() };
        self.call(mqi::MQGMO_SYNCPOINT, wait, most, Next::DoesNotFit)
    }

    /// Returns the maximum number of bytes of a body that fits into the rest of the response
    /// whatever its content is.
    fn surely_fits(&mut self) -> usize {
        self.left().saturating_sub(BESIDE_BODY) / LONGEST_FORM
    }

    /// Returns the maximum number of bytes of a body whose base64 alone fits into the rest of the
    /// response.
    fn may_fit(&mut self) -> usize {
        self.left() / 4 * 3
    }

    /// Browses and locks the next message, for which it waits at most `wait`, and gets the message
    /// if it fits into the rest of the response. Otherwise unlocks it and returns
    /// [`Next::DoesNotFit`].
    pub(super) fn look_and_get(&mut self, wait: Duration) -> Result<Next, Refusal> {
        match self.look(wait, mqi::MQGMO_LOCK)? {
            Next::Message(_, _, size) if size <= self.left() => {
                // The message is locked, so no other client can have taken it.
                self.call(
                    mqi::MQGMO_SYNCPOINT | mqi::MQGMO_MSG_UNDER_CURSOR,
                    Duration::ZERO,
                    usize::MAX,
                    Next::DoesNotFit,
                )
            }
            Next::Message(..) | Next::DoesNotFit => {
                self.queue.unlock()?;
                Ok(Next::DoesNotFit)
            }
            other => Ok(other),
        }
    }

    /// Browses the next message after the browse cursor, and waits at most `wait` for one.
    /// `options` are further options of the MQGET.
    pub(super) fn look(&mut self, wait: Duration, options: MQLONG) -> Result<Next, Refusal> {
        let which = if self.is_first_look { mqi::MQGMO_BROWSE_FIRST } else { mqi::MQGMO_BROWSE_NEXT };
        let most = self.may_fit();
        let next = self.call(which | options, wait, most, Next::DoesNotFit)?;
        match next {
            // As long as there was no message, the cursor stayed in front of the first one.
            Next::Nothing => {}
            _ => self.is_first_look = false,
        }
        match next {
            Next::Message(_, _, size) if self.plan.is_browse && size > self.left() => Ok(Next::DoesNotFit),
            next => Ok(next),
        }
    }

    /// Calls MQGET with `options`, which may wait for `wait`, and returns the message. Calls it
    /// again with a larger buffer if the message needs one and its body has at most `most` bytes.
    /// For a longer body, returns `if_longer`.
    fn call(
        &mut self,
        options: MQLONG,
        wait: Duration,
        most: usize,
        if_longer: Next,
    ) -> Result<Next, Refusal> {
        let is_by_cursor = options & mqi::MQGMO_MSG_UNDER_CURSOR != 0;
        let first = Take {
            options,
            wait: MQLONG::try_from(wait.as_millis()).unwrap_or(MQLONG::MAX),
            message_id: self.plan.selection.message_id.filter(|_| !is_by_cursor),
            correlation_id: self.plan.selection.correlation_id.filter(|_| !is_by_cursor),
            convert: self.plan.convert,
        };
        let mut take = first;
        loop {
            if std::mem::replace(&mut self.has_called, true) {
                // More calls than one may take longer than the caller waits for an open queue.
                self.tell();
            }
            let length = self.buffer.len().min(most);
            let buffer = self.buffer.get_mut(..length).unwrap_or_default();
            let got = match self.queue.get(&take, &self.properties, buffer) {
                Err(Refusal { reason: mqi::MQRC_SYNCPOINT_LIMIT_REACHED, .. }) if self.has_any() => {
                    // The unit of work has as many messages as the queue manager allows.
                    self.warn(mqi::MQRC_SYNCPOINT_LIMIT_REACHED);
                    return Ok(Next::DoesNotFit);
                }
                // Another consumer took it between two calls.
                Err(Refusal { reason: mqi::MQRC_NO_MSG_UNDER_CURSOR, .. }) if take.options != options => {
                    take = first;
                    continue;
                }
                got => got?,
            };
            match got {
                Got::Nothing => return Ok(Next::Nothing),
                Got::TooLong { length } if length > most => return Ok(if_longer),
                Got::TooLong { length } => self.buffer.resize(length.max(self.buffer.len() * 2), 0),
                // A message that was only browsed can be browsed again, with room for its converted
                // form.
                Got::Message { warning: Some(mqi::MQRC_CONVERTED_MSG_TOO_BIG), of, .. }
                    if options & BROWSE_OPTIONS != 0 =>
                {
                    if length == most {
                        return Ok(if_longer);
                    }
                    let longest = of.saturating_mul(LONGEST_CONVERSION).max(self.buffer.len() * 2);
                    self.buffer.resize(longest.min(most), 0);
                    take.options = options & !BROWSE_OPTIONS | mqi::MQGMO_BROWSE_MSG_UNDER_CURSOR;
                    (take.message_id, take.correlation_id) = (None, None);
                }
                Got::Message { descriptor, length, warning, .. } => {
                    return self.received(descriptor, length, warning);
                }
            }
        }
    }

    /// True if the consume has received a message: for the response, or to move it to the backout
    /// queue.
    pub(super) fn has_any(&self) -> bool {
        !self.taken.consumed.messages.is_empty() || self.taken.moved > 0
    }

    fn received(
        &mut self,
        md: Box<mqi::MQMD>,
        length: usize,
        warning: Option<MQLONG>,
    ) -> Result<Next, Refusal> {
        let body = self.buffer.get(..length).unwrap_or_default().to_vec();
        // Properties that exceed every response make a message that fits into none.
        let properties = self.properties.read(self.plan.max_bytes.min(MOST_PROPERTIES))?;
        let is_beyond = properties.is_none();
        let message = received(&md, properties.unwrap_or_default(), body);
        let size = match message.carried_at_most() {
            _ if is_beyond => usize::MAX,
            at_most if at_most <= self.left() => at_most,
            _ => message.carried_size(),
        };
        if let Some(reason) = warning {
            self.warn(reason);
        }
        Ok(Next::Message(md, Box::new(message), size))
    }

    /// Adds the warning for a reason code to the response, once for each code.
    fn warn(&mut self, reason: MQLONG) {
        let known = Reason::of(reason);
        let text = format!("{} ({reason}, {})", known.words, known.name);
        self.taken.consumed.warnings.push(text);
    }
}
