//! Publishes messages to a queue or an exchange. The broker confirms each of them.

use std::time::Duration;

use async_trait::async_trait;
use broker::{Deadline, Latencies, Pacer, ReadyToPut};
use lapin::options::ConfirmSelectOptions;
use mq::{Access, BrokerError, Outgoing, ProduceFailure, ProduceReport, Transaction, Warnings};
use tokio::sync::watch;

use crate::errors::{Failure, NO_ROUTE};
use crate::message::{check, check_all, properties};
use crate::pool::Pool;
use crate::publish_destination::PublishDestination;
use crate::refusal;
use crate::session::{Session, call};
use crate::window::{Settled, Verdict, Window};

/// Maximum time for which a rate-limited produce adds messages to a window (a group of messages
/// whose confirms are awaited together).
const WINDOW_TIME: Duration = Duration::from_millis(250);

/// Minimum pause before the next message of a rate-limited produce in which the confirms of the
/// current window (group of messages) are awaited. In a shorter pause, the window stays open.
const PAUSE: Duration = Duration::from_millis(20);

/// Time reserved before the deadline for the confirms of the last window (group of messages).
const MARGIN: Duration = Duration::from_millis(500);

/// Connection of a produce on which nothing has been published yet.
pub(crate) struct Connected<'a> {
    session: Session,
    destination: PublishDestination<'a>,
    outgoing: &'a Outgoing,
    /// Size in bytes of the largest frame with a message's properties.
    largest: usize,
}

/// Connects for a produce, after checking that RabbitMQ can do what the request asks for.
pub(crate) async fn connect<'a>(
    pool: &Pool,
    access: &Access,
    destination: PublishDestination<'a>,
    outgoing: &'a Outgoing,
    deadline: Deadline,
) -> Result<Connected<'a>, BrokerError> {
    let largest = refuse_up_front(outgoing)?;
    let session = pool.acquire(access, deadline).await?;
    Ok(Connected { session, destination, outgoing, largest })
}

#[async_trait]
impl ReadyToPut for Connected<'_> {
    fn cluster(&self) -> Option<&str> {
        self.session.server.cluster.as_deref()
    }

    async fn put(
        self: Box<Self>,
        from: u64,
        confirmed: &watch::Sender<u64>,
        deadline: Deadline,
    ) -> Result<ProduceReport, ProduceFailure> {
        let Self { session, destination, outgoing, largest } = *self;
        let nothing = |error| ProduceFailure { error, committed: from, in_doubt: Vec::new() };
        if largest > session.frame_max()
            && let Err(error) = fits_frames(outgoing, from, session.frame_max())
        {
            session.release(deadline).await;
            return Err(nothing(error));
        }
        if let Err(failure) =
            call(deadline, session.channel().confirm_select(ConfirmSelectOptions::default())).await
        {
            return Err(nothing(destination.fail(session, failure)));
        }
        let mut producer = Producer {
            destination,
            outgoing,
            transaction: outgoing.transaction(),
            confirmed,
            from,
            next: from,
            bytes: 0,
            pacer: outgoing.rate_limit_per_sec().map(|rate| Pacer::new(rate, tokio::time::Instant::now())),
            due: None,
            latencies: Latencies::default(),
            deadline,
            stop_at: deadline.earlier_by(MARGIN.min(deadline.remaining() / 4)),
        };
        match producer.run(&session).await {
            Ok(()) => {
                session.release(deadline).await;
                Ok(producer.report())
            }
            Err(stop) => Err(producer.explain(stop, session).await),
        }
    }
}

struct Producer<'a> {
    destination: PublishDestination<'a>,
    outgoing: &'a Outgoing,
    transaction: Transaction,
    confirmed: &'a watch::Sender<u64>,
    from: u64,
    /// Index of the first message that is not known to be on the queue.
    next: u64,
    bytes: u64,
    pacer: Option<Pacer>,
    /// Time at which the next message is due; `None` if it is not computed yet.
    due: Option<tokio::time::Instant>,
    latencies: Latencies,
    deadline: Deadline,
    stop_at: Deadline,
}

/// Reason why a produce stopped before its last message.
enum Stop {
    /// No time is left, or AMQP cannot carry the next message, as the error says.
    Error(BrokerError),
    Window(Settled),
}

impl Producer<'_> {
    async fn run(&mut self, session: &Session) -> Result<(), Stop> {
        while self.next < self.outgoing.count() {
            if self.stop_at.has_passed() || self.due.is_some_and(|due| due >= self.stop_at.instant()) {
                let (next, count) = (self.next, self.outgoing.count());
                let detail = format!("the time ended after {next} of {count} messages");
                return Err(Stop::Error(BrokerError::timeout(detail)));
            }
            let mut window = Window::new(session, self.destination.exchange(), self.confirmed, self.next);
            let unusable = self.fill(&mut window).await.err();
            let bytes = u64::try_from(window.bytes()).unwrap_or(u64::MAX);
            let settled = window.settle(&mut self.latencies, self.deadline).await;
            self.next += settled.confirmed_prefix;
            match settled.verdict {
                Verdict::AllConfirmed => self.bytes += bytes,
                _ => return Err(Stop::Window(settled)),
            }
            if let Some(error) = unusable {
                return Err(Stop::Error(error));
            }
        }
        Ok(())
    }

    /// Publishes the messages of one window (a group whose confirms are awaited together), up to
    /// the first message that AMQP cannot carry.
    async fn fill(&mut self, window: &mut Window<'_>) -> Result<(), BrokerError> {
        // The first message is published alone: that proves whether the queue exists.
        let limit = if self.next == self.from { 1 } else { self.left_in_transaction() };
        let end = self.next.saturating_add(limit);
        for message in (self.next..end).map_while(|index| self.outgoing.message(index)) {
            window.wait_for_room(&mut self.latencies, self.stop_at).await;
            if window.is_broken() || !self.wait_for_turn(window).await || self.stop_at.has_passed() {
                break;
            }
            let properties = properties(self.outgoing, &message)?;
            let routing_key = self.destination.routing_key(self.outgoing, message.sequence)?;
            window.publish(message.id, routing_key, message.body, properties, &mut self.latencies);
            self.due = None;
            let is_due = self.pacer.is_some() && window.opened().elapsed() >= WINDOW_TIME;
            if window.is_broken() || is_due {
                break;
            }
        }
        Ok(())
    }

    /// Waits until the rate limit allows the next message. Returns `false` if the message must wait
    /// for a later window: the confirms of the current window (group of messages) should be awaited
    /// first, or no time is left.
    async fn wait_for_turn(&mut self, window: &mut Window<'_>) -> bool {
        let Some(pacer) = &mut self.pacer else { return true };
        let now = tokio::time::Instant::now();
        let due = *self.due.get_or_insert_with(|| pacer.due(now));
        if due <= now {
            return true;
        }
        if due >= self.stop_at.instant() || (window.len() > 0 && due - now >= PAUSE) {
            return false;
        }
        window.idle_until(due, &mut self.latencies).await;
        true
    }

    fn left_in_transaction(&self) -> u64 {
        if !self.transaction.enabled {
            return u64::MAX;
        }
        let size = u64::from(self.transaction.tx_size.get());
        size - (self.next - self.from) % size
    }

    fn report(&self) -> ProduceReport {
        let enqueued = self.next.saturating_sub(self.from);
        let wire_id = |index: u64| Some(self.outgoing.message_id(index).to_hex().into_bytes());
        let mut warnings = Warnings::default();
        if self.outgoing.has_priorities() {
            warnings.push("RabbitMQ honours a priority only on queues declared with x-max-priority");
        }
        let transactions = if self.transaction.enabled {
            warnings
                .push("a transaction on RabbitMQ is a group of confirmed messages; it is not all or nothing");
            enqueued.div_ceil(u64::from(self.transaction.tx_size.get()))
        } else {
            0
        };
        ProduceReport {
            enqueued,
            bytes: self.bytes,
            transactions,
            atomic: false,
            latency: self.latencies.report(),
            first_id: (enqueued > 0).then(|| wire_id(self.from)).flatten(),
            last_id: (enqueued > 0).then(|| wire_id(self.next.saturating_sub(1))).flatten(),
            warnings,
        }
    }

    /// Ends the session of a stopped produce. Returns the error, how many messages are on the
    /// queue, and which are in doubt (may be on the queue).
    async fn explain(self, stop: Stop, session: Session) -> ProduceFailure {
        let committed = self.next;
        let destination = self.destination;
        let fail = |error, in_doubt| ProduceFailure { error, committed, in_doubt };
        match stop {
            Stop::Error(error) => {
                session.release(self.deadline).await;
                fail(error, Vec::new())
            }
            Stop::Window(settled) => match &settled.verdict {
                Verdict::Unknown(failure) => {
                    unknown(failure.clone(), session, destination, settled, committed)
                }
                Verdict::Refused => {
                    let refusal = refusal::explain(&session, destination, self.deadline).await;
                    session.release(self.deadline).await;
                    let in_doubt = if refusal.is_nowhere { settled.in_doubt } else { settled.all_in_doubt() };
                    fail(refusal.error, in_doubt)
                }
                Verdict::Returned | Verdict::AllConfirmed => {
                    session.release(self.deadline).await;
                    fail(destination.unroutable().with_reply(NO_ROUTE), settled.all_in_doubt())
                }
            },
        }
    }
}

/// Builds the failure for a window (group of published messages) in which some messages were
/// neither confirmed nor refused. `committed` is the number of the produce's first messages that
/// are on the queue. All messages without a confirm are in doubt: they may be on a queue. Refused
/// ones are, too, since the broker cannot be asked on a broken connection. If the broker refused
/// the only message, none is in doubt.
fn unknown(
    failure: Failure,
    session: Session,
    destination: PublishDestination<'_>,
    settled: Settled,
    committed: u64,
) -> ProduceFailure {
    let refused_alone = is_refused_alone(&failure, settled.published);
    let in_doubt = settled.all_in_doubt();
    let why = session.blocked_note();
    let error = destination.fail(session, failure);
    if refused_alone {
        return ProduceFailure { error, committed, in_doubt: Vec::new() };
    }
    let detail = format!("{} messages were sent and not confirmed: {error}{why}", in_doubt.len());
    let error = error.left_in_doubt(detail);
    ProduceFailure { error, committed, in_doubt }
}

/// True if only one message was `published` on the channel, and the broker closed the channel over
/// it: the message was refused. With several messages, it is unknown which were stored.
fn is_refused_alone(failure: &Failure, published: usize) -> bool {
    published == 1 && failure.spares_the_connection()
}

/// Checks that RabbitMQ can do what the request asks for. Returns the size of the largest frame
/// with a message's properties.
fn refuse_up_front(outgoing: &Outgoing) -> Result<usize, BrokerError> {
    let transaction = outgoing.transaction();
    if transaction.enabled && transaction.atomic {
        let detail = "RabbitMQ has no transaction that is all or nothing; ask without `atomic`";
        return Err(BrokerError::unsupported_member("/batch/transaction/atomic", detail));
    }
    check_all(outgoing)
}

/// Checks, before any message is sent, that the properties of each message from index `from` on fit
/// into one frame.
fn fits_frames(outgoing: &Outgoing, from: u64, frame_max: usize) -> Result<(), BrokerError> {
    for index in from..outgoing.count() {
        let Some(size) = check(outgoing, index)? else { continue };
        if size > frame_max {
            return Err(BrokerError::too_large(format!(
                "the properties of message {index} take {size} bytes; RabbitMQ accepts {frame_max} here"
            )));
        }
        if !outgoing.differs_by_message() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lapin::ErrorKind;
    use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};

    use super::*;

    fn closed(kind: AMQPErrorKind) -> Failure {
        lapin::Error::from(ErrorKind::ProtocolError(AMQPError::new(kind, "message size".into()))).into()
    }

    #[test]
    fn a_channel_closed_over_one_of_several_messages_refuses_none_for_certain() {
        let channel = closed(AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED));
        assert!(is_refused_alone(&channel, 1));
        for published in [0, 2, 3, 1_000] {
            assert!(!is_refused_alone(&channel, published), "{published}");
        }
        let connection = closed(AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED));
        assert!(!is_refused_alone(&connection, 1));
        assert!(!is_refused_alone(&Failure::Deadline, 1));
    }
}
