//! Pool of the connections to all targets, under the cap that all brokers share.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use broker::{Admitted, ConnectionCap, IdleConnections, Permit};
use clock::Deadline;
use libmqm_sys::{MQRC_CHANNEL_NOT_AVAILABLE, MQRC_MAX_CONNS_LIMIT_REACHED};
use mq::{Access, BrokerError, BrokerKind, Endpoint, IdleRule, PoolReport};

use crate::channel_table::{self, ChannelTableError};
use crate::errors::During;
use crate::facts::QueueManager;
use crate::login::{Wanted, login};
use crate::mqi::{Connection, Library, LoadError, Login, Refusal, Route};
use crate::session::{Failure, Idle, PROBE, Session, Told};
use crate::settings::Settings;
use crate::tls::{TlsInUse, TlsLease};
use crate::worker::{Closing, ThreadState, Worker, WorkerError};

/// Delay before a second attempt to connect; each later one is twice as long.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Maximum time to wait until connections with other TLS settings have ended.
const TLS_WAIT: Duration = Duration::from_secs(2);

/// Identity of a connection: connections with equal keys are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    endpoint: Endpoint,
    secret_version: String,
    pub(crate) idle: IdleRule,
}

impl Key {
    fn of(access: &Access) -> Self {
        Self {
            endpoint: access.endpoint.clone(),
            secret_version: access.secret_version.clone(),
            idle: access.idle,
        }
    }

    fn target(&self) -> String {
        PoolReport::target_of(BrokerKind::IbmMq, &self.endpoint.addresses, &self.endpoint.queue_manager)
    }

    fn has_tls(&self) -> bool {
        matches!(self.endpoint.tls, mq::Tls::On { .. })
    }
}

/// The connections to all targets.
pub(crate) struct Pools {
    settings: Settings,
    cap: Arc<ConnectionCap>,
    tls: Arc<TlsInUse>,
    library: Arc<Mutex<Option<&'static Library>>>,
    shelf: Arc<IdleShelf>,
    /// Connections that end instead of being kept.
    closing: Arc<Closing>,
}

/// Idle connections, the least recently used first, and the keys of those in use.
#[derive(Default)]
struct IdleShelf(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    idle: Vec<Idle>,
    in_use: Vec<Arc<Key>>,
}

impl IdleShelf {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends idle connections, also of other users of the target, to make room for one with this
    /// key.
    fn end_for(&self, key: &Key, full: Full) {
        let is_on_it = |other: &Key| match full {
            Full::Channel => other.endpoint.channel == key.endpoint.channel,
            Full::QueueManager => true,
        };
        self.lock().idle.retain(|idle| idle.key.target() != key.target() || !is_on_it(&idle.key));
    }
}

impl IdleConnections for IdleShelf {
    fn idle_since(&self) -> Option<Instant> {
        self.lock().idle.first().map(|idle| idle.since)
    }

    fn close_longest_idle(&self) -> bool {
        let mut connections = self.lock();
        if connections.idle.is_empty() {
            return false;
        }
        // Its thread disconnects, and then returns the permit.
        drop(connections.idle.remove(0));
        true
    }
}

/// Entry of a connection in use.
pub(crate) struct InUse {
    shelf: Arc<IdleShelf>,
    key: Arc<Key>,
}

impl InUse {
    pub(crate) fn new(pools: &Pools, key: Arc<Key>) -> Self {
        pools.shelf.lock().in_use.push(Arc::clone(&key));
        Self { shelf: Arc::clone(&pools.shelf), key }
    }

    pub(crate) fn end(self) -> Arc<Key> {
        Arc::clone(&self.key)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut connections = self.shelf.lock();
        if let Some(index) = connections.in_use.iter().position(|key| Arc::ptr_eq(key, &self.key)) {
            connections.in_use.swap_remove(index);
        }
    }
}

/// Reason why a thread has no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Library(#[from] LoadError),
    #[error("{} cannot be made", .0.display())]
    DataPath(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Table(#[from] ChannelTableError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl OpenError {
    pub(crate) fn into_error(self, queue_manager: &str) -> BrokerError {
        match self {
            Self::Refused(refusal) => refusal.into_error(During::LogIn { queue_manager }),
            Self::Library(error) => {
                let detail = format!(
                    "IBM MQ's client library is not part of this deployment, or cannot be loaded: {error}"
                );
                BrokerError::unreachable(detail).caused_by(error)
            }
            Self::Table(error) => {
                let detail = error.to_string();
                BrokerError::unsupported(detail).caused_by(error)
            }
            Self::DataPath(..) => {
                BrokerError::unreachable("IBM MQ's client has no place for its files").caused_by(self)
            }
        }
    }
}

impl Pools {
    pub(crate) fn new(settings: Settings, cap: Arc<ConnectionCap>) -> Arc<Self> {
        let shelf = Arc::new(IdleShelf::default());
        let weak: Weak<IdleShelf> = Arc::downgrade(&shelf);
        cap.add(weak);
        Arc::new(Self {
            settings,
            cap,
            tls: TlsInUse::of_process(),
            library: Arc::default(),
            shelf,
            closing: Arc::default(),
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns a connection to the target that answers: an idle one, or a new one.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        access: &Access,
        deadline: Deadline,
    ) -> Result<Session, BrokerError> {
        let probe = |session: &Session| {
            let is_new = session.is_new();
            move |connection: &Connection, told: Told<()>| {
                // On an idle connection MQBACK, with nothing to back out, is one round trip.
                let _ = told.send(if is_new { Ok(()) } else { connection.back_out() });
            }
        };
        let (session, answer) = self.begin(access, deadline, probe).await?;
        match answer {
            Ok(()) => Ok(session),
            Err(failure) => Err(session.fail(failure, During::Connection, deadline).await),
        }
    }

    /// Begins an operation on a connection to the target: on an idle one, or on a new one. The
    /// operation's own first call shows whether an idle one still answers. If it does not, the
    /// operation begins on another connection, with another job. A queue manager that cannot be
    /// reached is tried again for at most `retry_for`, and at most half of the remaining time; the
    /// rest is kept for the operation.
    ///
    /// # Errors
    /// If there is no connection. The result of the first call is returned with the session.
    pub(crate) async fn begin<T, J>(
        self: &Arc<Self>,
        access: &Access,
        deadline: Deadline,
        job: impl Fn(&Session) -> J,
    ) -> Result<(Session, Result<T, Failure>), BrokerError>
    where
        T: Send + 'static,
        J: FnOnce(&Connection, Told<T>) + Send + 'static,
    {
        let started = Instant::now();
        let login = login(access, &self.settings)?;
        let key = Arc::new(Key::of(access));
        let retry_until = deadline.min(self.settings.retry_for.min(deadline.remaining() / 2));
        let (mut delay, mut attempts) = (FIRST_DELAY, 1_u32);
        loop {
            let error = match self.attempt(&key, &login, deadline, &job).await {
                Ok(begun) => return Ok(begun),
                Err(error) => error,
            };
            if let Some(full) = Full::of(&error) {
                self.shelf.end_for(&key, full);
            }
            if !is_worth_another_attempt(&error) || delay >= retry_until.remaining() {
                return Err(tried(error, attempts, started.elapsed()));
            }
            tokio::time::sleep(delay.mul_f64(1.0 - fastrand::f64() / 2.0)).await;
            delay *= 2;
            attempts += 1;
        }
    }

    async fn attempt<T, J>(
        self: &Arc<Self>,
        key: &Arc<Key>,
        login: &Wanted,
        deadline: Deadline,
        job: impl Fn(&Session) -> J,
    ) -> Result<(Session, Result<T, Failure>), BrokerError>
    where
        T: Send + 'static,
        J: FnOnce(&Connection, Told<T>) + Send + 'static,
    {
        loop {
            match self.admit(|| self.take_idle(key), deadline).await? {
                Admitted::Idle(idle) => {
                    let session = idle.into_session(Arc::clone(self));
                    let answer = session.first(deadline.min(PROBE), job(&session)).await;
                    match answer {
                        Err(failure) if failure.is_of_a_lost_connection() => tracing::info!(
                            event_type = "connection.lost",
                            target = key.target(),
                            "an idle connection to {} does not answer and is closed",
                            key.target()
                        ),
                        answer => return Ok((session, answer)),
                    }
                }
                Admitted::New(permit) => {
                    let session = self.connect(key, login, permit, deadline).await?;
                    let answer = session.first(deadline, job(&session)).await;
                    return Ok((session, answer));
                }
            }
        }
    }

    async fn admit<T>(
        &self,
        idle: impl FnMut() -> Option<T>,
        deadline: Deadline,
    ) -> Result<Admitted<T>, BrokerError> {
        let admitted = self.cap.admit(idle, deadline.min(self.settings.pool_timeout)).await;
        admitted.ok_or_else(|| {
            tracing::warn!(
                event_type = "pool.timeout",
                cap = self.cap.max(),
                "no connection to IBM MQ became free in time: all {} are in use",
                self.cap.max()
            );
            BrokerError::pool_timeout()
        })
    }

    /// Opens a separate connection, which no other request has used. Returns it with the time that
    /// took.
    pub(crate) async fn open_fresh(
        self: &Arc<Self>,
        access: &Access,
        deadline: Deadline,
    ) -> Result<(Session, Duration), BrokerError> {
        let login = login(access, &self.settings)?;
        let key = Arc::new(Key::of(access));
        match self.admit(|| None::<()>, deadline).await? {
            Admitted::New(permit) => {
                let started = Instant::now();
                let session = self.connect(&key, &login, permit, deadline).await?;
                Ok((session, started.elapsed()))
            }
            Admitted::Idle(()) => Err(BrokerError::pool_timeout()),
        }
    }

    async fn connect(
        self: &Arc<Self>,
        key: &Arc<Key>,
        wanted: &Wanted,
        permit: Permit,
        deadline: Deadline,
    ) -> Result<Session, BrokerError> {
        let started = Instant::now();
        let tls = self.tls_lease(wanted, deadline).await?;
        let (library, settings) = (Arc::clone(&self.library), self.settings.clone());
        let login = wanted.with_key_repository_of(tls.as_ref());
        let connect = move |belongings| open(&library, &settings, &login, belongings);
        let closing = (key.idle == IdleRule::Close).then(|| Arc::clone(&self.closing));
        let connected = Worker::start(connect, ThreadState::new(permit, tls), closing, deadline).await;
        let result = match connected {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(error)) => Err(error.into_error(wanted.queue_manager())),
            Err(WorkerError::TimedOut) => {
                Err(BrokerError::timeout("IBM MQ did not answer the connection in time"))
            }
            Err(error @ WorkerError::Gone) => {
                Err(BrokerError::unreachable("the connection's thread ended").caused_by(error))
            }
        };
        let (took_ms, target) =
            (u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX), key.target());
        match result {
            Ok((worker, facts)) => {
                tracing::info!(
                    event_type = "connection.established",
                    target,
                    took_ms,
                    "connected to IBM MQ at {target} in {took_ms} ms"
                );
                Ok(Session::new(worker, facts.map(Arc::new), Arc::clone(self), Arc::clone(key)))
            }
            Err(error) => {
                let cause: &dyn std::error::Error = &error;
                tracing::warn!(
                    event_type = "connection.failed",
                    target,
                    took_ms,
                    error = cause,
                    "cannot connect to IBM MQ at {target}: {error}"
                );
                Err(error)
            }
        }
    }

    /// Lease on the login's TLS settings. Idle connections with other settings are ended to make
    /// room.
    async fn tls_lease(&self, wanted: &Wanted, deadline: Deadline) -> Result<Option<TlsLease>, BrokerError> {
        let Some(repository) = wanted.key_repository() else { return Ok(None) };
        let until = deadline.min(TLS_WAIT);
        loop {
            let lease = self.tls.lease(repository, &self.settings.secrets).map_err(|error| {
                BrokerError::unreachable("the key repository could not be written for the client")
                    .caused_by(error)
            })?;
            if let Some(lease) = lease {
                return Ok(Some(lease));
            }
            self.shelf.lock().idle.retain(|idle| !idle.key.has_tls());
            if until.has_passed() {
                return Err(BrokerError::unreachable(
                    "connections with another key repository are in use here, and IBM MQ's client has one for \
                     the whole process; try again",
                ));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the connections that are not kept have ended, but not beyond `deadline`.
    pub(crate) async fn settle(&self, deadline: Deadline) {
        self.closing.settle(deadline).await;
    }

    /// Ends the idle connections of all targets that are too old to be used.
    pub(crate) fn end_stale(&self) {
        self.shelf.lock().idle.retain(|idle| !idle.is_dead(self.settings.heartbeat));
    }

    /// Takes the most recently used idle connection of the target. Ends the connections of all
    /// targets that are too old to be used.
    fn take_idle(&self, key: &Key) -> Option<Idle> {
        self.end_stale();
        let mut connections = self.shelf.lock();
        let last = connections.idle.iter().rposition(|idle| *idle.key == *key)?;
        Some(connections.idle.remove(last))
    }

    pub(crate) fn keep(&self, idle: Idle) {
        self.shelf.lock().idle.push(idle);
        self.cap.became_idle();
    }

    /// Connection counts of each target, over all users.
    pub(crate) fn reports(&self) -> Vec<PoolReport> {
        let connections = self.shelf.lock();
        let idle = connections.idle.iter().map(|idle| (idle.key.target(), false));
        let used = connections.in_use.iter().map(|key| (key.target(), true));
        PoolReport::by_target(idle.chain(used), self.cap.max())
    }
}

/// Connects, on the thread that will own the connection.
fn open(
    library: &Mutex<Option<&'static Library>>,
    settings: &Settings,
    login: &Login,
    belongings: ThreadState,
) -> Result<(Connection, Option<QueueManager>), OpenError> {
    let library = loaded(library, settings)?;
    if let (Route::Table { url }, Some(_)) = (&login.route, &login.tls) {
        channel_table::promises_tls(url, &login.queue_manager)?;
    }
    let connection = Connection::open(library, login, belongings)?;
    let queue_manager = match QueueManager::ask(&connection) {
        Ok(queue_manager) => Some(queue_manager),
        Err(refusal) if refusal.spares_the_connection() => None,
        Err(refusal) => return Err(refusal.into()),
    };
    Ok((connection, queue_manager))
}

fn loaded(
    library: &Mutex<Option<&'static Library>>,
    settings: &Settings,
) -> Result<&'static Library, OpenError> {
    let mut library = library.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = *library {
        return Ok(library);
    }
    if let Some(path) = &settings.data_path {
        fs::create_dir_all(path).map_err(|error| OpenError::DataPath(path.clone(), error))?;
    }
    // Kept for the life of the process: the library has threads of its own.
    let loaded: &'static Library = Box::leak(Box::new(Library::load(&settings.library)?));
    *library = Some(loaded);
    Ok(loaded)
}

/// True if another attempt to connect may succeed soon. Nothing was sent yet.
fn is_worth_another_attempt(error: &BrokerError) -> bool {
    // A missing library will still be missing.
    let is_missing = error.cause().is_some_and(|cause| cause.is::<LoadError>());
    error.is_transient() && !is_missing
}

/// Object whose limit of connections is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Channel,
    QueueManager,
}

impl Full {
    fn of(error: &BrokerError) -> Option<Self> {
        match error.cause().and_then(|cause| cause.downcast_ref::<Refusal>())?.reason {
            MQRC_CHANNEL_NOT_AVAILABLE => Some(Self::Channel),
            MQRC_MAX_CONNS_LIMIT_REACHED => Some(Self::QueueManager),
            _ => None,
        }
    }
}

/// Adds the number of attempts and their duration to the detail, if there was more than one
/// attempt.
fn tried(mut error: BrokerError, attempts: u32, took: Duration) -> BrokerError {
    if attempts > 1
        && let BrokerError::Unreachable { detail, .. } | BrokerError::Timeout { detail, .. } = &mut error
    {
        let _ = write!(detail, " (tried {attempts} times in {:.1} s)", took.as_secs_f64());
    }
    error
}
