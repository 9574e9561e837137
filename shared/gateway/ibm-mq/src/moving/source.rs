//! Source queue of a move: examines its messages and moves them, on the connection's thread.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use libmqm_sys::{self as mqi, MQLONG};
use mq::{KeptReason, MoveOutcome, MoveReport, QueueName};

use super::route::{Decision, Route};
use crate::dead_letter::{Origin, deaths};
use crate::doubt::{self, Evidence};
use crate::facts::QueueKind;
use crate::mqi::{Connection, Effect, Got, Object, Properties, Refusal, Take, Verb};
use crate::reason::{Kind, Reason};

/// Maximum number of messages on the source queue that a move examines.
const MOST_EXAMINED: u64 = 10_000;

/// Number of bytes after which the unit of work of a move is committed, since an open one occupies
/// the queue manager's log.
const UNIT_BYTES: usize = 16 * 1024 * 1024;

/// Settings of a move: the messages to move, and their destinations.
pub(super) struct Plan {
    pub(super) queue: QueueName,
    /// Single destination of the move; `None` if each message returns to the queue that its
    /// dead-letter header names.
    pub(super) destination: Option<QueueName>,
    pub(super) route: Route,
    pub(super) msg_ids: Option<Vec<SelectedId>>,
    /// Maximum number of messages moved in one unit of work.
    pub(super) most: usize,
    pub(super) abandoned: Arc<AtomicBool>,
    /// True for a preview, which only browses the messages and moves none.
    pub(super) is_preview: bool,
}

/// Message id that the request selects for the move, in the form of IBM MQ and as the request has
/// it.
pub(super) struct SelectedId {
    pub(super) id: mqi::MQBYTE24,
    /// Bytes of the id as the request gave them, without the zeros that pad `id` to 24 bytes.
    pub(super) given: Vec<u8>,
}

/// Messages that one step of a move has put and got in the open unit of work.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) count: u64,
    pub(super) is_last: bool,
    /// Ids and times of the messages. After a commit of unknown outcome, a search of the source
    /// queue compares them, to find out whether all messages are back.
    pub(super) evidence: Vec<Evidence>,
}

/// Destination queue of a move, open for output.
struct Target<'c> {
    queue: Object<'c>,
    /// MQPUT option for the context of messages: `MQPMO_SET_ALL_CONTEXT`, which keeps the context
    /// of a moved message, or `MQPMO_NONE` if the user may not set it.
    context: MQLONG,
}

pub(super) struct Source<'c> {
    connection: &'c Connection,
    plan: &'c Plan,
    route: Route,
    queue: Object<'c>,
    properties: Properties<'c>,
    /// Message handle for the MQGET that removes a moved message, whose properties were already
    /// read.
    ignored: Properties<'c>,
    targets: HashMap<QueueName, Target<'c>>,
    /// Selected ids that are not found yet; `None` if the move takes any message.
    ids: Option<VecDeque<mqi::MQBYTE24>>,
    found: HashSet<mqi::MQBYTE24>,
    is_first_look: bool,
    /// Number of messages left to examine: at first the depth of the queue, so that later arrivals
    /// are not moved, or [`MOST_EXAMINED`] if that is less or the depth is unknown.
    left: u64,
    has_more: bool,
    /// Buffer for browsed bodies. A body that does not fit is browsed again with a larger buffer.
    buffer: Vec<u8>,
    report: MoveReport,
    is_over: bool,
}

/// Message on the source queue that was browsed, and locked unless this is a preview. Its body was
/// truncated if it did not fit into the buffer.
struct BrowsedMessage {
    md: Box<mqi::MQMD>,
    length: usize,
    /// Length of the whole body in bytes, even if it is truncated.
    of: usize,
}

impl<'c> Source<'c> {
    /// Opens the source queue, and the destination if the move has a single one. An error has the
    /// name of the queue that could not be opened.
    pub(super) fn open(connection: &'c Connection, plan: &'c Plan) -> Result<Self, (Refusal, QueueName)> {
        let here = |refusal| (refusal, plan.queue.clone());
        let to_get = if plan.is_preview { 0 } else { mqi::MQOO_INPUT_SHARED };
        let queue = Object::open_queue(connection, &plan.queue, mqi::MQOO_BROWSE | to_get).map_err(here)?;
        let depth = depth(connection, &plan.queue).map_err(here)?;
        let mut source = Self {
            connection,
            plan,
            route: plan.route.clone(),
            queue,
            properties: Properties::new(connection).map_err(here)?,
            ignored: Properties::new(connection).map_err(here)?,
            targets: HashMap::new(),
            ids: plan.msg_ids.as_ref().map(|ids| ids.iter().map(|selected| selected.id).collect()),
            found: HashSet::new(),
            is_first_look: true,
            left: depth.unwrap_or(MOST_EXAMINED).min(MOST_EXAMINED),
            has_more: depth.is_some_and(|depth| depth > MOST_EXAMINED),
            buffer: connection.take_buffer(),
            report: MoveReport::default(),
            is_over: false,
        };
        if let Some(to) = &plan.destination {
            source.target(to).map_err(|refusal| (refusal, to.clone()))?;
        }
        Ok(source)
    }

    /// Moves up to `limit` messages in the open unit of work, and returns which were moved: puts
    /// each on its destination, and gets it from the source queue. Stops early at the time
    /// `stop_at`. A preview only reports the messages.
    pub(super) fn fill(&mut self, limit: usize, stop_at: Instant) -> Result<Window, Refusal> {
        let limit = limit.min(self.plan.most);
        let mut window = Window::default();
        let (mut moved, mut bytes) = (0, 0);
        while !self.is_over && moved < limit && bytes < UNIT_BYTES {
            if self.plan.abandoned.load(Ordering::SeqCst) || Instant::now() >= stop_at {
                self.report.warnings.push("the time ended before all messages were looked at".to_owned());
                self.end(true);
                break;
            }
            let Some(browsed) = self.look()? else { break };
            let decision =
                self.route.decide(&browsed.md, self.buffer.get(..browsed.length).unwrap_or_default());
            let considered = considered(&browsed, &decision, &self.buffer);
            match self.give(&browsed, &decision)? {
                None => {
                    (moved, bytes) = (moved + 1, bytes + if self.plan.is_preview { 0 } else { browsed.of });
                    doubt::remember(&mut window.evidence, &browsed.md);
                    self.report.messages.push(considered);
                }
                Some(why) => self.keep(considered, why),
            }
        }
        window.count = u64::try_from(moved).unwrap_or(u64::MAX);
        window.is_last = self.is_over;
        Ok(window)
    }

    /// Builds the report of the move until now, with the current depth of the source queue.
    pub(super) fn report(&mut self) -> MoveReport {
        let remaining = depth(self.connection, &self.plan.queue).ok().flatten();
        // If the move reached its maximum number of messages, ids that were not reached are not
        // missing.
        let ids = if self.is_over { self.plan.msg_ids.as_deref().unwrap_or_default() } else { &[] };
        let not_found = not_found(ids, &self.found);
        MoveReport { remaining, not_found, ..std::mem::take(&mut self.report) }
    }

    fn end(&mut self, is_truncated: bool) {
        self.is_over = true;
        self.report.truncated |= is_truncated;
    }

    /// Browses the next message that may be moved, and locks it unless this is a preview. `None` if
    /// there is no further message to examine.
    fn look(&mut self) -> Result<Option<BrowsedMessage>, Refusal> {
        loop {
            if self.left == 0 {
                self.end(self.has_more);
                return Ok(None);
            }
            let message_id = self.ids.as_ref().and_then(|ids| ids.front().copied());
            if self.ids.is_some() && message_id.is_none() {
                break;
            }
            let which = if self.is_first_look { mqi::MQGMO_BROWSE_FIRST } else { mqi::MQGMO_BROWSE_NEXT };
            if let Some(browsed) = self.browse(which, message_id)? {
                self.is_first_look = false;
                self.found.extend(message_id);
                self.left -= 1;
                self.report.examined += 1;
                return Ok(Some(browsed));
            }
            let Some(ids) = &mut self.ids else { break };
            // The next id may be in front of this one.
            ids.pop_front();
            self.is_first_look = true;
        }
        self.end(false);
        Ok(None)
    }

    fn browse(
        &mut self,
        which: MQLONG,
        message_id: Option<mqi::MQBYTE24>,
    ) -> Result<Option<BrowsedMessage>, Refusal> {
        let lock = if self.plan.is_preview { 0 } else { mqi::MQGMO_LOCK };
        let take =
            Take { options: which | lock | mqi::MQGMO_ACCEPT_TRUNCATED_MSG, message_id, ..Take::default() };
        match self.queue.get(&take, &self.properties, &mut self.buffer)? {
            Got::Message { descriptor: md, length, of, .. } => Ok(Some(BrowsedMessage { md, length, of })),
            Got::Nothing | Got::TooLong { .. } => Ok(None),
        }
    }

    /// Puts a browsed message on its destination, and gets it from the source queue. Returns `None`
    /// if the message was moved (in a preview: would be moved), otherwise the reason why it stays.
    fn give(&mut self, browsed: &BrowsedMessage, decision: &Decision) -> Result<Option<KeptReason>, Refusal> {
        let Decision { to: Some(to), stays: None, without } = decision else {
            return Ok(decision.stays.or(Some(KeptReason::NoOrigin)));
        };
        if browsed.of > crate::MOST_HELD {
            return Ok(Some(KeptReason::TooLarge));
        }
        if let Err(refusal) = self.target(to) {
            return self.refused(to, refusal).map(Some);
        }
        if self.plan.is_preview {
            return Ok(None);
        }
        if browsed.length < browsed.of {
            self.buffer.resize(browsed.of, 0);
            let whole = self.browse(mqi::MQGMO_BROWSE_MSG_UNDER_CURSOR, None)?;
            if whole.is_none_or(|whole| whole.length < browsed.of) {
                return Err(Refusal::failed(Verb::Get, mqi::MQRC_NO_MSG_UNDER_CURSOR));
            }
        }
        match self.put(browsed, to, without.as_ref()) {
            Ok(()) => {
                self.take()?;
                Ok(None)
            }
            Err(refusal) => self.refused(to, refusal).map(Some),
        }
    }

    fn put(
        &mut self,
        browsed: &BrowsedMessage,
        to: &QueueName,
        without: Option<&Origin>,
    ) -> Result<(), Refusal> {
        let target = self.targets.get(to);
        let target = target.ok_or(Refusal::failed(Verb::Put, mqi::MQRC_HOBJ_ERROR))?;
        let mut md = *browsed.md;
        let body = self.buffer.get(..browsed.of).unwrap_or_default();
        let body = match without {
            Some(origin) => origin.take_off(&mut md, body),
            None => body,
        };
        let options = mqi::MQPMO_SYNCPOINT | target.context;
        if let Some(reason) = target.queue.put(&mut md, options, &self.properties, None, body)? {
            let Reason { code, name, words, .. } = Reason::of(reason);
            let warning =
                format!("IBM MQ warned of messages that were put on `{to}` ({code}, {name}). {words}");
            self.report.warnings.push(warning);
        }
        Ok(())
    }

    /// Gets the message under the browse cursor, without its body, which was already read.
    fn take(&self) -> Result<(), Refusal> {
        let take = Take {
            options: mqi::MQGMO_SYNCPOINT | mqi::MQGMO_MSG_UNDER_CURSOR | mqi::MQGMO_ACCEPT_TRUNCATED_MSG,
            ..Take::default()
        };
        match self.queue.get(&take, &self.ignored, &mut [])? {
            Got::Message { .. } => Ok(()),
            // The message is locked, so it cannot have gone; the put must be backed out.
            Got::Nothing | Got::TooLong { .. } => {
                Err(Refusal::failed(Verb::Get, mqi::MQRC_NO_MSG_UNDER_CURSOR))
            }
        }
    }

    /// Opens the destination queue for output, unless it is already open.
    fn target(&mut self, to: &QueueName) -> Result<(), Refusal> {
        if self.targets.contains_key(to) {
            return Ok(());
        }
        let with_context = mqi::MQOO_OUTPUT | mqi::MQOO_SET_ALL_CONTEXT;
        let target = match Object::open_queue(self.connection, to, with_context) {
            Ok(queue) => Target { queue, context: mqi::MQPMO_SET_ALL_CONTEXT },
            Err(Refusal { reason: mqi::MQRC_NOT_AUTHORIZED, .. }) => {
                let queue = Object::open_queue(self.connection, to, mqi::MQOO_OUTPUT)?;
                self.report.warnings.push(format!(
                    "the user may not set all context on `{to}` (+setall), so messages there say that the gateway put \
                     them, and when it did"
                ));
                Target { queue, context: mqi::MQPMO_NONE }
            }
            Err(refusal) => return Err(refusal),
        };
        self.targets.insert(to.clone(), target);
        Ok(())
    }

    /// Returns the reason why a message that the destination `to` refused stays on the source
    /// queue. If the refusal concerns the queue and not only this message, no more messages are put
    /// on `to`. Returns the refusal as an error if the unit of work cannot go on.
    fn refused(&mut self, to: &QueueName, refusal: Refusal) -> Result<KeptReason, Refusal> {
        // The earlier puts were backed out with the unit of work, or must be: a message that was
        // put with a warning is in it.
        let is_certain = refusal.effect == Effect::Nothing;
        if !is_certain || !refusal.spares_the_connection() || refusal.reason == mqi::MQRC_BACKED_OUT {
            return Err(refusal);
        }
        let Reason { code, name, kind, .. } = Reason::of(refusal.reason);
        let why = match kind {
            Kind::TooLarge => return Ok(KeptReason::TooLarge),
            Kind::UnknownQueue => KeptReason::Unroutable,
            _ => KeptReason::Refused,
        };
        self.route.close(to.clone(), why);
        self.report.warnings.push(format!("nothing more was put on `{to}` ({code}, {name})"));
        Ok(why)
    }

    fn keep(&mut self, considered: MoveOutcome, why: KeptReason) {
        self.report.stayed += 1;
        if self.report.stayed <= MoveReport::MOST_STAYING {
            self.report.messages.push(MoveOutcome { stays: Some(why), ..considered });
        }
        if self.route.is_closed() {
            self.end(self.left > 0 || self.has_more);
        }
    }
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        self.connection.keep_buffer(std::mem::take(&mut self.buffer));
    }
}

/// Returns those selected ids that no examined message has, as the request gave them.
fn not_found(ids: &[SelectedId], found: &HashSet<mqi::MQBYTE24>) -> Vec<Vec<u8>> {
    let missing = ids.iter().filter(|selected| !found.contains(&selected.id));
    let missing: BTreeMap<_, _> = missing.map(|selected| (selected.id, selected.given.clone())).collect();
    missing.into_values().collect()
}

fn considered(browsed: &BrowsedMessage, decision: &Decision, buffer: &[u8]) -> MoveOutcome {
    let deaths = deaths(&browsed.md, buffer.get(..browsed.length).unwrap_or_default());
    MoveOutcome {
        msg_id: (browsed.md.MsgId != [0; 24]).then(|| browsed.md.MsgId.to_vec()),
        to: decision.to.clone(),
        stays: None,
        deaths: u64::try_from(deaths.len()).unwrap_or(u64::MAX),
        backout_count: u64::try_from(browsed.md.BackoutCount).unwrap_or_default(),
    }
}

/// Returns the depth of the queue; `None` if the user may not inquire it, or the queue holds no
/// messages of its own.
fn depth(connection: &Connection, queue: &str) -> Result<Option<u64>, Refusal> {
    Ok(match QueueKind::ask_if_allowed(connection, queue)? {
        Some(QueueKind::Local(facts)) => Some(facts.depth),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing::padded;

    #[test]
    fn an_id_that_is_not_found_is_named_as_the_request_has_it() {
        let ids = [&b"one"[..], b"two", b"two\0", &[7; 24]]
            .map(|given| SelectedId { id: padded(given).unwrap(), given: given.to_vec() });
        let found = HashSet::from([padded(b"one").unwrap()]);
        assert_eq!(not_found(&ids, &found), [vec![7; 24], b"two\0".to_vec()]);
    }
}
