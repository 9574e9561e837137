//! Publishes in flight and what the broker said of each.

use std::collections::HashSet;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Confirmation, PublisherConfirm};
use mq::{Deadline, MessageId};

use crate::errors::Failure;
use crate::latency::Latencies;
use crate::progress::Progress;
use crate::session::{Session, call};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Confirmed,
    Refused,
}

/// The publishes that may await their confirms at a time, counted from the oldest that does.
const MAX_MESSAGES: usize = 1000;
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Publishes on one channel, of which a limited number is in flight. The broker's answers are judged together at the
/// end, when all have come, never one by one: the client library attaches a returned message to any confirm that is
/// near, not to its own.
pub(crate) struct Window<'a> {
    session: &'a Session,
    queue: ShortString,
    progress: Progress<'a>,
    /// What the connection had seen returned before.
    earlier_returns: u64,
    messages: Vec<(MessageId, Outcome)>,
    /// The first message that is not confirmed.
    oldest: usize,
    returned: HashSet<String>,
    pending: FuturesUnordered<Pending>,
    refused: bool,
    failure: Option<Failure>,
    bytes: usize,
    bytes_in_flight: usize,
    opened: Instant,
}

/// What became of a window.
#[derive(Debug)]
pub(crate) enum Verdict {
    AllConfirmed,
    /// No queue took the first message that was not confirmed.
    Returned,
    /// The broker refused the first message that was not confirmed.
    Refused,
    /// What became of some messages is not known.
    Unknown(Failure),
}

/// A settled window.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) verdict: Verdict,
    /// How many messages were published.
    pub(crate) published: usize,
    /// How many from the first one on are on the queue.
    pub(crate) prefix: u64,
    /// Which of the rest are, or may be, on the queue.
    pub(crate) in_doubt: Vec<MessageId>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(session: &'a Session, queue: ShortString, progress: Progress<'a>) -> Self {
        Self {
            session,
            queue,
            progress,
            earlier_returns: session.returns(),
            messages: Vec::new(),
            oldest: 0,
            returned: HashSet::new(),
            pending: FuturesUnordered::new(),
            refused: false,
            failure: None,
            bytes: 0,
            bytes_in_flight: 0,
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

    /// Whether something went wrong, so that publishing more would only make more uncertain.
    pub(crate) fn is_broken(&self) -> bool {
        self.failure.is_some() || self.refused || !self.returned.is_empty()
    }

    /// Waits until another message may be in flight, taking note of the confirms that come.
    pub(crate) async fn wait_for_room(&mut self, latencies: &mut Latencies, until: Deadline) {
        while !self.has_room() && !self.is_broken() {
            match until.run(self.pending.next()).await {
                Ok(Some(answer)) => self.note(answer, latencies),
                Ok(None) | Err(_) => return,
            }
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.messages.len() - self.oldest < MAX_MESSAGES && self.bytes_in_flight < MAX_BYTES
    }

    /// Publishes a message, and takes note of the confirms that have come meanwhile.
    pub(crate) async fn publish(
        &mut self,
        id: MessageId,
        body: &[u8],
        properties: BasicProperties,
        latencies: &mut Latencies,
        deadline: Deadline,
    ) {
        let at = Instant::now();
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let position = self.messages.len();
        self.messages.push((id, Outcome::Unknown));
        self.bytes += body.len();
        self.bytes_in_flight += body.len();
        let publish = self.session.channel().basic_publish(
            ShortString::default(),
            self.queue.clone(),
            options,
            body,
            properties,
        );
        match call(deadline, publish).await {
            Ok(confirm) => self.pending.push(Pending { position, bytes: body.len(), at, confirm }),
            Err(failure) => self.fail(failure),
        }
        while let Some(Some(answer)) = self.pending.next().now_or_never() {
            self.note(answer, latencies);
        }
    }

    /// Waits until `due`, taking note of the confirms that come.
    pub(crate) async fn idle_until(&mut self, due: tokio::time::Instant, latencies: &mut Latencies) {
        let until = Deadline::at(due);
        while let Ok(Some(answer)) = until.run(self.pending.next()).await {
            self.note(answer, latencies);
        }
        tokio::time::sleep_until(due).await;
    }

    /// Waits for all answers until `deadline`.
    pub(crate) async fn settle(mut self, latencies: &mut Latencies, deadline: Deadline) -> Settled {
        loop {
            match deadline.run(self.pending.next()).await {
                Ok(Some(answer)) => self.note(answer, latencies),
                Ok(None) => break,
                Err(_) => {
                    self.fail(Failure::Deadline);
                    break;
                }
            }
        }
        judge(&self.messages, &self.returned, self.failure)
    }

    fn note(&mut self, answer: Answer, latencies: &mut Latencies) {
        let (outcome, returned) = match answer.confirmation {
            Ok(Confirmation::Ack(returned)) => (Outcome::Confirmed, returned),
            Ok(Confirmation::Nack(returned)) => (Outcome::Refused, returned),
            Ok(Confirmation::NotRequested) => (Outcome::Unknown, None),
            Err(error) => {
                self.fail(Failure::Amqp(error));
                (Outcome::Unknown, None)
            }
        };
        if outcome == Outcome::Confirmed {
            latencies.record(answer.at.elapsed());
        }
        self.refused |= outcome == Outcome::Refused;
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(answer.bytes);
        self.returned.extend(returned.and_then(|message| message_id(&message)));
        if let Some((_, noted)) = self.messages.get_mut(answer.position) {
            *noted = outcome;
        }
        while self.messages.get(self.oldest).is_some_and(|(_, outcome)| *outcome == Outcome::Confirmed) {
            self.oldest += 1;
        }
        self.tell_progress();
    }

    /// Tells how many messages are certain to be on the queue. A confirm alone makes none certain: a message that was
    /// returned is confirmed too, and the library may hand out its return with another confirm, even one that is not
    /// noted yet. On the wire a message's return comes before its confirm, and the connection counts returns before the
    /// library sees them; so as long as none was counted, nothing that was confirmed up to now was returned.
    fn tell_progress(&self) {
        if self.session.returns() == self.earlier_returns {
            self.progress.tell(self.oldest);
        }
    }

    /// Keeps the failure that says most: the broker's own words, if there are any.
    fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() || failure.reply().is_some() {
            self.failure = Some(failure);
        }
    }
}

fn message_id(returned: &BasicReturnMessage) -> Option<String> {
    returned.properties.message_id().as_ref().map(ToString::to_string)
}

fn judge(messages: &[(MessageId, Outcome)], returned: &HashSet<String>, failure: Option<Failure>) -> Settled {
    let was_returned = |id: &MessageId| !returned.is_empty() && returned.contains(&id.to_hex());
    let is_on_queue =
        |(id, outcome): &&(MessageId, Outcome)| *outcome == Outcome::Confirmed && !was_returned(id);
    let prefix = messages.iter().take_while(is_on_queue).count();
    let rest = messages.get(prefix..).unwrap_or_default();
    let in_doubt = rest
        .iter()
        .filter(|(id, outcome)| *outcome != Outcome::Refused && !was_returned(id))
        .map(|(id, _)| *id)
        .collect();
    let unknown = rest.iter().any(|(id, outcome)| *outcome == Outcome::Unknown && !was_returned(id));
    let verdict = match rest.first() {
        None => Verdict::AllConfirmed,
        Some(_) if unknown => Verdict::Unknown(failure.unwrap_or(Failure::Deadline)),
        Some((id, _)) if was_returned(id) => Verdict::Returned,
        Some(_) => Verdict::Refused,
    };
    Settled {
        verdict,
        published: messages.len(),
        prefix: u64::try_from(prefix).unwrap_or(u64::MAX),
        in_doubt,
    }
}

/// A confirm that is awaited.
struct Pending {
    position: usize,
    bytes: usize,
    at: Instant,
    confirm: PublisherConfirm,
}

struct Answer {
    position: usize,
    bytes: usize,
    at: Instant,
    confirmation: lapin::Result<Confirmation>,
}

impl Future for Pending {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let (position, bytes, at) = (self.position, self.bytes, self.at);
        Pin::new(&mut self.confirm).poll(cx).map(|confirmation| Answer { position, bytes, at, confirmation })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(index: usize) -> MessageId {
        MessageId([u8::try_from(index).unwrap(); 24])
    }

    fn outcomes() -> impl Strategy<Value = Vec<(Outcome, bool)>> {
        let outcome = prop_oneof![Just(Outcome::Confirmed), Just(Outcome::Refused), Just(Outcome::Unknown)];
        prop::collection::vec((outcome, any::<bool>()), 0..40)
    }

    proptest! {
        #[test]
        fn the_prefix_is_certain_and_whatever_may_be_on_the_queue_is_named(cases in outcomes()) {
            let messages: Vec<_> = cases.iter().enumerate().map(|(i, (outcome, _))| (id(i), *outcome)).collect();
            let returned: HashSet<_> = cases
                .iter()
                .enumerate()
                .filter(|(_, (_, returned))| *returned)
                .map(|(i, _)| id(i).to_hex())
                .collect();
            let settled = judge(&messages, &returned, None);
            let prefix = usize::try_from(settled.prefix).unwrap();
            for (i, (outcome, returned)) in cases.iter().enumerate() {
                let confirmed = *outcome == Outcome::Confirmed && !returned;
                let may_be_there = *outcome != Outcome::Refused && !returned;
                prop_assert!(i >= prefix || confirmed);
                prop_assert_eq!(settled.in_doubt.contains(&id(i)), i >= prefix && may_be_there);
            }
            prop_assert_eq!(matches!(settled.verdict, Verdict::AllConfirmed), prefix == cases.len());
        }
    }
}
