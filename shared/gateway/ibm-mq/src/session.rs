//! Session, which is a connection in use by one operation, and the failures of operations.

use std::ops::Deref;

use broker::{Deadline, PooledConnection};
use libmqm_sys as mqi;
use mq::{BrokerError, IdleRule};
use tokio::sync::oneshot;

use crate::errors::During;
use crate::mqi::{Connection, Refusal, Verb};
use crate::owned::Owned;
use crate::worker::{WorkerError, wait_for};

/// Sender with which a function that runs on the connection's thread (a job) reports the result of
/// its first MQI call to the operation that waits for it.
pub(crate) type Told<T> = oneshot::Sender<Result<T, Refusal>>;

/// Returns the object that a job has opened, and the sender for the job's report. If opening
/// failed, sends the refusal and returns `None`.
pub(crate) fn unless_refused<O, T>(opened: Result<O, Refusal>, told: Told<T>) -> Option<(O, Told<T>)> {
    match opened {
        Ok(opened) => Some((opened, told)),
        Err(refusal) => {
            let _ = told.send(Err(refusal));
            None
        }
    }
}

/// Connection in use by one operation. Dropping the value ends the connection and backs out
/// uncommitted work.
pub(crate) struct Session(pub(crate) PooledConnection<Owned>);

/// Reason why an operation on a connection failed: a refused MQI call, or no answer of the
/// connection's thread.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    NoAnswer(#[from] WorkerError),
}

impl Failure {
    /// True if an MQCMIT that failed in this way may have committed.
    pub(crate) fn may_have_committed(self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.may_have_committed(),
            Self::NoAnswer(_) => true,
        }
    }

    /// True if this failure of the first call on an idle connection means that the connection is
    /// lost. False for a quiescing queue manager, since a new connection would fail too.
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
    /// Returns the queue manager's unique identifier; `None` if the user may not inquire it.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.queue_manager().map(|queue_manager| queue_manager.id.as_str()).filter(|id| !id.is_empty())
    }

    /// Runs the function `job` on the connection's thread, and waits for its result.
    ///
    /// # Errors
    /// If the job's MQI call was refused, or there was no answer before `deadline`. In the second
    /// case the connection must not be used again.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Connection) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(self.worker.run(deadline, job).await??)
    }

    /// Waits until `deadline` for a further answer of a job (function) that runs on the
    /// connection's thread, and returns it.
    pub(crate) async fn answer<T>(
        &self,
        answer: oneshot::Receiver<Result<T, Refusal>>,
        deadline: Deadline,
    ) -> Result<T, Failure> {
        Ok(wait_for(answer, deadline).await??)
    }

    /// Starts a job (function) on the connection's thread without waiting for it. The job receives
    /// its instructions over a channel while it runs.
    pub(crate) fn begin(&self, job: impl FnOnce(&Connection) + Send + 'static) -> Result<(), Failure> {
        Ok(self.worker.begin(job)?)
    }

    /// Returns the connection to the pool, or ends it if its target does not keep idle connections.
    /// No unit of work may be open on it.
    pub(crate) fn finish(self) {
        if self.0.key().idle() == IdleRule::Keep {
            self.0.release();
        }
    }

    /// Backs out uncommitted work, and then returns the connection to the pool as [`Self::finish`]
    /// does.
    pub(crate) async fn back_out(self, deadline: Deadline) -> Result<(), Failure> {
        self.call(deadline, Connection::back_out).await?;
        self.finish();
        Ok(())
    }

    /// Ends the session after `failure`, and returns the error for the caller. Uncommitted work is
    /// backed out. The connection is kept if it is still usable, and ended otherwise.
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
