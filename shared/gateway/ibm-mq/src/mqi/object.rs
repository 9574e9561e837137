//! Handles of the queues and queue managers that are open on a connection, with the MQI calls on
//! them: open, put, get, inquire and close.
#![allow(unsafe_code)]

use std::time::Duration;

use libmqm_sys::{self as mq, MQLONG};

use super::structures::{self, UTF_8, fill, text_in};
use super::{Codes, Connection, Properties, Refusal, Verb, length_of};

/// Queue or queue manager that is open on a connection. Dropping the value closes it.
pub(crate) struct Object<'c> {
    connection: &'c Connection,
    handle: mq::MQHOBJ,
    /// Name of the queue or queue manager, as the queue manager returned it.
    name: String,
}

/// Maximum time that one MQGET may wait, since a call that blocks cannot be interrupted.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Parameters of an MQGET that gets or browses a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Take {
    /// MQGMO options such as `MQGMO_SYNCPOINT`. The options that every MQGET has are added to them.
    pub(crate) options: MQLONG,
    /// Maximum time in milliseconds that the call may wait for a message; 0 to return at once.
    pub(crate) wait: MQLONG,
    pub(crate) message_id: Option<mq::MQBYTE24>,
    pub(crate) correlation_id: Option<mq::MQBYTE24>,
    /// True to request conversion to UTF-8 by the queue manager.
    pub(crate) convert: bool,
}

/// Result of an MQGET that gets or browses a message.
#[derive(Debug)]
pub(crate) enum Got {
    /// Message whose body is in the first `length` bytes of the buffer; the whole body has `of`
    /// bytes. A warning reports a deviation from the request, for example that the body is not
    /// converted.
    Message {
        descriptor: Box<mq::MQMD>,
        length: usize,
        of: usize,
        warning: Option<MQLONG>,
    },
    Nothing,
    /// The next message has this length and does not fit into the buffer. It stays on the queue.
    TooLong {
        length: usize,
    },
}

impl<'c> Object<'c> {
    pub(crate) fn open_queue(
        connection: &'c Connection,
        name: &str,
        options: MQLONG,
    ) -> Result<Self, Refusal> {
        Self::open_selection(connection, name, options, None)
    }

    /// Opens a queue with these MQOPEN `options`. With `expression`, a queue that is opened to get
    /// or browse messages returns only messages whose properties satisfy it. Fails if `name` is a
    /// model queue.
    pub(crate) fn open_selection(
        connection: &'c Connection,
        name: &str,
        options: MQLONG,
        expression: Option<&str>,
    ) -> Result<Self, Refusal> {
        let queue = Self::open(connection, mq::MQOT_Q, name, options, expression)?;
        if queue.name == name {
            return Ok(queue);
        }
        // The queue manager has created a dynamic queue from a model queue, which was not
        // requested.
        queue.discard();
        Err(Refusal::failed(Verb::Open, mq::MQRC_Q_TYPE_ERROR))
    }

    pub(crate) fn open_queue_manager(connection: &'c Connection) -> Result<Self, Refusal> {
        Self::open(connection, mq::MQOT_Q_MGR, "", mq::MQOO_INQUIRE, None)
    }

    fn open(
        connection: &'c Connection,
        kind: MQLONG,
        name: &str,
        options: MQLONG,
        expression: Option<&str>,
    ) -> Result<Self, Refusal> {
        let mut od = structures::object(kind);
        fill(&mut od.ObjectName, name);
        if let Some(expression) = expression {
            od.SelectionString = structures::name(expression);
        }
        let options = options | mq::MQOO_FAIL_IF_QUIESCING;
        let mut handle = mq::MQHO_UNUSABLE_HOBJ;
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the connection is open, and this is its thread, since a `Connection` does not
        // leave it. `od` points to the selection alone, which outlives the call and is only read.
        unsafe {
            connection.library().functions().MQOPEN(
                connection.handle(),
                &mut od,
                options,
                &mut handle,
                &mut completion,
                &mut reason,
            );
        }
        Codes { completion, reason }.check(Verb::Open)?;
        Ok(Self { connection, handle, name: text_in(&od.ObjectName).into_owned() })
    }

    /// Puts a message with these properties. `options` are further options of the MQPUT, and
    /// `context` is the queue from which the message was received if its context is passed on. The
    /// queue manager completes the descriptor. Returns the reason code of a harmless warning;
    /// `None` without a warning.
    pub(crate) fn put(
        &self,
        descriptor: &mut mq::MQMD,
        options: MQLONG,
        properties: &Properties<'_>,
        context: Option<&Object<'_>>,
        body: &[u8],
    ) -> Result<Option<MQLONG>, Refusal> {
        let mut pmo = structures::put_options();
        pmo.Options = options | mq::MQPMO_FAIL_IF_QUIESCING;
        if options & mq::MQPMO_SYNCPOINT != 0 {
            self.connection.begins_unit_of_work();
        }
        pmo.OriginalMsgHandle = properties.handle();
        pmo.Context = context.map_or(mq::MQHO_NONE, |object| object.handle);
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handles are open and of this thread's connection. The descriptor is an MQMD
        // of the version that it says. The library only reads the body, whose length is its own.
        unsafe {
            self.connection.library().functions().MQPUT(
                self.connection.handle(),
                self.handle,
                std::ptr::from_mut(descriptor).cast(),
                &mut pmo,
                length_of(body),
                body.as_ptr().cast_mut().cast(),
                &mut completion,
                &mut reason,
            );
        }
        Codes { completion, reason }.check(Verb::Put)
    }

    /// Gets or browses a message according to `take`, and returns its descriptor and length. Reads
    /// its properties into `properties` and its body into `buffer`, which is not resized.
    pub(crate) fn get(
        &self,
        take: &Take,
        properties: &Properties<'_>,
        buffer: &mut [u8],
    ) -> Result<Got, Refusal> {
        let mut md = structures::descriptor();
        let mut gmo = structures::get_options();
        gmo.Options = take.options | mq::MQGMO_FAIL_IF_QUIESCING | mq::MQGMO_PROPERTIES_IN_HANDLE;
        if take.options & mq::MQGMO_SYNCPOINT != 0 {
            self.connection.begins_unit_of_work();
        }
        if take.wait > 0 {
            gmo.Options |= mq::MQGMO_WAIT;
            gmo.WaitInterval = take.wait;
        }
        if take.convert {
            gmo.Options |= mq::MQGMO_CONVERT;
            md.CodedCharSetId = UTF_8;
        }
        if let Some(id) = take.message_id {
            md.MsgId = id;
            gmo.MatchOptions |= mq::MQMO_MATCH_MSG_ID;
        }
        if let Some(id) = take.correlation_id {
            md.CorrelId = id;
            gmo.MatchOptions |= mq::MQMO_MATCH_CORREL_ID;
        }
        gmo.MsgHandle = properties.handle();
        let mut length = 0;
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handles are open and of this thread's connection. The descriptor is an MQMD
        // of the version that it says. The buffer is ours to write, and its length is its own.
        unsafe {
            self.connection.library().functions().MQGET(
                self.connection.handle(),
                self.handle,
                std::ptr::from_mut(&mut md).cast(),
                &mut gmo,
                length_of(buffer),
                buffer.as_mut_ptr().cast(),
                &mut length,
                &mut completion,
                &mut reason,
            );
        }
        let length = usize::try_from(length).unwrap_or_default();
        match reason {
            mq::MQRC_NO_MSG_AVAILABLE => return Ok(Got::Nothing),
            // Without the option to truncate, the message remains on the queue.
            mq::MQRC_TRUNCATED_MSG_FAILED => return Ok(Got::TooLong { length }),
            _ => {}
        }
        let warning = Codes { completion, reason }.check(Verb::Get)?;
        Ok(Got::Message { descriptor: Box::new(md), length: length.min(buffer.len()), of: length, warning })
    }

    /// Releases the lock of the message under the browse cursor, so that other clients can get it.
    pub(crate) fn unlock(&self) -> Result<(), Refusal> {
        let mut md = structures::descriptor();
        let mut gmo = structures::get_options();
        gmo.Options = mq::MQGMO_UNLOCK;
        let mut length = 0;
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handles are open and of this thread's connection. No message is returned, so
        // there is no buffer.
        unsafe {
            self.connection.library().functions().MQGET(
                self.connection.handle(),
                self.handle,
                std::ptr::from_mut(&mut md).cast(),
                &mut gmo,
                0,
                std::ptr::null_mut(),
                &mut length,
                &mut completion,
                &mut reason,
            );
        }
        Codes { completion, reason }.check(Verb::Unlock).map(drop)
    }

    /// Inquires attributes of the object, and returns their values in the order of the arguments:
    /// the integers with the selectors `integers`, and the texts with the selectors and lengths
    /// `texts`.
    pub(crate) fn inquire<const N: usize, const T: usize>(
        &self,
        integers: [MQLONG; N],
        texts: [(MQLONG, usize); T],
    ) -> Result<([MQLONG; N], [String; T]), Refusal> {
        let count = |length: usize| MQLONG::try_from(length).unwrap_or(MQLONG::MAX);
        let mut selectors: Vec<_> = integers.into_iter().chain(texts.map(|(selector, _)| selector)).collect();
        let mut numbers = [0; N];
        let mut characters = vec![0; texts.iter().map(|(_, length)| length).sum()];
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handles are open and of this thread's connection. Selectors and results are
        // passed with their own lengths.
        unsafe {
            self.connection.library().functions().MQINQ(
                self.connection.handle(),
                self.handle,
                count(selectors.len()),
                selectors.as_mut_ptr(),
                count(numbers.len()),
                numbers.as_mut_ptr(),
                count(characters.len()),
                characters.as_mut_ptr(),
                &mut completion,
                &mut reason,
            );
        }
        // A warning is an error here: an attribute does not exist for this kind of object, or does
        // not fit.
        Codes { completion, reason }.check(Verb::Inquire)?;
        let mut rest: &[mq::MQCHAR] = &characters;
        let values = texts.map(|(_, length)| {
            let (value, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            rest = after;
            text_in(value).into_owned()
        });
        Ok((numbers, values))
    }

    /// Closes and deletes a dynamic queue that was created from a model queue.
    fn discard(mut self) {
        self.close(mq::MQCO_DELETE_PURGE);
    }

    fn close(&mut self, options: MQLONG) {
        if self.handle == mq::MQHO_UNUSABLE_HOBJ {
            return;
        }
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handles are open and of this thread's connection.
        unsafe {
            self.connection.library().functions().MQCLOSE(
                self.connection.handle(),
                &mut self.handle,
                options,
                &mut completion,
                &mut reason,
            );
        }
        // Whatever the result, the handle is not used again; the end of the connection closes it.
        self.handle = mq::MQHO_UNUSABLE_HOBJ;
        if let Err(refusal) = (Codes { completion, reason }).check(Verb::Close) {
            tracing::debug!(
                event_type = "queue.not_closed",
                reason = refusal.reason,
                "MQCLOSE of `{}` failed with reason {}",
                self.name,
                refusal.reason
            );
        }
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        self.close(mq::MQCO_NONE);
    }
}
