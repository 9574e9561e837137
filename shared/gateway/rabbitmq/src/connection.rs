//! One open connection, and how it ends.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use broker::Deadline;
use clock::Moment;
use futures_util::StreamExt as _;
use lapin::{Channel, Event};
use mq::QueueName;

use crate::config::{ConnectionConfig, Host};
use crate::errors::{During, Failure, chain, classify};
use crate::events::{self, Peer};
use crate::frame_filter::{Noticed, Shortage};
use crate::health::HealthStatus;
use crate::intake::Intake;
use crate::leader::Leadership;
use crate::server::Server;
use crate::transport::Hangup;

/// How long a connection that was idle may take to answer before another one is opened: one that is
/// trusted, and one that is not.
const TRUSTED: Duration = Duration::from_secs(3);
const PROBE: Duration = Duration::from_secs(1);

/// How long a polite close may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// An open AMQP connection. Dropping it cuts it: the broker puts back what was not acknowledged.
pub struct Connection {
    // Before `amqp`, so that nothing is said any more on a connection that is given up.
    hangup: Hangup,
    amqp: lapin::Connection,
    /// The other end, as the log names it.
    pub peer: Peer,
    pub(crate) server: Server,
    pulse: Arc<Pulse>,
    noticed: Arc<Noticed>,
    host: Host,
    pub(crate) known_queues: KnownQueues,
    last_used: Mutex<Moment>,
}

/// Queues for which a commit needs no question of its own, forgotten where they become many.
#[derive(Debug, Default)]
pub(crate) struct KnownQueues(Mutex<HashMap<QueueName, Leadership>>);

impl KnownQueues {
    const MOST: usize = 64;

    pub(crate) fn get(&self, queue: &QueueName) -> Option<Leadership> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied()
    }

    pub(crate) fn insert(&self, queue: &QueueName, leadership: Leadership) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(queue.clone(), leadership);
    }
}

impl Connection {
    pub(crate) fn new(
        amqp: lapin::Connection,
        hangup: Hangup,
        (config, peer): (&ConnectionConfig, Peer),
        server: Server,
        (pulse, noticed): (Arc<Pulse>, Arc<Noticed>),
    ) -> Self {
        let last_used = Mutex::new(Moment::now());
        Self {
            hangup,
            amqp,
            peer,
            server,
            pulse,
            noticed,
            host: config.runs_in(),
            known_queues: KnownQueues::default(),
            last_used,
        }
    }

    /// Opens a channel: a round trip to the broker.
    ///
    /// # Errors
    /// The broker refuses, or does not answer in time.
    pub async fn open_channel(&self, deadline: Deadline) -> Result<Channel, Failure> {
        match deadline.run(self.amqp.create_channel()).await {
            Ok(channel) => Ok(channel?),
            Err(_) => Err(Failure::Deadline),
        }
    }

    /// Opens a channel, and says how soon the broker answered.
    pub(crate) async fn timed_channel(&self, deadline: Deadline) -> Result<(Channel, HealthStatus), Failure> {
        let started = Instant::now();
        let channel = self.open_channel(deadline).await?;
        Ok((channel, HealthStatus::healthy(started.elapsed())))
    }

    /// Opens a channel on a connection that was idle, which proves that it lives. `None` if it does
    /// not answer as soon as one may expect of it.
    pub async fn reopen(&self, staleness: Staleness, deadline: Deadline) -> Option<(Channel, HealthStatus)> {
        let opened = match staleness {
            Staleness::Fresh => self.timed_channel(deadline.min(TRUSTED)).await.ok(),
            Staleness::Doubtful => match self.probe(deadline.min(PROBE)).await {
                (Some(channel), health) => Some((channel, health)),
                (None, _) => None,
            },
            Staleness::Dead => None,
        };
        if opened.is_none() {
            events::lost(&self.peer, "it did not answer after being idle");
        }
        opened
    }

    /// Ends a channel of the connection with all that was open on it.
    ///
    /// # Errors
    /// The broker does not answer; the connection is of no use any more.
    pub async fn close_channel(&self, channel: &Channel, deadline: Deadline) -> Result<(), Failure> {
        match deadline.run(channel.close(200, "OK".into())).await {
            Ok(closed) => Ok(closed?),
            Err(_) => Err(Failure::Deadline),
        }
    }

    /// The largest frame that either side may send, in bytes.
    pub(crate) fn frame_max(&self) -> usize {
        usize::try_from(self.amqp.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// What the library believes; a dead network is not known to it.
    pub fn is_connected(&self) -> bool {
        self.amqp.status().connected()
    }

    /// Whether it can be used, as far as the library knows: a broker that is short of memory blocks
    /// it.
    pub fn seems_open(&self) -> bool {
        self.is_connected() && self.blocked().is_none()
    }

    /// Why, if the broker has said that it reads nothing more from it.
    pub(crate) fn blocked(&self) -> Option<Shortage> {
        self.noticed.blocked()
    }

    /// Waits until the broker says so.
    pub(crate) async fn until_blocked(&self) -> Shortage {
        self.noticed.until_blocked().await
    }

    /// Why it is given up: that it is blocked, or `otherwise`.
    pub(crate) fn why_given_up(&self, otherwise: &'static str) -> &'static str {
        if self.blocked().is_some() { "RabbitMQ has blocked it" } else { otherwise }
    }

    /// Begins the time in which the connection is idle.
    pub fn mark_used(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Moment::now();
    }

    /// How much can be expected of the connection after the time that it was idle. Where the
    /// program runs all the time, a heartbeat is as good as a use; a function that was frozen
    /// cannot tell when a heartbeat came.
    pub fn staleness(&self) -> Staleness {
        let idle = self.last_used.lock().unwrap_or_else(PoisonError::into_inner).age();
        let silent = match self.host {
            Host::Function => idle,
            Host::Process => idle.min(self.pulse.age()),
        };
        Staleness::of(silent, self.heartbeat())
    }

    /// Whether it may be kept for later.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        self.seems_open() && self.staleness() != Staleness::Dead
    }

    /// What both sides agreed on; 0 is none.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.amqp.configuration().heartbeat().into())
    }

    /// When the broker was last heard of.
    pub fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// How many messages the broker has given back as unroutable.
    pub(crate) fn returns(&self) -> u64 {
        self.noticed.returns()
    }

    /// What the connection lets in of the messages that it is given.
    pub(crate) fn intake(&self) -> &Intake {
        self.noticed.intake()
    }

    /// Nobody receives messages on the connection any more.
    pub fn mark_unused(&self) {
        self.intake().unbind();
        self.mark_used();
    }

    /// Waits until the library finds the connection broken, and says why.
    pub fn broken(&self) -> impl Future<Output = String> + Send + 'static {
        let mut events = Box::pin(self.amqp.events_listener());
        async move {
            while let Some(event) = events.next().await {
                if let Event::Error(error) = event {
                    return chain(&classify(&error, During::Connection));
                }
            }
            "it was closed".to_owned()
        }
    }

    /// Asks the broker for an answer.
    pub async fn check_health(&self, deadline: Deadline) -> HealthStatus {
        self.probe(deadline).await.1
    }

    /// Asks the broker for a channel, as a proof that it answers.
    pub(crate) async fn probe(&self, deadline: Deadline) -> (Option<Channel>, HealthStatus) {
        let started = Instant::now();
        let opened = self.open_channel(deadline).await;
        let latency = started.elapsed();
        let (channel, health) = match opened {
            Ok(channel) => (Some(channel), HealthStatus::healthy(latency)),
            Err(failure) => {
                let error = chain(&failure.into_error(During::Connection));
                (None, HealthStatus::unhealthy(self.is_connected(), latency, error))
            }
        };
        events::health_checked(&self.peer, &health);
        (channel, health)
    }

    /// Ends the connection at once, whoever else holds it.
    pub fn cut(&self) {
        self.hangup.hang_up();
    }

    /// Ends the connection politely, or not at all politely where that takes too long.
    pub async fn close(&self) {
        let closed = tokio::time::timeout(CLOSE_TIMEOUT, self.amqp.close(200, "OK".into())).await;
        events::disconnected(&self.peer, matches!(closed, Ok(Ok(()))));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// When the broker was last heard of.
#[derive(Debug)]
pub struct Pulse {
    start: Instant,
    milliseconds: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), milliseconds: AtomicU64::new(0) }
    }

    pub(crate) fn beat(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.milliseconds.store(elapsed, Ordering::Relaxed);
    }

    /// How long ago that was.
    pub fn age(&self) -> Duration {
        let beat = Duration::from_millis(self.milliseconds.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(beat)
    }
}

/// How far a connection that was idle can be trusted. A function that is frozen between invocations
/// sends no heartbeats, and a broker that misses two of them hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// It can be used.
    Fresh,
    /// It has to answer first.
    Doubtful,
    /// The other side has given it up.
    Dead,
}

impl Staleness {
    fn of(idle: Duration, heartbeat: Duration) -> Self {
        if heartbeat.is_zero() {
            // Nobody promised to speak.
            Self::Doubtful
        } else if idle < heartbeat / 2 {
            Self::Fresh
        } else if idle <= heartbeat * 2 {
            Self::Doubtful
        } else {
            Self::Dead
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_trusted_for_half_a_heartbeat_and_given_up_after_two() {
        let of = |idle| Staleness::of(Duration::from_secs(idle), Duration::from_secs(60));
        assert_eq!(of(0), Staleness::Fresh);
        assert_eq!(of(29), Staleness::Fresh);
        assert_eq!(of(30), Staleness::Doubtful);
        assert_eq!(of(120), Staleness::Doubtful);
        assert_eq!(of(121), Staleness::Dead);
    }

    #[test]
    fn without_heartbeats_a_connection_is_always_probed() {
        assert_eq!(Staleness::of(Duration::from_secs(9_999), Duration::ZERO), Staleness::Doubtful);
    }
}
