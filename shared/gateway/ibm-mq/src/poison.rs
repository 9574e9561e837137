//! Handles poison messages, which applications get and back out again and again.
//!
//! A queue may have a threshold (BOTHRESH), and a backout queue (BOQNAME) for messages that were
//! backed out that often. The queue manager does not move them: applications do. A threshold of 0,
//! which is the default, means none.

use libmqm_sys as mqi;
use mq::{Base64Bytes, ReceivedMessage};

use crate::facts::QueueKind;
use crate::mqi::{Connection, Effect, Object, Properties, Refusal};
use crate::reason::Reason;

/// Handler of poison messages on one queue: messages that were backed out at least as often as the
/// queue's threshold says. The queue's attributes are inquired only when a message with a backout
/// count arrives.
pub(crate) struct Poison<'c> {
    connection: &'c Connection,
    queue: &'c str,
    /// Kind and attributes of the queue; `None` before they are inquired, and `Some(None)` if the
    /// user may not inquire them.
    known: Option<Option<QueueKind>>,
}

/// Result of checking a received message's backout count against the threshold of its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    Moved {
        warning: String,
    },
    /// The message reached the threshold, or the threshold is unknown. It stays in the response,
    /// with this warning.
    Kept {
        warning: String,
    },
}

impl<'c> Poison<'c> {
    pub(crate) fn new(connection: &'c Connection, queue: &'c str) -> Self {
        Self { connection, queue, known: None }
    }

    /// Checks the backout count of a message that was received from `got_from` in the open unit of
    /// work, and returns what becomes of the message. If it has reached the threshold and
    /// `may_move` is true, the message is put on the backout queue in the same unit of work.
    pub(crate) fn judge(
        &mut self,
        md: &mqi::MQMD,
        message: &ReceivedMessage,
        got_from: &Object<'_>,
        properties: &Properties<'_>,
        may_move: bool,
    ) -> Result<Verdict, Refusal> {
        if message.backout_count == 0 {
            return Ok(Verdict::Fine);
        }
        let facts = match self.known()? {
            Some(QueueKind::Local(facts)) => facts,
            // A queue without messages of its own, on which no message can be backed out.
            Some(QueueKind::WithoutMessages(_)) => return Ok(Verdict::Fine),
            None => {
                let warning = "messages were backed out before, and whether that is past the queue's threshold is \
                               not known: the user may not inquire the queue (+inq)";
                return Ok(Verdict::Kept { warning: warning.to_owned() });
            }
        };
        if facts.backout_threshold == 0 || message.backout_count < facts.backout_threshold {
            return Ok(Verdict::Fine);
        }
        let id = Base64Bytes::encode(&md.MsgId);
        let past = format!(
            "the message {id} was backed out {} times, and the queue's threshold is {}",
            message.backout_count, facts.backout_threshold
        );
        if !may_move {
            return Ok(Verdict::Kept { warning: past });
        }
        if facts.backout_queue.is_empty() {
            let warning = format!("{past}; the queue names no backout queue, so it is in this answer");
            return Ok(Verdict::Kept { warning });
        }
        let to = &facts.backout_queue;
        let body = &message.body.0;
        match move_to(self.connection, to, *md, got_from, properties, body) {
            Ok(put) => {
                let but = put.map(Reason::of).map(|Reason { code, name, words, .. }| {
                    format!(". IBM MQ warned of it there ({code}, {name}). {words}")
                });
                let but = but.unwrap_or_default();
                let warning = format!("{past}: it is moved to `{to}` and not in this answer{but}");
                Ok(Verdict::Moved { warning })
            }
            // A message that was put with a warning is in the unit of work, which must be backed
            // out.
            Err(refusal) if refusal.spares_the_connection() && refusal.effect == Effect::Nothing => {
                let name = Reason::of(refusal.reason).name;
                let warning = format!(
                    "{past}; it is in this answer because it cannot be moved to `{to}` ({}, {name})",
                    refusal.reason
                );
                Ok(Verdict::Kept { warning })
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Returns the kind and attributes of the queue, which are inquired only once; `None` if the
    /// user may not inquire them.
    fn known(&mut self) -> Result<Option<QueueKind>, Refusal> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let known = QueueKind::ask_if_allowed(self.connection, self.queue)?;
        Ok(self.known.insert(known).clone())
    }
}

/// Puts the message, which was received from `got_from`, on the backout queue `queue` in the open
/// unit of work, with its whole context if the user may pass it. Returns the reason code of a
/// harmless warning; `None` without a warning.
fn move_to(
    connection: &Connection,
    queue: &str,
    mut md: mqi::MQMD,
    got_from: &Object<'_>,
    properties: &Properties<'_>,
    body: &[u8],
) -> Result<Option<mqi::MQLONG>, Refusal> {
    let with_context = mqi::MQOO_OUTPUT | mqi::MQOO_PASS_ALL_CONTEXT;
    match Object::open_queue(connection, queue, with_context) {
        Ok(to) => {
            let options = mqi::MQPMO_SYNCPOINT | mqi::MQPMO_PASS_ALL_CONTEXT;
            to.put(&mut md, options, properties, Some(got_from), body)
        }
        Err(Refusal { reason: mqi::MQRC_NOT_AUTHORIZED, .. }) => {
            let to = Object::open_queue(connection, queue, mqi::MQOO_OUTPUT)?;
            to.put(&mut md, mqi::MQPMO_SYNCPOINT, properties, None, body)
        }
        Err(refusal) => Err(refusal),
    }
}
