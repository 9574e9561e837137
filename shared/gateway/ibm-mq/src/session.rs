//! Session: the connection of one operation.

use std::ops::Deref;

use broker::{Deadline, PooledConnection};
use libmqm_sys as mqi;
use mq::{BrokerError, IdleRule};
use tokio::sync::oneshot;

use crate::errors::During;
use crate::mqi::{Connection, Refusal, Verb};
use crate::owned::Owned;
use crate::worker::{WorkerError, wait_for};

/// Sender by which a job on the connection's thread reports the result of its first call.
pub(crate) type Told<T> = oneshot::Sender<Result<T, Refusal>>;

/// Returns what a job has opened, with the sender. `None` after a refusal, which is sent.
pub(crate) fn unless_refused<O, T>(opened: Result<O, Refusal>, told: Told<T>) -> Option<(O, Told<T>)> {
    match opened {
        Ok(opened) => Some((opened, told)),
        Err(refusal) => {
            let _ = told.send(Err(refusal));
            None
        }
    }
}

/// A connection in use. Dropping it ends the connection, and backs out uncommitted work.
pub(crate) struct Session(pub(crate) PooledConnection<Owned>);

/// Reason why an operation on a connection failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    NoAnswer(#[from] WorkerError),
}

impl Failure {
    /// True if a commit that failed in this way may have happened.
    pub(crate) fn may_have_committed(self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.may_have_committed(),
            Self::NoAnswer(_) => true,
        }
    }

    /// True if the first call on an idle connection shows that the connection is lost. A quiescing
    /// queue manager is an answer, which another connection would not change.
    pub(crate) fn is_of_a_lost_connection(self) -> bool {
        match self {
            Self::Refused(Refusal { reason: mqi::MQRC_Q_MGR_QUIESCING, .. }) => false,
            // If the backout of an earlier operation fails, the connection cannot be used.
            Self::Refused(Refusal { verb: Verb::BackOut, .. }) => true,
            Self::Refused(refusal) => !refusal.spares_the_connection(),
            Self::NoAnswer(_) => true,
        }
    }

    pub(crate) fn into_error(self, during: During<'_>) -> BrokerError {
        match self {
            Self::Refused(refusal) => refusal.into_error(during),
            Self::NoAnswer(WorkerError::TimedOut) => BrokerError::timeout("IBM MQ did not answer in time"),
            Self::NoAnswer(WorkerError::Gone) => {
                BrokerError::unreachable("the connection to IBM MQ was lost").caused_by(self)
            }
        }
    }
}

impl Deref for Session {
    type Target = Owned;

    fn deref(&self) -> &Owned {
        self.0.connection()
    }
}

impl Session {
    /// Identifier of the queue manager, which no other queue manager has.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.queue_manager().map(|queue_manager| queue_manager.id.as_str()).filter(|id| !id.is_empty())
    }

    /// Runs `job` on the connection's thread.
    ///
    /// # Errors
    /// The refusal of the job's call, or no answer in time. The connection must not be used again
    /// then.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Connection) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(self.worker.run(deadline, job).await??)
    }

    /// Waits for a later answer of a job on the connection's thread.
    pub(crate) async fn answer<T>(
        &self,
        answer: oneshot::Receiver<Result<T, Refusal>>,
        deadline: Deadline,
    ) -> Result<T, Failure> {
        Ok(wait_for(answer, deadline).await??)
    }

    /// Begins a job on the connection's thread, which receives its instructions while it runs.
    pub(crate) fn begin(&self, job: impl FnOnce(&Connection) + Send + 'static) -> Result<(), Failure> {
        Ok(self.worker.begin(job)?)
    }

    /// Keeps the connection for the next request, or ends it if its target's rule requires that. No
    /// unit of work may be open on it.
    pub(crate) fn finish(self) {
        if self.0.key().idle() == IdleRule::Keep {
            self.0.release();
        }
    }

    /// Backs out uncommitted work, and keeps the connection if that succeeded.
    pub(crate) async fn back_out(self, deadline: Deadline) -> Result<(), Failure> {
        self.call(deadline, Connection::back_out).await?;
        self.finish();
        Ok(())
    }

    /// Ends the session after `failure`, and returns the resulting error. Uncommitted work is
    /// backed out.
    pub(crate) async fn fail(self, failure: Failure, during: During<'_>, deadline: Deadline) -> BrokerError {
        if let Failure::Refused(refusal) = failure
            && refusal.spares_the_connection()
        {
            // If this fails, the end of the connection backs out as well.
            let _ = self.back_out(deadline).await;
        } else {
            self.0.abandon("an operation on it failed");
        }
        failure.into_error(during)
    }
}
