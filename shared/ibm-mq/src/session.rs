//! One operation's connection.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clock::{Deadline, Moment};
use mq::BrokerError;

use crate::errors::{During, Uncommitted};
use crate::facts::QueueManager;
use crate::mqi::{Connection, Refusal};
use crate::pools::{InUse, Key, Pools};
use crate::worker::{NoAnswer, Worker};

/// How long a connection that was idle may take to answer before another one is opened.
const PROBE: Duration = Duration::from_secs(1);

/// A connection in use. Dropping it ends the connection, and backs out what is open on it.
pub(crate) struct Session {
    worker: Worker,
    queue_manager: Option<Arc<QueueManager>>,
    pools: Arc<Pools>,
    in_use: InUse,
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
        Self { worker, queue_manager, pools, in_use }
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

    /// Begins a job on the connection's thread, which is told what to do while it runs.
    pub(crate) fn begin(&self, job: impl FnOnce(&Connection) + Send + 'static) -> Result<(), Failure> {
        Ok(self.worker.begin(job)?)
    }

    /// Keeps the connection, on which no unit of work may be open, for the next request.
    pub(crate) fn finish(self) {
        let Self { worker, queue_manager, pools, in_use } = self;
        let key = in_use.end();
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

    /// Puts it into use if it answers. A queue manager may have been restarted since.
    pub(crate) async fn revive(self, pools: Arc<Pools>, deadline: Deadline) -> Option<Session> {
        let session = Session::new(self.worker, self.queue_manager, pools, self.key);
        // Backs out nothing, in one exchange.
        let answer = session.call(deadline.min(PROBE), Connection::back_out).await;
        answer.is_ok().then_some(session)
    }
}
