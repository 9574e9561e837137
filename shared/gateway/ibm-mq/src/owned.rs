//! Connection in the pool, which is owned by a thread of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use broker::{Deadline, Moment, Peer};
use tokio::sync::oneshot;

use crate::facts::QueueManager;
use crate::mqi::Connection;
use crate::session::{Failure, Told, unless_refused};
use crate::worker::{Worker, wait_for};

/// Maximum time that an idle connection has to answer its first call, before a new connection is
/// opened instead.
pub(crate) const PROBE: Duration = Duration::from_secs(1);

/// Default of the queue manager attribute MAXUMSGS (messages in a unit of work), assumed if the
/// user may not inquire it.
const USUAL_MAXUMSGS: u64 = 10_000;

/// Pooled connection with the attributes that its queue manager reported. Dropping the value ends
/// the connection and backs out uncommitted work.
pub(crate) struct Owned {
    pub(crate) worker: Worker,
    queue_manager: Option<QueueManager>,
    peer: Peer,
    heartbeat: Duration,
    /// Time at which an operation last began or ended on the connection; `None` for a new
    /// connection until the pool hands it out.
    last_used: Option<Moment>,
}

impl Owned {
    pub(crate) fn new(
        worker: Worker,
        queue_manager: Option<QueueManager>,
        peer: Peer,
        heartbeat: Duration,
    ) -> Self {
        Self { worker, queue_manager, peer, heartbeat, last_used: None }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.last_used.is_none()
    }

    /// Returns the attributes that the queue manager reported when connecting; `None` if the user
    /// may not inquire them.
    pub(crate) fn queue_manager(&self) -> Option<&QueueManager> {
        self.queue_manager.as_ref()
    }

    /// Returns the queue manager's maximum number of messages in a unit of work, at least 1. If the
    /// user may not inquire it, returns IBM's default.
    pub(crate) fn most_uncommitted(&self) -> u64 {
        self.queue_manager().map_or(USUAL_MAXUMSGS, |facts| facts.max_uncommitted.max(1))
    }

    pub(crate) fn abandoned(&self) -> Arc<AtomicBool> {
        self.worker.abandoned()
    }

    /// Runs the function `job` of an operation on the connection's thread, and waits for the result
    /// of its first MQI call, after which it may go on. Uncommitted work of an earlier operation is
    /// backed out before.
    ///
    /// # Errors
    /// The refusal of the first call, or no answer before `deadline`.
    pub(crate) async fn first<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Connection, Told<T>) + Send + 'static,
    ) -> Result<T, Failure> {
        let (told, answer) = oneshot::channel();
        self.worker.begin(move |connection| {
            if let Some(((), told)) = unless_refused(connection.back_out_leftovers(), told) {
                job(connection, told);
            }
        })?;
        Ok(wait_for(answer, deadline).await??)
    }
}

impl broker::Connection for Owned {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the reason why the connection cannot be used again: it was idle for more than two
    /// heartbeat intervals. A frozen function sends no heartbeats, and the queue manager closes the
    /// connection then. `None` if it was idle for less. The connection may be closed even so, for
    /// example by a restart, which its next call shows.
    fn unusable(&self) -> Option<&'static str> {
        let is_dead = self.last_used.is_some_and(|used| used.age() > self.heartbeat * 2);
        is_dead.then_some("it was idle for too long")
    }

    fn mark_used(&mut self) {
        self.last_used = Some(Moment::now());
    }

    async fn close(self) {
        self.worker.end().await;
    }
}
