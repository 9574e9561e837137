//! Outcome of a produce: which messages are on the queue, which may be, and why the others are not.

use libmqm_sys::MQLONG;
use mq::{BrokerError, MessageId, ProduceFailure, ProduceReport, Warnings};

use super::{Producer, UNIT_BYTES};
use crate::doubt::SearchedQueue;
use crate::errors::During;
use crate::members;
use crate::reason::Reason;
use crate::session::{Failure, Session};

/// Reason why a produce stopped before its last message was committed.
pub(super) enum Stop {
    OutOfTime,
    Unusable(String),
    /// A put failed. The number is the index of the message that the queue manager refused; `None`
    /// if it refused none, for example because the connection broke.
    Put(Failure, Option<u64>),
    Commit(Failure),
}

impl Producer<'_> {
    pub(super) fn report(&self) -> ProduceReport {
        let enqueued = self.next.saturating_sub(self.from);
        let wire_id = |index: u64| Some(self.outgoing.message_id(index).0.to_vec());
        let mut warnings = Warnings::default();
        if !self.transaction.enabled && self.units > 1 && self.pacer.is_none() {
            warnings.push(format!(
                "the messages took {} units of work, because one has at most {} messages and about {UNIT_BYTES} bytes",
                self.units, self.most
            ));
        }
        let warned = |(reason, count): (&MQLONG, &u64)| {
            let Reason { code, name, words, .. } = Reason::of(*reason);
            format!("IBM MQ warned of {count} of the messages ({code}, {name}). {words}")
        };
        warnings.extend(self.warned.iter().map(warned));
        ProduceReport {
            enqueued,
            bytes: self.bytes,
            transactions: if self.transaction.enabled { self.units } else { 0 },
            atomic: self.transaction.enabled || (self.units <= 1 && self.from == 0),
            latency: self.latencies.report(),
            first_id: (enqueued > 0).then(|| wire_id(self.from)).flatten(),
            last_id: (enqueued > 0).then(|| wire_id(self.next.saturating_sub(1))).flatten(),
            warnings,
        }
    }

    /// Ends the session of a stopped produce. Returns the error, the number of messages on the
    /// queue, and the ids of messages of unknown outcome. Returns a report instead if all messages
    /// turn out to be on the queue.
    pub(super) async fn explain(
        self,
        stop: Stop,
        session: Session,
        target: &SearchedQueue,
    ) -> Result<ProduceReport, ProduceFailure> {
        let deadline = self.deadline;
        let error = match stop {
            Stop::OutOfTime => {
                // If this fails, the end of the connection backs out as well.
                let _ = session.back_out(deadline).await;
                let of = self.outgoing.count();
                BrokerError::timeout(format!("the time ended after {} of {of} messages", self.next))
            }
            Stop::Unusable(detail) => {
                let _ = session.back_out(deadline).await;
                BrokerError::unsupported(detail)
            }
            Stop::Put(failure, at) => {
                let error = session.fail(failure, During::Queue(&target.queue), deadline).await;
                match (failure, at) {
                    (Failure::Refused(refusal), Some(at)) => {
                        members::blame(self.outgoing, at, refusal.reason, error)
                    }
                    _ => error,
                }
            }
            Stop::Commit(failure) if failure.may_have_committed() => {
                drop(session);
                return self.resolve(failure, target).await;
            }
            Stop::Commit(failure) => session.fail(failure, During::Queue(&target.queue), deadline).await,
        };
        Err(ProduceFailure { error, committed: self.next, in_doubt: Vec::new() })
    }

    /// Searches the queue for the messages of a unit of work whose commit has an unknown outcome.
    /// In the first attempt at the request, one found message proves that all were committed.
    /// Returns a report if all messages of the produce are on the queue, otherwise the failure.
    async fn resolve(
        mut self,
        failure: Failure,
        target: &SearchedQueue,
    ) -> Result<ProduceReport, ProduceFailure> {
        let ids: Vec<MessageId> =
            (self.next..self.index()).map(|index| self.outgoing.message_id(index)).collect();
        let is_first = self.outgoing.is_first_attempt();
        if !target.has_unit(&ids, is_first, self.deadline).await {
            let error = failure.into_error(During::Queue(&target.queue));
            let detail =
                format!("{} messages were put and their commit was not confirmed: {error}", ids.len());
            let error = error.left_in_doubt(detail);
            return Err(ProduceFailure { error, committed: self.next, in_doubt: ids });
        }
        self.committed();
        let (committed, of) = (self.next, self.outgoing.count());
        if committed >= of {
            return Ok(self.report());
        }
        let error = BrokerError::unreachable(format!(
            "the connection broke after a commit, which turned out to have happened; {committed} of {of} \
             messages are on the queue"
        ));
        Err(ProduceFailure { error, committed, in_doubt: Vec::new() })
    }
}
