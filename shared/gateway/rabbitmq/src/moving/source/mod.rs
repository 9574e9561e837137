//! Source queue of a move, and the messages that the move has taken from it.

mod returns;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use broker::Deadline;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::options::BasicGetOptions;
use lapin::types::AMQPValue;
use mq::{AllowedQueues, BrokerError, KeptReason, MoveCommand, MoveOutcome, MoveReport, QueueName};

use super::losses::{DeadLetterEffects, Losses};
use super::route::{self, Route};
use crate::content_header;
use crate::deaths;
use crate::errors::{During, Failure};
use crate::fetch::refuse_harm;
use crate::leader::{self, Leadership};
use crate::queue_facts::QueueFacts;
use crate::session::{Session, call, short};

/// Maximum number of messages that a move examines. Those that are not moved are hidden from other
/// clients until the move ends.
const MOST_EXAMINED: u64 = 10_000;
/// Maximum number of messages that a move returns to a queue other than a classic one. Each return
/// is a separate command; a channel sends about 32 at once, and loses the others if it is closed.
const MOST_RETURNED: u64 = 32;
/// Maximum time at the end of a move for reading the arguments of the destination queues.
const TO_ASK: Duration = Duration::from_secs(2);

/// Message that a move took from the source queue, with its destination.
pub(super) struct Parcel {
    pub(super) tag: u64,
    pub(super) to: QueueName,
    pub(super) properties: BasicProperties,
    pub(super) body: Vec<u8>,
    pub(super) outcome: MoveOutcome,
    pub(super) effects: DeadLetterEffects,
}

/// Source queue of a move, from which messages are taken one by one. Messages that are not moved
/// stay unacknowledged until the end, and then return to their positions.
pub(super) struct Source {
    pub(super) session: Session,
    pub(super) queue: QueueName,
    pub(super) route: Route,
    /// Ids of the messages to move, each with true if it was found; `None` if the move takes any
    /// message.
    selected: Option<BTreeMap<Vec<u8>, bool>>,
    /// Number of messages left to examine, from the count when the move began. Later arrivals are
    /// not moved, so that a message that is rejected again does not circle.
    left: u64,
    /// True if the queue had more messages than the move may examine.
    has_more: bool,
    /// Number of ready messages on the source queue that the broker reported last; `None` if
    /// unknown.
    pub(super) ready: Option<u64>,
    /// Number of unacknowledged messages that will return to the queue.
    pub(super) held: u64,
    /// Properties of the source queue, such as its type; `None` before the broker was asked,
    /// `Some(None)` if the broker did not disclose them.
    facts: Option<Option<QueueFacts>>,
    /// Number of returns (from RabbitMQ 4.3 on, of failures) that the queue has counted for each
    /// unacknowledged message, by delivery tag; without messages whose number is 0.
    counts: HashMap<u64, u64>,
    /// True if the move ended early because a message stays on a queue that counts returns.
    stopped_at_first_kept: bool,
    /// Knowledge about whether the source queue has an elected leader; `None` until the broker has
    /// answered.
    leadership: Option<Leadership>,
    /// Maximum number of bytes of memory for the deliveries of one window (group of messages that
    /// are published together).
    most_held: usize,
    /// Outcome of each message with its delivery tag, for the report.
    outcomes: Vec<(u64, MoveOutcome)>,
    /// True if the move examines no more messages.
    pub(super) is_over: bool,
    has_exceeded_the_intake: bool,
    /// Counts of the messages that were moved to each queue (or would be, in a preview), for
    /// warnings about possible losses there.
    pub(super) losses: Losses,
    /// Report of the move; the messages are added at its end.
    pub(super) report: MoveReport,
}

impl Source {
    /// Opens the source queue. `most_held` limits the bytes of memory for the deliveries of one
    /// window (group of messages). With selected ids, fails if returning the other messages could
    /// lose them.
    pub(super) async fn open(
        (mut session, most_held): (Session, usize),
        queue: &QueueName,
        command: &MoveCommand,
        reach: &AllowedQueues,
        deadline: Deadline,
    ) -> Result<Self, BrokerError> {
        let state = match leader::counts(&session, queue, deadline).await {
            Ok(state) => state,
            Err(failure) => return Err(session.fail(failure, During::Queue(queue))),
        };
        let selected: Option<BTreeMap<_, _>> =
            command.msg_ids.as_ref().map(|ids| ids.iter().map(|id| (id.0.clone(), false)).collect());
        if selected.is_some() {
            session = refuse_harm(session, queue, deadline).await?;
        }
        let ready = u64::from(state.messages);
        Ok(Self {
            session,
            queue: queue.clone(),
            route: Route::new(queue.clone(), command.to.clone(), reach.clone()),
            selected,
            // One message is asked for even if the count is 0. A stream reports its count late, and
            // cannot be read this way; and for a quorum queue without a leader the error shows
            // that.
            left: ready.clamp(1, MOST_EXAMINED),
            has_more: ready > MOST_EXAMINED,
            ready: Some(ready),
            held: 0,
            facts: None,
            counts: HashMap::new(),
            stopped_at_first_kept: false,
            leadership: None,
            most_held,
            outcomes: Vec::new(),
            is_over: false,
            has_exceeded_the_intake: false,
            losses: Losses::default(),
            report: MoveReport::default(),
        })
    }

    /// Resets the connection's limit on deliveries (its intake) to the size of one window (group of
    /// messages), since earlier messages are no longer in memory.
    pub(super) fn bind_intake(&self) {
        if !self.has_exceeded_the_intake {
            self.session.intake().bind(self.most_held);
        }
    }

    /// Ends the examining of messages. With `is_truncated`, the report says that there may be more.
    pub(super) fn end(&mut self, is_truncated: bool) {
        self.is_over = true;
        self.report.truncated |= is_truncated;
    }

    /// Takes messages until one is to be published, and returns it; `None` if the move takes no
    /// more, since none is left or the time `stop_at` has passed. Also returns `None` if the caller
    /// must first publish the `in_hand` messages that it holds, because the source queue could not
    /// take back more at once. The broker has to answer each request before `deadline`.
    pub(super) async fn next(
        &mut self,
        in_hand: u64,
        stop_at: Deadline,
        deadline: Deadline,
    ) -> Result<Option<Parcel>, Failure> {
        while !self.is_over {
            if self.left == 0 {
                self.end(self.has_more);
                break;
            }
            if stop_at.has_passed() {
                self.report.warnings.push("the time ended before all messages were looked at");
                self.end(true);
                break;
            }
            if self.held.saturating_add(in_hand) >= MOST_RETURNED && !self.is_classic(deadline).await {
                if in_hand > 0 {
                    break;
                }
                self.report.warnings.push(format!(
                    "the queue `{}` takes back {MOST_RETURNED} messages at once, so no further ones were looked at",
                    self.queue
                ));
                self.end(true);
                break;
            }
            let options = BasicGetOptions { no_ack: false };
            let get = self.session.channel().basic_get(short(&self.queue), options);
            let Some(message) = call(deadline, get).await? else {
                self.ready = Some(0);
                self.end(false);
                break;
            };
            self.left -= 1;
            self.report.examined += 1;
            self.ready = Some(message.message_count.into());
            if let Some(parcel) = self.examine(message.delivery, deadline).await {
                return Ok(Some(parcel));
            }
        }
        Ok(None)
    }

    async fn examine(&mut self, mut delivery: Delivery, deadline: Deadline) -> Option<Parcel> {
        let tag = delivery.delivery_tag;
        let was_carried = content_header::restore(&mut delivery);
        let is_without_body = self.session.intake().was_exceeded_by(tag);
        if is_without_body {
            let has_passed = self.session.discard_excess(&self.queue, self.most_held, deadline).await;
            self.has_exceeded_the_intake = !has_passed;
        }
        let times_back = self.count(&delivery, deadline).await;
        let msg_id = message_id(&delivery);
        let is_selected = self.is_selected(msg_id.as_deref());
        if !is_without_body && !is_selected {
            self.held += 1;
            return None;
        }
        let deaths = deaths::of_delivery(delivery.properties.headers().as_ref());
        let decision = self.route.decide(&delivery.properties, &deaths);
        let effects =
            decision.to.as_ref().map(|to| DeadLetterEffects::of(&delivery, &deaths, to)).unwrap_or_default();
        let outcome = MoveOutcome {
            msg_id,
            to: decision.to.clone(),
            stays: None,
            deaths: deaths::times(&deaths),
            backout_count: times_back,
        };
        if is_without_body {
            self.end(self.left > 0 || self.has_more);
            self.keep(tag, MoveOutcome { to: None, ..outcome }, KeptReason::TooLarge, deadline).await;
            return None;
        }
        let properties = route::as_put(delivery.properties);
        // Properties that came in one frame are published in one frame.
        let does_not_fit = || {
            was_carried
                && content_header::frame_size(properties.clone())
                    .is_none_or(|size| size > self.session.frame_max())
        };
        match (decision.to, decision.stays) {
            (Some(_), None) if does_not_fit() => {
                self.keep(tag, outcome, KeptReason::NotReproducible, deadline).await;
                None
            }
            (Some(to), None) => Some(Parcel { tag, to, properties, body: delivery.data, outcome, effects }),
            (_, stays) => {
                self.keep(tag, outcome, stays.unwrap_or(KeptReason::NoOrigin), deadline).await;
                None
            }
        }
    }

    fn is_selected(&mut self, msg_id: Option<&[u8]>) -> bool {
        let Some(selected) = &mut self.selected else { return true };
        let Some(is_found) = msg_id.and_then(|id| selected.get_mut(id)) else { return false };
        *is_found = true;
        true
    }

    /// Records a message that stays on its queue. If returning it counts towards a delivery limit,
    /// the move examines no further messages, so that only one returns.
    pub(super) async fn keep(&mut self, tag: u64, outcome: MoveOutcome, why: KeptReason, deadline: Deadline) {
        self.report.stayed += 1;
        if self.report.stayed <= MoveReport::MOST_STAYING {
            self.hold(tag, MoveOutcome { stays: Some(why), ..outcome });
        } else {
            self.held += 1;
        }
        let has_more = self.left > 0 || self.has_more;
        if self.route.is_closed() {
            self.end(has_more);
        }
        if !self.is_over && self.counts_returns(deadline).await {
            self.stopped_at_first_kept = true;
            self.end(has_more);
        }
    }

    /// Records a message that returns to its queue at the end of the move, with its outcome.
    pub(super) fn hold(&mut self, tag: u64, outcome: MoveOutcome) {
        self.held += 1;
        self.outcomes.push((tag, outcome));
    }

    /// Records the outcome of a message that was moved.
    pub(super) fn moved(&mut self, tag: u64, outcome: MoveOutcome) {
        self.counts.remove(&tag);
        self.outcomes.push((tag, outcome));
    }

    /// Determines whether the source queue has an elected leader, once for the whole move.
    pub(super) async fn leadership(&mut self, deadline: Deadline) -> Result<Leadership, BrokerError> {
        if let Some(known) = self.leadership {
            return Ok(known);
        }
        let leadership = leader::leadership(&self.session, &self.queue, deadline).await?;
        Ok(*self.leadership.insert(leadership))
    }

    /// Ends the move: returns the messages that were not moved (and `more` others that were taken)
    /// to the queue, and builds the report.
    pub(super) async fn finish(mut self, more: u64, deadline: Deadline) -> MoveReport {
        let asked = (!self.has_exceeded_the_intake).then_some(&self.session);
        let server = &self.session.server;
        // The messages that were not moved return only after this, so it must be quick.
        let deadline_of_looks = super::stop_at(deadline).min(TO_ASK);
        self.report.warnings.extend(self.losses.warnings(asked, server, deadline_of_looks).await);
        let gone = self.tell_of_returns(more, deadline).await;
        // If the move reached its maximum number of messages, ids that were not reached are not
        // missing.
        let selected = self.selected.take().filter(|_| self.is_over).unwrap_or_default();
        let Self { session, queue, held, ready, mut outcomes, report, .. } = self;
        if self.has_exceeded_the_intake {
            session.close_overfull(&queue, deadline).await;
        } else {
            if held > 0 || more > 0 {
                session.give_back(&queue, deadline).await;
            }
            session.release(deadline).await;
        }
        outcomes.sort_by_key(|(tag, _)| *tag);
        MoveReport {
            messages: outcomes.into_iter().map(|(_, outcome)| outcome).collect(),
            remaining: ready
                .map(|ready| ready.saturating_add(held).saturating_add(more).saturating_sub(gone)),
            not_found: selected.into_iter().filter(|(_, found)| !found).map(|(id, _)| id).collect(),
            ..report
        }
    }
}

/// Returns the message id as bytes, even if the client library could not read it; `None` if the
/// message has none.
fn message_id(delivery: &Delivery) -> Option<Vec<u8>> {
    let properties = &delivery.properties;
    let text = properties.message_id().as_ref().map(|id| id.as_str().as_bytes().to_vec());
    let moved = || {
        let mut headers = properties.headers().as_ref()?.inner().iter();
        headers.find_map(|(name, value)| match (content_header::property_moved_to(name.as_str()), value) {
            (Some("message_id"), AMQPValue::ByteArray(bytes)) => Some(bytes.as_slice().to_vec()),
            _ => None,
        })
    };
    text.or_else(moved)
}
