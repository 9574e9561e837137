//! Thread that owns a connection.
//!
//! A connection and every handle on it belong to one thread, so operations are sent to that thread.
//! When the sender of these operations is dropped, the thread backs out, disconnects, returns its
//! permit under the connection cap, and ends. A call of the library that does not return cannot be
//! stopped. Its thread keeps the permit until the call returns, so that the connection counts
//! against the cap. No caller waits for the thread beyond its deadline, and the cap is notified
//! that the connection should have ended. A connection that cannot be ended keeps its permit for
//! ever.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use broker::{ClosingHandle, Deadline, Peer, Permit, events};
use tokio::sync::oneshot;

use crate::mqi::{Connection, Occupied};
use crate::tls::TlsLease;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Handle of the thread that owns a connection. Dropping the handle ends the connection.
pub(crate) struct Worker {
    jobs: mpsc::Sender<Job>,
    /// Flag that is set when the worker is dropped, so that jobs with many calls on the thread
    /// stop.
    abandoned: Arc<AtomicBool>,
    /// Receiver that resolves when the thread has ended; `None` once it was taken out: by
    /// [`Self::end`], which waits for it, or when the worker is dropped, which moves it into the
    /// list `closing`, if that is set.
    ended: Option<Ended>,
    closing_handle: Option<ClosingHandle>,
    closing: Option<Arc<Closing>>,
}

type Ended = oneshot::Receiver<Infallible>;

/// List of threads whose connections are ending, for callers that wait for the end.
#[derive(Debug, Default)]
pub(crate) struct Closing(Mutex<Vec<Ended>>);

impl Closing {
    /// Waits until all ending connections have ended, at most until `deadline`. A connection that
    /// has not ended by then is logged.
    pub(crate) async fn settle(&self, deadline: Deadline) {
        let threads = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // The sender is dropped when the thread ends.
            if deadline.run(thread).await.is_err() {
                tracing::warn!(
                    event_type = "connection.not_closed",
                    "a connection to IBM MQ did not end before the response"
                );
            }
        }
    }
}

/// Reason why the thread of a connection gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error("the call did not return in time")]
    TimedOut,
    /// The thread of the connection has ended, or could not be started.
    #[error("the connection's thread has ended")]
    Gone,
}

/// Resources that belong to a connection until it has ended: its permit under the connection cap,
/// its lease on the TLS settings, and the data by which log lines name it.
#[derive(Debug)]
pub(crate) struct ThreadState {
    permit: Permit,
    tls: Option<TlsLease>,
    peer: Peer,
}

impl ThreadState {
    pub(crate) fn new(permit: Permit, tls: Option<TlsLease>, peer: Peer) -> Self {
        Self { permit, tls, peer }
    }
}

impl Occupied for ThreadState {
    fn key_file(&self) -> Option<(&Path, bool)> {
        self.tls.as_ref().map(|lease| (lease.file.as_path(), lease.is_joined))
    }

    fn disconnected(&self, polite: bool) {
        events::disconnected(&self.peer, polite);
    }

    fn keep(self: Box<Self>) {
        self.permit.abandon();
        std::mem::forget(self.tls);
    }
}

impl Worker {
    /// Starts a thread that opens a connection with `connect`, and waits for the connection until
    /// `deadline`. `connect` returns the connection, which owns `belongings`, and a value for the
    /// caller. If `closing` is given, dropping the handle adds the thread to that list, for callers
    /// that wait for its end.
    ///
    /// # Errors
    /// If no thread could be started, or the connection was not open in time.
    pub(crate) async fn start<T, E>(
        connect: impl FnOnce(ThreadState) -> Result<(Connection, T), E> + Send + 'static,
        belongings: ThreadState,
        closing: Option<Arc<Closing>>,
        deadline: Deadline,
    ) -> Result<Result<(Self, T), E>, WorkerError>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (answer, answered) = oneshot::channel();
        let (end, ended) = oneshot::channel::<Infallible>();
        let closing_handle = belongings.permit.closing_handle();
        let body = move || {
            // Dropped after the connection, which has ended then.
            let _end = end;
            match connect(belongings) {
                // If the caller has stopped waiting, the channel is closed, and the loop ends at
                // once.
                Ok((connection, told)) => {
                    let _ = answer.send(Ok(told));
                    for job in queue {
                        job(&connection);
                    }
                }
                Err(error) => {
                    let _ = answer.send(Err(error));
                }
            }
        };
        thread::Builder::new().name("ibm-mq".to_owned()).spawn(body).map_err(|_| WorkerError::Gone)?;
        // Dropped if the connection is not ready in time: it ends as soon as it is ready.
        let worker = Self {
            jobs,
            abandoned: Arc::default(),
            ended: Some(ended),
            closing_handle: Some(closing_handle),
            closing,
        };
        let told = wait_for(answered, deadline).await?;
        Ok(told.map(|told| (worker, told)))
    }

    /// Returns the flag that is set when the worker is dropped, for jobs that take long.
    pub(crate) fn abandoned(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.abandoned)
    }

    /// Runs the function `job` on the connection's thread, and waits for its result until
    /// `deadline`. A job that takes longer continues, and its result is dropped.
    ///
    /// # Errors
    /// If there was no answer in time. The worker must not be used again then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Deadline,
        job: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, WorkerError> {
        let (answer, answered) = oneshot::channel();
        self.begin(move |connection| {
            let _ = answer.send(job(connection));
        })?;
        wait_for(answered, deadline).await
    }

    /// Ends the connection, and waits until its thread has ended.
    pub(crate) async fn end(mut self) {
        let ended = self.ended.take();
        drop(self);
        if let Some(ended) = ended {
            // The sender is dropped when the thread ends.
            let _ = ended.await;
        }
    }

    /// Starts `job` on the connection's thread, without waiting for it.
    ///
    /// # Errors
    /// If the thread has ended.
    pub(crate) fn begin(&self, job: impl FnOnce(&Connection) + Send + 'static) -> Result<(), WorkerError> {
        self.jobs.send(Box::new(job)).map_err(|_| WorkerError::Gone)
    }
}

/// Waits until `deadline` for an answer of a connection's thread. Fails if the thread ends without
/// one.
pub(crate) async fn wait_for<T>(answer: oneshot::Receiver<T>, deadline: Deadline) -> Result<T, WorkerError> {
    match deadline.run(answer).await {
        Ok(Ok(given)) => Ok(given),
        Ok(Err(_)) => Err(WorkerError::Gone),
        Err(_) => Err(WorkerError::TimedOut),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::SeqCst);
        if let Some(closing_handle) = self.closing_handle.take() {
            closing_handle.mark_closing();
        }
        if let (Some(closing), Some(ended)) = (&self.closing, self.ended.take()) {
            closing.0.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        }
    }
}
