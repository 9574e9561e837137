//! Publishes the messages of a load test one by one, each confirmed by the broker.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use broker::Deadline;
use broker::load::{Confirmation, LoadProducer, Outcome, PutEnd, PutOptions};
use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use lapin::types::ShortString;
use mq::{Access, BrokerError, MessageId, OutgoingMessage, QueueName};

use super::stamped;
use crate::content_header;
use crate::errors::{During, Failure, NO_ROUTE};
use crate::in_flight::{BATCH, InFlight, Landed};
use crate::message::check_all;
use crate::pool::Pool;
use crate::publish::{self, Publish};
use crate::refusal;
use crate::session::{Session, call, short};

/// Producer of a load test, on its own connection. Dropping it closes the connection.
pub(crate) struct Producer<'a> {
    // First, so that the channel of a closed connection sends nothing.
    session: Session,
    /// Channel of the session, shared for messages that outlive a borrow of the session.
    channel: Arc<Channel>,
    queue: &'a QueueName,
    options: &'a PutOptions,
    /// Number of messages that the broker had returned on this connection before the producer
    /// began.
    earlier_returns: u64,
    in_flight: InFlight<'static, Mark>,
    /// Number of messages published in the current transaction.
    in_transaction: usize,
    /// Confirmations that a returned message (`basic.return`) may still contradict: the client
    /// library may attach the returned message to the confirm of another one.
    unproven: Vec<(MessageId, Confirmation)>,
    /// Confirmations that are final, because no returned message can contradict them.
    proven: Vec<Confirmation>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    sequence: u64,
    id: MessageId,
}

/// Connects for a load producer, after checking that RabbitMQ can carry the properties of its
/// messages.
pub(crate) async fn connect<'a>(
    pool: &Pool,
    access: &Access,
    queue: &'a QueueName,
    options: &'a PutOptions,
    deadline: Deadline,
) -> Result<Producer<'a>, BrokerError> {
    check_all(&options.outgoing)?;
    let size = content_header::frame_size(stamped(options, &options.outgoing.with_body(0, Vec::new()), 0)?);
    let session = pool.acquire(access, deadline).await?;
    let most = session.frame_max();
    if let Some(size) = size.filter(|size| *size > most) {
        session.release(deadline).await;
        return Err(BrokerError::too_large(format!(
            "the properties of a message take {size} bytes; RabbitMQ accepts {most} here"
        )));
    }
    let confirms = session.channel().confirm_select(ConfirmSelectOptions::default());
    if let Err(failure) = call(deadline, confirms).await {
        return Err(session.fail(failure, During::Queue(queue)));
    }
    Ok(Producer {
        channel: Arc::new(session.channel().clone()),
        queue,
        options,
        earlier_returns: session.noticed.returns(),
        in_flight: InFlight::default(),
        in_transaction: 0,
        unproven: Vec::new(),
        proven: Vec::new(),
        session,
    })
}

impl Producer<'_> {
    fn has_room(&self) -> bool {
        let transaction = self.options.transaction.get();
        let is_complete = transaction > 1 && self.in_transaction >= transaction;
        self.in_flight.has_room(self.options.confirms_in_flight.get())
            && (!is_complete || self.in_flight.is_empty())
    }

    fn has_returns(&self) -> bool {
        self.session.noticed.returns() != self.earlier_returns
    }

    /// Returns the reason why no more messages can be put; `None` if they can.
    fn ended(&self) -> Option<BrokerError> {
        match &self.in_flight.failure {
            Some(failure) => Some(failure.clone().into_error(During::Queue(self.queue))),
            None => self.has_returns().then(|| no_queue(self.queue)),
        }
    }

    /// Records the confirms that have arrived, up to the first message without one.
    fn note_answers(&mut self) {
        while let Some(answered) = self.in_flight.take_answered() {
            self.note(answered);
        }
        // On the wire a message's return comes before its confirm, and the connection counts
        // returns before the library sees them. So as long as none was counted, no message
        // confirmed so far was returned.
        if !self.has_returns() {
            self.proven.extend(self.unproven.drain(..).map(|(_, confirmation)| confirmation));
        }
    }

    fn note(&mut self, Landed { mark, at, outcome }: Landed<Mark>) {
        let outcome = match outcome {
            publish::Outcome::Confirmed => Outcome::Confirmed,
            publish::Outcome::Refused => Outcome::Refused,
            publish::Outcome::Unknown => Outcome::InDoubt,
        };
        let confirmation = Confirmation { sequence: mark.sequence, sent_at: at, at: Instant::now(), outcome };
        self.unproven.push((mark.id, confirmation));
    }
}

#[async_trait]
impl LoadProducer for Producer<'_> {
    async fn put(
        &mut self,
        message: OutgoingMessage,
        sent_at_us: u64,
        deadline: Deadline,
    ) -> Result<(), BrokerError> {
        self.note_answers();
        while !self.has_room() && self.ended().is_none() {
            if deadline.run(self.in_flight.some_answered()).await.is_err() {
                return Err(BrokerError::timeout(format!(
                    "RabbitMQ did not confirm enough of the messages before this one in time{}",
                    self.session.blocked_note()
                )));
            }
            self.note_answers();
        }
        if let Some(error) = self.ended() {
            return Err(error);
        }
        if self.in_transaction >= self.options.transaction.get() {
            self.in_transaction = 0;
        }
        let properties = stamped(self.options, &message, sent_at_us)?;
        let OutgoingMessage { id, sequence, body, .. } = message;
        let (bytes, at) = (body.len(), Instant::now());
        let channel = Arc::clone(&self.channel);
        let publish = Publish::begin(channel, ShortString::default(), short(self.queue), body, properties);
        if let Some(failure) = publish.failure() {
            self.in_flight.fail(failure.clone());
            return Err(failure.clone().into_error(During::Queue(self.queue)));
        }
        self.in_flight.push(Mark { sequence, id }, bytes, at, publish);
        self.in_transaction += 1;
        Ok(())
    }

    async fn idle_until(&mut self, due: tokio::time::Instant) {
        let until = Deadline::at(due);
        // Timers are precise to a millisecond, in which several messages fall due at a high rate.
        // So each answer that comes is an occasion to look at the clock.
        while !until.has_passed() {
            if self.in_flight.is_empty() {
                tokio::time::sleep_until(due).await;
            } else if until.run(self.in_flight.answered(0)).await.is_ok() {
                self.note_answers();
            }
        }
    }

    fn confirmations(&mut self) -> Vec<Confirmation> {
        self.note_answers();
        std::mem::take(&mut self.proven)
    }

    async fn finish(mut self: Box<Self>, deadline: Deadline) -> PutEnd {
        self.note_answers();
        while !self.in_flight.is_empty() {
            if deadline.run(self.in_flight.answered(BATCH)).await.is_err() {
                self.in_flight.fail(Failure::Deadline);
                break;
            }
            self.note_answers();
        }
        for late in self.in_flight.take_all() {
            self.note(late);
        }
        let has_returns = self.has_returns();
        let Self { session, queue, unproven, proven, in_flight, .. } = *self;
        let InFlight { returned, was_refused, failure, .. } = in_flight;
        let mut confirmations = proven;
        confirmations.extend(judged(unproven, &returned));
        if let Some(failure) = failure {
            let note = session.blocked_note();
            let error = session.fail(failure, During::Queue(queue));
            let error = Some(unconfirmed(&confirmations, error, &note));
            return PutEnd { confirmations, error };
        }
        let error = match was_refused {
            _ if has_returns => Some(no_queue(queue)),
            true => Some(refusal::by_queue(&session, queue, deadline).await.error),
            false => None,
        };
        session.release(deadline).await;
        PutEnd { confirmations, error }
    }
}

/// Builds the error for messages that the broker returned because the queue does not exist.
fn no_queue(queue: &QueueName) -> BrokerError {
    BrokerError::queue_not_found(queue.clone()).with_reply(NO_ROUTE)
}

/// Changes the outcome of returned messages to [`Outcome::Returned`], since the broker confirms
/// returned messages too.
fn judged(
    unproven: Vec<(MessageId, Confirmation)>,
    returned: &HashSet<String>,
) -> impl Iterator<Item = Confirmation> {
    unproven.into_iter().map(|(id, confirmation)| match returned.contains(&id.to_hex()) {
        true => Confirmation { outcome: Outcome::Returned, ..confirmation },
        false => confirmation,
    })
}

/// Adds to the error the number of messages in doubt (sent and not confirmed), if there are any,
/// and then the text `note`.
fn unconfirmed(confirmations: &[Confirmation], error: BrokerError, note: &str) -> BrokerError {
    let in_doubt = confirmations.iter().filter(|message| message.outcome == Outcome::InDoubt).count();
    if in_doubt == 0 {
        return error;
    }
    let detail = format!("{in_doubt} messages were sent and not confirmed: {error}{note}");
    error.left_in_doubt(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_came_back_is_not_confirmed_whichever_answer_brought_it() {
        let (id, now) = (|number: u8| MessageId([number; 24]), Instant::now());
        let answer = |sequence, outcome| Confirmation { sequence, sent_at: now, at: now, outcome };
        let answers = vec![
            (id(0), answer(0, Outcome::Confirmed)),
            (id(1), answer(1, Outcome::Confirmed)),
            (id(2), answer(2, Outcome::InDoubt)),
            (id(3), answer(3, Outcome::Refused)),
        ];
        let returned = HashSet::from([id(1).to_hex(), id(2).to_hex()]);
        let outcomes: Vec<_> = judged(answers, &returned).map(|message| message.outcome).collect();
        let expected = [Outcome::Confirmed, Outcome::Returned, Outcome::Returned, Outcome::Refused];
        assert_eq!(outcomes, expected);
    }
}
