//! Window: a group of published messages whose answers from the broker are judged together.

use std::collections::HashSet;
use std::time::Instant;

use broker::{Deadline, Latencies};
use lapin::BasicProperties;
use lapin::types::ShortString;
use mq::MessageId;
use tokio::sync::watch;

use crate::errors::Failure;
use crate::in_flight::{BATCH, InFlight, Landed};
use crate::publish::{Outcome, Publish};
use crate::session::Session;

/// Maximum number of unconfirmed messages in a window (messages whose answers are judged together).
const MAX_MESSAGES: usize = 1000;

/// Header by which a publisher asks RabbitMQ's plugin for delayed messages to delay a message.
const DELAY: &str = "x-delay";

/// Window: messages published on one channel, whose answers are judged together at the end. They
/// cannot be judged one by one, because the client library may attach a returned message to another
/// message's confirm.
pub(crate) struct Window<'a> {
    session: &'a Session,
    exchange: ShortString,
    /// Sender of the produce's progress: the number of its first messages that are on the queue.
    progress: &'a watch::Sender<u64>,
    /// Number of the produce's first messages that were on the queue before this window.
    before: u64,
    /// Number of messages that the broker had returned on the connection before this window.
    earlier_returns: u64,
    messages: Vec<Published>,
    /// Messages whose answers are not recorded yet, each with its position in the window.
    in_flight: InFlight<'a, usize>,
    /// Number of confirmed messages before the first unconfirmed one.
    confirmed: usize,
    bytes: usize,
    opened: Instant,
}

/// Message that the window has published, with its outcome.
#[derive(Clone, Copy, Debug)]
struct Published {
    id: MessageId,
    outcome: Outcome,
    /// True if an exchange may delay the message. The broker then returns the message as
    /// unroutable, and still delivers it later.
    may_be_delayed: bool,
}

/// Outcome of a window (group of messages that were published on one channel).
#[derive(Debug)]
pub(crate) enum Verdict {
    AllConfirmed,
    /// The broker returned as unroutable the first message that is not known to be on the queue.
    Returned,
    /// The broker refused the first message that is not known to be on the queue. The refused
    /// message may be on a queue nevertheless.
    Refused,
    /// The outcome of some messages is unknown, because of this failure.
    Unknown(Failure),
}

/// Result of waiting for the broker's answers to a window (group of published messages).
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) verdict: Verdict,
    /// Number of messages that the window has published.
    pub(crate) published: usize,
    /// Number of messages from the start of the window that are on the queue.
    pub(crate) confirmed_prefix: u64,
    /// Ids of the messages after the first [`Self::confirmed_prefix`] ones that are or may be on a
    /// queue, without the refused messages.
    pub(crate) in_doubt: Vec<MessageId>,
    /// Ids of the messages after the first [`Self::confirmed_prefix`] ones that the broker refused.
    /// Refused messages may be on a queue nevertheless.
    pub(crate) refused: Vec<MessageId>,
}

impl Settled {
    /// Returns the ids of all messages that may be on a queue after the first
    /// [`Self::confirmed_prefix`] ones, including those that the broker refused.
    pub(crate) fn all_in_doubt(mut self) -> Vec<MessageId> {
        self.in_doubt.append(&mut self.refused);
        self.in_doubt
    }
}

impl<'a> Window<'a> {
    pub(crate) fn new(
        session: &'a Session,
        exchange: ShortString,
        progress: &'a watch::Sender<u64>,
        before: u64,
    ) -> Self {
        Self {
            session,
            exchange,
            progress,
            before,
            earlier_returns: session.noticed.returns(),
            messages: Vec::new(),
            in_flight: InFlight::default(),
            confirmed: 0,
            bytes: 0,
            opened: Instant::now(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }

    /// True if a failure, a refusal or a return has occurred, so that publishing more would only
    /// leave more messages with an unknown outcome.
    pub(crate) fn is_broken(&self) -> bool {
        self.in_flight.failure.is_some() || self.in_flight.was_refused || self.has_returns()
    }

    fn has_returns(&self) -> bool {
        self.session.noticed.returns() != self.earlier_returns
    }

    /// Waits until another message may be published, and records answers meanwhile. Ends early at
    /// `until`, or if the window is broken ([`Self::is_broken`]).
    pub(crate) async fn wait_for_room(&mut self, latencies: &mut Latencies, until: Deadline) {
        while !self.in_flight.has_room(MAX_MESSAGES) && !self.is_broken() {
            if until.run(self.in_flight.some_answered()).await.is_err() {
                return;
            }
            self.note_answers(latencies);
        }
    }

    /// Publishes a message without waiting: its frames are queued for sending.
    pub(crate) fn publish(
        &mut self,
        id: MessageId,
        routing_key: ShortString,
        body: Vec<u8>,
        properties: BasicProperties,
        latencies: &mut Latencies,
    ) {
        let (bytes, at) = (body.len(), Instant::now());
        let headers = properties.headers().as_ref();
        // The default exchange delays nothing.
        let may_be_delayed =
            !self.exchange.as_str().is_empty() && headers.is_some_and(|headers| headers.contains_key(DELAY));
        let publish =
            Publish::begin(self.session.channel(), self.exchange.clone(), routing_key, body, properties);
        if let Some(failure) = publish.failure() {
            self.in_flight.fail(failure.clone());
        }
        self.in_flight.push(self.messages.len(), bytes, at, publish);
        self.messages.push(Published { id, outcome: Outcome::Unknown, may_be_delayed });
        self.bytes += bytes;
        if self.messages.len().is_multiple_of(BATCH) {
            self.note_answers(latencies);
        }
    }

    /// Waits until `due`, and records the answers that arrive meanwhile.
    pub(crate) async fn idle_until(&mut self, due: tokio::time::Instant, latencies: &mut Latencies) {
        let until = Deadline::at(due);
        while !self.in_flight.is_empty() && until.run(self.in_flight.answered(0)).await.is_ok() {
            self.note_answers(latencies);
        }
        tokio::time::sleep_until(due).await;
    }

    /// Waits for all answers until `deadline`, and returns the outcome of the window.
    pub(crate) async fn settle(mut self, latencies: &mut Latencies, deadline: Deadline) -> Settled {
        self.note_answers(latencies);
        while !self.in_flight.is_empty() {
            if deadline.run(self.in_flight.answered(BATCH)).await.is_err() {
                self.in_flight.fail(Failure::Deadline);
                break;
            }
            self.note_answers(latencies);
        }
        // Refusals and returns after a missing answer have to be known.
        for late in self.in_flight.take_all() {
            self.note(late, latencies);
        }
        judge(&self.messages, &self.in_flight.returned, self.in_flight.failure)
    }

    /// Records the answers that have arrived, up to the first missing one.
    fn note_answers(&mut self, latencies: &mut Latencies) {
        while let Some(answered) = self.in_flight.take_answered() {
            self.note(answered, latencies);
        }
        self.tell_progress();
    }

    fn note(&mut self, Landed { mark, at, outcome }: Landed<usize>, latencies: &mut Latencies) {
        if outcome == Outcome::Confirmed {
            latencies.record(at.elapsed());
        }
        if let Some(published) = self.messages.get_mut(mark) {
            published.outcome = outcome;
        }
        while self.messages.get(self.confirmed).is_some_and(|next| next.outcome == Outcome::Confirmed) {
            self.confirmed += 1;
        }
    }

    /// Reports how many messages are known to be on the queue, as long as the broker has returned
    /// none. The broker confirms returned messages too, and the client library may attach a return
    /// to another message's confirm. But returns arrive before confirms and are counted at once, so
    /// without a return all confirmed messages are on the queue.
    fn tell_progress(&self) {
        if self.has_returns() {
            return;
        }
        let count = self.before.saturating_add(u64::try_from(self.confirmed).unwrap_or_default());
        self.progress.send_if_modified(|known| {
            let is_more = count > *known;
            *known = count.max(*known);
            is_more
        });
    }
}

fn judge(messages: &[Published], returned: &HashSet<String>, failure: Option<Failure>) -> Settled {
    let was_returned = |id: &MessageId| !returned.is_empty() && returned.contains(&id.to_hex());
    let is_on_queue =
        |message: &&Published| message.outcome == Outcome::Confirmed && !was_returned(&message.id);
    let prefix = messages.iter().take_while(is_on_queue).count();
    let rest = messages.get(prefix..).unwrap_or_default();
    let may_be_somewhere = |message: &&Published| message.may_be_delayed || !was_returned(&message.id);
    let (refused, in_doubt): (Vec<_>, Vec<_>) = rest
        .iter()
        .filter(may_be_somewhere)
        .copied()
        .partition(|message: &Published| message.outcome == Outcome::Refused);
    let ids = |messages: Vec<Published>| messages.into_iter().map(|message| message.id).collect();
    let unknown =
        rest.iter().any(|message| message.outcome == Outcome::Unknown && !was_returned(&message.id));
    let verdict = match rest.first() {
        None => Verdict::AllConfirmed,
        Some(_) if unknown => Verdict::Unknown(failure.unwrap_or(Failure::Deadline)),
        Some(first) if was_returned(&first.id) => Verdict::Returned,
        Some(_) => Verdict::Refused,
    };
    Settled {
        verdict,
        published: messages.len(),
        confirmed_prefix: u64::try_from(prefix).unwrap_or(u64::MAX),
        in_doubt: ids(in_doubt),
        refused: ids(refused),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(index: usize) -> MessageId {
        MessageId([u8::try_from(index).unwrap(); 24])
    }

    fn published() -> impl Strategy<Value = Vec<(Outcome, bool, bool)>> {
        let outcome = prop_oneof![Just(Outcome::Confirmed), Just(Outcome::Refused), Just(Outcome::Unknown)];
        prop::collection::vec((outcome, any::<bool>(), any::<bool>()), 0..40)
    }

    proptest! {
        #[test]
        fn the_prefix_is_certain_and_whatever_may_be_on_a_queue_is_named(cases in published()) {
            let message = |(i, (outcome, _, delayed)): (usize, &(Outcome, bool, bool))| {
                Published { id: id(i), outcome: *outcome, may_be_delayed: *delayed }
            };
            let messages: Vec<_> = cases.iter().enumerate().map(message).collect();
            let returned: HashSet<_> = cases
                .iter()
                .enumerate()
                .filter(|(_, (_, returned, _))| *returned)
                .map(|(i, _)| id(i).to_hex())
                .collect();
            let settled = judge(&messages, &returned, None);
            let prefix = usize::try_from(settled.confirmed_prefix).unwrap();
            for (i, (outcome, returned, delayed)) in cases.iter().enumerate() {
                let confirmed = *outcome == Outcome::Confirmed && !returned;
                let may_be_there = !returned || *delayed;
                let was_refused = *outcome == Outcome::Refused;
                prop_assert!(i >= prefix || confirmed);
                let is_in = |ids: &[MessageId]| ids.contains(&id(i));
                prop_assert_eq!(is_in(&settled.in_doubt), i >= prefix && may_be_there && !was_refused);
                prop_assert_eq!(is_in(&settled.refused), i >= prefix && may_be_there && was_refused);
            }
            prop_assert_eq!(matches!(settled.verdict, Verdict::AllConfirmed), prefix == cases.len());
            let doubts = settled.in_doubt.len() + settled.refused.len();
            prop_assert_eq!(settled.all_in_doubt().len(), doubts);
        }
    }
}
