//! One operation's connection.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clock::{Deadline, Moment};
use libmqm_sys as mqi;
use mq::{BrokerError, IdleRule};
use tokio::sync::oneshot;

use crate::errors::{During, Uncommitted};
use crate::facts::QueueManager;
use crate::mqi::{Connection, Refusal, Verb};
use crate::pools::{InUse, Key, Pools};
use crate::worker::{NoAnswer, Worker, wait_for};

/// How long a connection that was idle may take to answer before another one is opened.
pub(crate) const PROBE: Duration = Duration::from_secs(1);

/// Where a job on the connection's thread says what its first call came to.
pub(crate) type Told<T> = oneshot::Sender<Result<T, Refusal>>;

/// A connection in use. Dropping it ends the connection, and backs out what is open on it.
pub(crate) struct Session {
    worker: Worker,
    queue_manager: Option<Arc<QueueManager>>,
    pools: Arc<Pools>,
    in_use: InUse,
    /// Whether it was opened for this operation, and answered then.
    is_new: bool,
}

/// A connection that nobody uses.
pub(crate) struct Idle {
    pub(crate) key: Arc<Key>,
    pub(crate) since: Instant,
    last_used: Moment,
    worker: Worker,
    queue_manager: Option<Arc<QueueManager>>,
}

/// Why an operation on a connection failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

impl Failure {
    /// Whether a commit that ended so may have happened.
    pub(crate) fn may_have_committed(self) -> bool {
        match self {
            Self::Refused(refusal) => Uncommitted::of(refusal) == Uncommitted::InDoubt,
            Self::NoAnswer(_) => true,
        }
    }

    /// Whether the first call on a connection that was idle shows that it is of no use any more.
    /// That the queue manager is quiescing is an answer, which another connection would not change.
    pub(crate) fn is_of_a_lost_connection(self) -> bool {
        match self {
            Self::Refused(Refusal { reason: mqi::MQRC_Q_MGR_QUIESCING, .. }) => false,
            // What is left open on it cannot be undone.
            Self::Refused(Refusal { verb: Verb::BackOut, .. }) => true,
            Self::Refused(refusal) => !refusal.spares_the_connection(),
            Self::NoAnswer(_) => true,
        }
    }

    pub(crate) fn into_error(self, during: During<'_>) -> BrokerError {
        match self {
            Self::Refused(refusal) => refusal.into_error(during),
            Self::NoAnswer(NoAnswer::TimedOut) => BrokerError::timeout("IBM MQ did not answer in time"),
            Self::NoAnswer(NoAnswer::Gone) => {
                BrokerError::unreachable("the connection to IBM MQ was lost").caused_by(self)
            }
        }
    }
}

impl Session {
    pub(crate) fn new(
        worker: Worker,
        queue_manager: Option<Arc<QueueManager>>,
        pools: Arc<Pools>,
        key: Arc<Key>,
    ) -> Self {
        let in_use = InUse::new(&pools, key);
        Self { worker, queue_manager, pools, in_use, is_new: true }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// What the queue manager said of itself when it was connected to, unless the user may not ask.
    pub(crate) fn queue_manager(&self) -> Option<&QueueManager> {
        self.queue_manager.as_deref()
    }

    /// The queue manager's identifier, which no other queue manager has.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.queue_manager().map(|queue_manager| queue_manager.id.as_str()).filter(|id| !id.is_empty())
    }

    pub(crate) fn abandoned(&self) -> Arc<AtomicBool> {
        self.worker.abandoned()
    }

    /// Runs `job` on the connection's thread.
    ///
    /// # Errors
    /// What the job's call ended with, or that there was no answer in time. The connection is of no
    /// use then.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Connection) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Failure> {
        Ok(self.worker.run(deadline, job).await??)
    }

    /// Begins the operation's job on the connection's thread, and waits until it has told what its
    /// first call came to. What an earlier operation may have left open is backed out before.
    ///
    /// # Errors
    /// What the first call ended with, or that there was no answer in time.
    pub(crate) async fn first<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Connection, Told<T>) + Send + 'static,
    ) -> Result<T, Failure> {
        let (told, answer) = oneshot::channel();
        self.begin(move |connection| match connection.back_out_leftovers() {
            Ok(()) => job(connection, told),
            Err(refusal) => {
                let _ = told.send(Err(refusal));
            }
        })?;
        self.answer(answer, deadline).await
    }

    /// Waits for what a job on the connection's thread answers later.
    pub(crate) async fn answer<T>(
        &self,
        answer: oneshot::Receiver<Result<T, Refusal>>,
        deadline: Deadline,
    ) -> Result<T, Failure> {
        Ok(wait_for(answer, deadline).await??)
    }

    /// Begins a job on the connection's thread, which is told what to do while it runs.
    pub(crate) fn begin(&self, job: impl FnOnce(&Connection) + Send + 'static) -> Result<(), Failure> {
        Ok(self.worker.begin(job)?)
    }

    /// Keeps the connection for the next request, or ends it if its target's rule says so. No unit
    /// of work may be open on it.
    pub(crate) fn finish(self) {
        let Self { worker, queue_manager, pools, in_use, .. } = self;
        let key = in_use.end();
        if key.idle == IdleRule::Close {
            return;
        }
        let idle = Idle { key, since: Instant::now(), last_used: Moment::now(), worker, queue_manager };
        pools.keep(idle);
    }

    /// Backs out what is open, and keeps the connection if that worked.
    pub(crate) async fn back_out(self, deadline: Deadline) -> Result<(), Failure> {
        self.call(deadline, Connection::back_out).await?;
        self.finish();
        Ok(())
    }

    /// Ends the session after `failure` and says what that means. What was open is backed out.
    pub(crate) async fn fail(self, failure: Failure, during: During<'_>, deadline: Deadline) -> BrokerError {
        if let Failure::Refused(refusal) = failure
            && refusal.spares_the_connection()
        {
            // The connection's end backs out as well.
            let _ = self.back_out(deadline).await;
        }
        failure.into_error(during)
    }
}

impl Idle {
    /// Whether it is too old to be tried: a function that was frozen sent no heartbeats, and a
    /// queue manager that misses them hangs up.
    pub(crate) fn is_dead(&self, heartbeat: Duration) -> bool {
        self.last_used.age() > heartbeat * 2
    }

    /// Puts it into use. Whether it still answers is not known: a queue manager may have been
    /// restarted since.
    pub(crate) fn into_session(self, pools: Arc<Pools>) -> Session {
        let session = Session::new(self.worker, self.queue_manager, pools, self.key);
        Session { is_new: false, ..session }
    }
}
