//! Proof that an acknowledgement was applied. AMQP does not answer an acknowledgement, so a request
//! follows on the same channel, which the broker handles after it. This module alone decides which
//! answers to that request prove what, on which kind of queue.
//!
//! | the request is | not a quorum queue | a quorum queue | unknown type |
//! |---|---|---|---|
//! | answered | applied | applied once the count has fallen | taken as applied |
//! | refused: 403, 405 | applied | in doubt | in doubt |
//! | refused: 404 | in doubt | in doubt | in doubt |
//! | refused: 406 for an unknown tag | not applied | not applied | not applied |
//! | anything else | in doubt | in doubt | in doubt |
//!
//! A classic queue is one process, which receives what the channel sent before it learns of the
//! channel's end: a refusal (403, 405) comes after the acknowledgement. It may answer a request
//! before it applies an acknowledgement that arrived earlier, but then it applies it next. A queue
//! that does not exist (404) may be on a node that is lost, and return with it. A quorum queue may
//! lose its leader before it has applied the acknowledgement, and the channel that would send it
//! again is closed by each refusal.

use mq::{BrokerError, QueueName};

use broker::Deadline;

use crate::errors::{During, Failure};
use crate::leader::{ExpectedConsumers, Leadership};
use crate::session::{Counts, Session, inspect};

/// Reply code of AMQP 0-9-1 for a missing permission (section 1.2).
const ACCESS_REFUSED: i64 = 403;
const RESOURCE_LOCKED: i64 = 405;

/// Event by which an acknowledgement, which the broker does not answer, is known to be applied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof {
    /// Proof for a queue without an elected leader: the broker answers the next request on the
    /// channel of the acknowledgement.
    Answer,
    /// Best evidence for a queue of unknown type: the broker answers the next request on the
    /// channel of the acknowledgement. It is no proof if the queue has an elected leader.
    AnswerOfUnknownType,
    /// Proof for a quorum queue: its consumer count falls, which includes each channel that holds
    /// messages of the queue.
    Count(ExpectedConsumers),
}

/// Reason why it is unknown whether the queue has applied an acknowledgement.
#[derive(Debug)]
pub(crate) enum Unproven {
    Failure(Failure),
    /// The queue still counted the channels whose messages were acknowledged, until the time was
    /// over.
    CountDidNotFall,
}

impl From<Failure> for Unproven {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Unproven {
    /// True if the broker refused the delivery tag of the acknowledgement, which then had no
    /// effect.
    pub(crate) fn is_a_refused_tag(&self) -> bool {
        matches!(self, Self::Failure(failure) if failure.refuses_a_delivery_tag())
    }

    pub(crate) fn into_error(self, queue: &QueueName) -> BrokerError {
        match self {
            Self::Failure(failure) => failure.into_error(During::Queue(queue)),
            Self::CountDidNotFall => {
                BrokerError::timeout(format!("the quorum queue `{queue}` did not apply it in time"))
            }
        }
    }
}

impl Proof {
    /// Chooses the proof for the type of queue, before the acknowledgement is sent. For a quorum
    /// queue, reads the consumer count; `consumers` is the number of consumers whose messages will
    /// be acknowledged.
    ///
    /// # Errors
    /// If the queue has no leader in time, or cannot be queried. The caller must not acknowledge
    /// then.
    pub(crate) async fn prepare(
        leadership: Leadership,
        session: &Session,
        queue: &QueueName,
        consumers: usize,
        deadline: Deadline,
    ) -> Result<Self, BrokerError> {
        Ok(match leadership {
            Leadership::Elected => {
                Self::Count(ExpectedConsumers::count(session, queue, consumers, deadline).await?)
            }
            Leadership::Absent => Self::Answer,
            Leadership::Unknown => Self::AnswerOfUnknownType,
        })
    }

    /// True if the proof shows that other nodes have stored the acknowledgement. Otherwise the
    /// broker may have it only in memory.
    pub(crate) const fn is_replicated(self) -> bool {
        matches!(self, Self::Count(_))
    }

    /// Waits for the proof that the broker applied the acknowledgement, which must have been sent.
    /// Returns the queue's numbers of messages and consumers; `None` if the broker refused to
    /// report them, which proves it as well.
    ///
    /// # Errors
    /// If the proof does not arrive. The acknowledgement may or may not be applied then.
    pub(crate) async fn obtain(
        self,
        session: &Session,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<Option<Counts>, Unproven> {
        let answer = match self {
            Self::Count(expected) => expected.fewer(session, queue, deadline).await,
            Self::Answer | Self::AnswerOfUnknownType => {
                inspect(session.channel(), queue, deadline).await.map_err(Unproven::from)
            }
        };
        match answer {
            Ok(counts) => Ok(Some(counts)),
            Err(Unproven::Failure(failure)) if self.is_given_by_the_refusal(&failure) => Ok(None),
            Err(unproven) => Err(unproven),
        }
    }

    /// Evaluates the failure of the request that followed an acknowledgement on the same channel.
    /// True if it is a refusal that proves that the queue has applied the acknowledgement: one with
    /// the reply code 403 or 405, and only for [`Self::Answer`].
    fn is_given_by_the_refusal(self, failure: &Failure) -> bool {
        match (self, failure.reply()) {
            (Self::Answer, Some(reply)) => matches!(reply.code, ACCESS_REFUSED | RESOURCE_LOCKED),
            (Self::Answer, None) | (Self::AnswerOfUnknownType | Self::Count(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use lapin::ErrorKind;
    use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};

    use super::*;

    fn refused(kind: AMQPErrorKind) -> Failure {
        lapin::Error::from(ErrorKind::ProtocolError(AMQPError::new(kind, "refused".into()))).into()
    }

    #[test]
    fn a_refusal_proves_an_acknowledgement_only_where_no_leader_can_be_lost() {
        use AMQPErrorKind::{Hard, Soft};
        let all = [
            (Soft(AMQPSoftError::ACCESSREFUSED), true),
            (Soft(AMQPSoftError::RESOURCELOCKED), true),
            (Soft(AMQPSoftError::NOTFOUND), false),
            (Soft(AMQPSoftError::PRECONDITIONFAILED), false),
            (Hard(AMQPHardError::CONNECTIONFORCED), false),
            (Hard(AMQPHardError::INTERNALERROR), false),
        ];
        for (kind, proves) in all {
            let failure = refused(kind.clone());
            assert_eq!(Proof::Answer.is_given_by_the_refusal(&failure), proves, "{kind:?}");
            assert!(!Proof::AnswerOfUnknownType.is_given_by_the_refusal(&failure), "{kind:?}");
            let count = Proof::Count(ExpectedConsumers::default());
            assert!(!count.is_given_by_the_refusal(&failure), "{kind:?}");
        }
        for proof in [Proof::Answer, Proof::AnswerOfUnknownType] {
            assert!(!proof.is_given_by_the_refusal(&Failure::Deadline));
        }
    }
}
