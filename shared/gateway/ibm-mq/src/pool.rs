//! Pool of the connections to IBM MQ, and how an operation begins on one of these connections.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use broker::{
    ConnectionCap, ConnectionPool, ConnectionSettings, Deadline, HealthStatus, Key, OpenError, Opened,
    Opener, Peer, Permit, Step, StepLog, SystemNames, events,
};
use libmqm_sys::{MQLONG, MQRC_CHANNEL_NOT_AVAILABLE, MQRC_MAX_CONNS_LIMIT_REACHED};
use mq::{Access, Address, BrokerError, BrokerKind, ConnectionCounts, IdleRule, Tls};

use crate::errors::{During, refusal_of, step_of};
use crate::facts::QueueManager;
use crate::hosts;
use crate::login::login;
use crate::mqi::{ChannelTls, Connection, Library, LoadError, Login};
use crate::opening::open;
use crate::owned::{Owned, PROBE};
use crate::session::{Failure, Session, Told};
use crate::settings::Settings;
use crate::tls::{TlsInUse, TlsLease};
use crate::worker::{Closing, ThreadState, Worker, WorkerError};

/// Maximum time that a new TLS connection waits for the end of connections with another key
/// repository.
const TLS_WAIT: Duration = Duration::from_secs(2);

/// Pool of the connections to all IBM MQ targets.
pub(crate) struct Pool {
    settings: Settings,
    pool: ConnectionPool<Owned>,
    tls: Arc<TlsInUse>,
    library: Arc<Mutex<Option<&'static Library>>>,
    /// Threads of connections that are being closed because their target keeps no idle connections.
    closing: Arc<Closing>,
}

impl Pool {
    pub(crate) fn new(settings: Settings, cap: Arc<ConnectionCap>) -> Arc<Self> {
        Arc::new(Self {
            settings,
            pool: ConnectionPool::new(cap),
            tls: TlsInUse::of_process(),
            library: Arc::default(),
            closing: Arc::default(),
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns a session on a connection to the target: an idle connection that has answered a
    /// probe, or a new one.
    pub(crate) async fn acquire(&self, access: &Access, deadline: Deadline) -> Result<Session, BrokerError> {
        let probe = |owned: &Owned| {
            let is_new = owned.is_new();
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

    /// Begins an operation on an idle connection to the target, or on a new one. `job` makes the
    /// function that runs on the connection's thread. The function's first MQI call shows whether
    /// an idle connection still answers; if not, a new function runs on a new connection. Returns
    /// the session with the result of that call.
    ///
    /// # Errors
    /// If no connection is available. Errors of the first call are returned with the session
    /// instead.
    pub(crate) async fn begin<T, J>(
        &self,
        access: &Access,
        deadline: Deadline,
        job: impl Fn(&Owned) -> J + Send + Sync,
    ) -> Result<(Session, Result<T, Failure>), BrokerError>
    where
        T: Send + 'static,
        J: FnOnce(&Connection, Told<T>) + Send + 'static,
    {
        let target = self.target(access)?;
        let mut beginner = Beginner { pool: self, target: &target, job, answer: PhantomData };
        let (pooled, answer) =
            self.pool.acquire(&target.key, &mut beginner, &target.limits, deadline).await?;
        Ok((Session(pooled), answer))
    }

    /// Opens a connection that no other request has used, and returns it with the time that
    /// connecting took. Adds the step of resolving host names to `log`.
    ///
    /// # Errors
    /// The error, with the failed step if that is resolving the host names, otherwise with `None`.
    pub(crate) async fn open_fresh(
        &self,
        access: &Access,
        log: &mut StepLog,
        deadline: Deadline,
    ) -> Result<(Session, Duration), (Option<Step>, BrokerError)> {
        let before = |error: BrokerError| (None::<Step>, error);
        let target = self.target(access).map_err(before)?;
        let reserved = self.pool.reserve(&target.key, &target.peer, &target.limits, deadline);
        let (permit, reservation) = reserved.await.map_err(|error| before(error.into()))?;
        let started = Instant::now();
        let hosts = self.hosts(&target, deadline).await.map_err(|error| (Some(Step::Resolve), error))?;
        if !hosts.is_empty() {
            log.0.push((Step::Resolve, started.elapsed()));
        }
        let started = Instant::now();
        let owned = self.connect_to(&hosts, &target, permit, deadline).await.map_err(before)?;
        let took = started.elapsed();
        Ok((Session(reservation.hold(owned, HealthStatus::healthy(took))), took))
    }

    fn target<'a>(&self, access: &'a Access) -> Result<Target<'a>, BrokerError> {
        let limits = self.settings.connections.within(&access.limits);
        let (endpoint, user) = (&access.endpoint, access.credentials.as_ref().map(|login| &login.user));
        let peer = Peer {
            broker: BrokerKind::IbmMq,
            address: endpoint.addresses.first().cloned(),
            queue_manager: endpoint.queue_manager.clone(),
            user: user.cloned().unwrap_or_default(),
            tls: endpoint.tls != Tls::Off,
        };
        let mut target = Target { access, key: Key::of(access), login: None, peer, limits };
        // The key has all that they are made from, of secrets the version. So those of an idle
        // connection were checked already.
        if self.pool.get_stats(&target.key).available == 0 {
            target.login = Some(self.login(&target)?);
        }
        Ok(target)
    }

    /// Returns the parameters for connecting to the target, or the error if they cannot be built
    /// from it.
    fn login(&self, target: &Target<'_>) -> Result<Login, BrokerError> {
        match &target.login {
            Some(login) => Ok(login.clone()),
            None => login(target.access, &self.settings.application, target.limits.heartbeat),
        }
    }

    async fn connect(
        &self,
        target: &Target<'_>,
        permit: Permit,
        deadline: Deadline,
    ) -> Result<Owned, BrokerError> {
        let hosts = self.hosts(target, deadline).await?;
        self.connect_to(&hosts, target, permit, deadline).await
    }

    /// Resolves the target's hosts and returns the addresses to try, and logs a failure.
    async fn hosts(&self, target: &Target<'_>, deadline: Deadline) -> Result<Vec<Address>, BrokerError> {
        let resolved = hosts::resolved(&SystemNames, target.key.endpoint(), deadline).await;
        if let Err(error) = &resolved {
            let addresses = target.key.endpoint().addresses.len();
            events::failed(&target.peer, Step::Resolve.name(), error, addresses);
        }
        resolved
    }

    async fn connect_to(
        &self,
        hosts: &[Address],
        target: &Target<'_>,
        permit: Permit,
        deadline: Deadline,
    ) -> Result<Owned, BrokerError> {
        let started = Instant::now();
        match self.try_to_connect(hosts, target, permit, deadline).await {
            Ok((worker, facts)) => {
                events::established(&target.peer, started.elapsed());
                Ok(Owned::new(worker, facts, target.peer.clone(), target.limits.heartbeat))
            }
            Err(error) => {
                let addresses = target.key.endpoint().addresses.len();
                events::failed(&target.peer, step_of(&error).name(), &error, addresses);
                Err(error)
            }
        }
    }

    async fn try_to_connect(
        &self,
        hosts: &[Address],
        target: &Target<'_>,
        permit: Permit,
        deadline: Deadline,
    ) -> Result<(Worker, Option<QueueManager>), BrokerError> {
        let login = self.login(target)?;
        let tls = self.tls_lease(&login, deadline).await?;
        let (library, settings) = (Arc::clone(&self.library), self.settings.clone());
        let conn_name = Address::in_ibm_form(hosts);
        let connect = move |belongings| open(&library, &settings, &login, &conn_name, belongings);
        let closing = (target.key.idle() == IdleRule::Close).then(|| Arc::clone(&self.closing));
        let state = ThreadState::new(permit, tls, target.peer.clone());
        match Worker::start(connect, state, closing, deadline).await {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(error)) => Err(error.into_error(&target.key.endpoint().queue_manager)),
            Err(WorkerError::TimedOut) => {
                Err(BrokerError::timeout("IBM MQ did not answer the connection in time"))
            }
            Err(error @ WorkerError::Gone) => {
                Err(BrokerError::unreachable("the connection's thread ended").caused_by(error))
            }
        }
    }

    /// Returns the lease that a new connection with this login needs on the process-wide TLS
    /// settings; `None` without TLS. Idle connections with another key repository are ended to make
    /// the lease possible. Fails if connections with another key repository stay in use for too
    /// long.
    async fn tls_lease(&self, login: &Login, deadline: Deadline) -> Result<Option<TlsLease>, BrokerError> {
        let Some(ChannelTls { repository, .. }) = &login.tls else { return Ok(None) };
        let until = deadline.min(TLS_WAIT);
        loop {
            let lease = self.tls.lease(repository, &self.settings.key_repository_dir).map_err(|error| {
                BrokerError::unreachable("the key repository could not be written for the client")
                    .caused_by(error)
            })?;
            if let Some(lease) = lease {
                return Ok(Some(lease));
            }
            self.pool.end_idle(|key| key.endpoint().tls != Tls::Off);
            if until.has_passed() {
                return Err(BrokerError::unreachable(
                    "connections with another key repository are in use here, and IBM MQ's client has one for \
                     the whole process; try again",
                ));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for the end of connections that are not kept after their request, at most until
    /// `deadline`.
    pub(crate) async fn settle(&self, deadline: Deadline) {
        self.closing.settle(deadline).await;
    }

    /// Ends the idle connections that are too old to be used, for all targets.
    pub(crate) fn end_stale(&self) {
        self.pool.end_stale();
    }

    pub(crate) fn reports(&self) -> Vec<ConnectionCounts> {
        self.pool.reports()
    }
}

/// Data of a target that are needed to use a connection to it or to open one.
struct Target<'a> {
    access: &'a Access,
    key: Arc<Key>,
    /// Parameters for connecting; `None` if there is an idle connection, for which they were
    /// already checked.
    login: Option<Login>,
    peer: Peer,
    limits: ConnectionSettings,
}

/// [`Opener`] that begins an operation by running a function of it (`job`) on the thread of an idle
/// or new connection. The first MQI call of the function shows whether the connection answers.
struct Beginner<'a, F, T, J> {
    pool: &'a Pool,
    target: &'a Target<'a>,
    job: F,
    answer: PhantomData<fn() -> (T, J)>,
}

impl<F, T, J> Opener for Beginner<'_, F, T, J>
where
    F: Fn(&Owned) -> J + Send + Sync,
    T: Send + 'static,
    J: FnOnce(&Connection, Told<T>) + Send + 'static,
{
    type Connection = Owned;
    type Started = Result<T, Failure>;

    fn peer(&self) -> Peer {
        self.target.peer.clone()
    }

    async fn reuse(&mut self, owned: &Owned, deadline: Deadline) -> Option<(Self::Started, HealthStatus)> {
        let started = Instant::now();
        let answer = owned.first(deadline.min(PROBE), (self.job)(owned)).await;
        let is_lost = matches!(answer, Err(failure) if failure.is_of_a_lost_connection());
        (!is_lost).then(|| (answer, HealthStatus::healthy(started.elapsed())))
    }

    async fn open(
        &mut self,
        permit: Permit,
        deadline: Deadline,
    ) -> Result<Opened<Owned, Self::Started>, OpenError> {
        match self.pool.connect(self.target, permit, deadline).await {
            Ok(owned) => {
                let started = Instant::now();
                let answer = owned.first(deadline, (self.job)(&owned)).await;
                let took = started.elapsed();
                let health = match &answer {
                    Err(Failure::NoAnswer(error)) => HealthStatus::unhealthy(true, took, error.to_string()),
                    _ => HealthStatus::healthy(took),
                };
                Ok((owned, answer, health))
            }
            Err(error) => {
                if let Some(refusal) = refusal_of(&error) {
                    let reason = refusal.reason;
                    self.pool.pool.end_idle(|key| is_of_the_same_limit(reason, key, &self.target.key));
                }
                Err(OpenError { may_pass: is_worth_another_attempt(&error), error })
            }
        }
    }
}

/// True if another attempt to connect may succeed soon after this error. Another attempt does no
/// harm, since nothing was sent to a queue yet.
fn is_worth_another_attempt(error: &BrokerError) -> bool {
    // A missing library will still be missing.
    let is_missing = error.cause().is_some_and(|cause| cause.is::<LoadError>());
    error.is_transient() && !is_missing
}

/// True if connections with the keys `one` and `other` count towards the limit that `reason`
/// reports: the instances of a channel, or the connections of the queue manager. The keys may have
/// different users. False for reasons that report no such limit.
fn is_of_the_same_limit(reason: MQLONG, one: &Key, other: &Key) -> bool {
    let is_on_it = match reason {
        MQRC_CHANNEL_NOT_AVAILABLE => one.endpoint().channel == other.endpoint().channel,
        MQRC_MAX_CONNS_LIMIT_REACHED => true,
        _ => false,
    };
    is_on_it && one.target() == other.target()
}
