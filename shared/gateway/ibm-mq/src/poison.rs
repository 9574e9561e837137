//! Messages that come back again and again.
//!
//! A queue names a threshold (BOTHRESH) and a queue for messages that were backed out so often
//! (BOQNAME). The queue manager does nothing about them: programs move them. A threshold of 0,
//! which is the default, is none.

use libmqm_sys as mqi;
use mq::{Base64Bytes, ReceivedMessage};

use crate::facts::{LocalQueue, QueueKind};
use crate::mqi::{Connection, Effect, Object, Properties, Refusal};
use crate::reason::Reason;

/// The poison of one queue, of which nothing is asked before a message came back.
pub(crate) struct Poison<'c> {
    connection: &'c Connection,
    queue: &'c str,
    known: Option<Known>,
}

/// What is known of the queue.
#[derive(Clone, Debug)]
enum Known {
    Local(LocalQueue),
    /// It has no messages of its own, so nothing comes back to it.
    Elsewhere,
    /// The user may not ask.
    Nothing,
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    Moved {
        warning: String,
    },
    /// It is past the threshold and stays in the answer.
    Kept {
        warning: String,
    },
}

impl<'c> Poison<'c> {
    pub(crate) fn new(connection: &'c Connection, queue: &'c str) -> Self {
        Self { connection, queue, known: None }
    }

    /// Judges a message that was got in the open unit of work, and moves it in the same one if it
    /// is past the threshold and `may_move`.
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
            Known::Local(facts) => facts,
            Known::Elsewhere => return Ok(Verdict::Fine),
            Known::Nothing => {
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
                let warning = format!("{past}: it is moved to {to} and not in this answer{but}");
                Ok(Verdict::Moved { warning })
            }
            // A message that was put with a warning is in the unit of work, which has to go.
            Err(refusal) if refusal.spares_the_connection() && refusal.effect == Effect::Nothing => {
                let name = Reason::of(refusal.reason).name;
                let warning = format!(
                    "{past}; it is in this answer because it cannot be moved to {to} ({}, {name})",
                    refusal.reason
                );
                Ok(Verdict::Kept { warning })
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// What the queue says of its poison, which is asked once.
    fn known(&mut self) -> Result<Known, Refusal> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let known = match QueueKind::ask(self.connection, self.queue) {
            Ok(QueueKind::Local(facts)) => Known::Local(facts),
            Ok(QueueKind::Elsewhere(_)) => Known::Elsewhere,
            Err(refusal) if refusal.spares_the_connection() => Known::Nothing,
            Err(refusal) => return Err(refusal),
        };
        self.known = Some(known.clone());
        Ok(known)
    }
}

/// Puts the message on the backout queue in the open unit of work, with all of its context if the
/// user may pass that. Gives the reason of a warning.
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
            to.put(&mut md, options, Some(properties), Some(got_from), body)
        }
        Err(Refusal { reason: mqi::MQRC_NOT_AUTHORIZED, .. }) => {
            let to = Object::open_queue(connection, queue, mqi::MQOO_OUTPUT)?;
            to.put(&mut md, mqi::MQPMO_SYNCPOINT, Some(properties), None, body)
        }
        Err(refusal) => Err(refusal),
    }
}
