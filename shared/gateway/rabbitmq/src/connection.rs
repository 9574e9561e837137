//! An open connection: its channels, its health and how it ends.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use broker::{Deadline, HealthStatus, Moment, Peer, Permit, chain, events};
use futures_util::StreamExt as _;
use lapin::{Channel, Event};
use mq::QueueName;

use crate::config::{ConnectionConfig, Host};
use crate::errors::{During, Failure, classify};
use crate::frame_filter::{Noticed, Pulse, Shortage};
use crate::intake::Intake;
use crate::leader::Leadership;
use crate::server::Server;
use crate::session::call;
use crate::transport::SocketShutdown;

/// Maximum time for an idle connection to answer, before another one is opened. `TRUSTED` applies
/// to a [`Staleness::Fresh`] connection, `PROBE` to a [`Staleness::Doubtful`] one.
const TRUSTED: Duration = Duration::from_secs(3);
const PROBE: Duration = Duration::from_secs(1);

/// Maximum time for the orderly close of a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Open AMQP connection. Dropping it closes the socket at once, so that the broker requeues
/// unacknowledged messages.
pub struct Connection {
    // Before `amqp`, so that dropping the connection closes the socket first and sends nothing
    // more.
    hangup: SocketShutdown,
    amqp: lapin::Connection,
    /// Address and login of the connection, for log lines.
    pub peer: Peer,
    pub(crate) server: Server,
    pub(crate) noticed: Arc<Noticed>,
    host: Host,
    pub(crate) known_queues: KnownQueues,
    last_used: Mutex<Moment>,
    /// Permit of a pooled connection, which is released after the connection has ended. `None` for
    /// a connection outside a pool.
    _permit: Option<Permit>,
}

/// Cache of whether each queue has an elected leader, so that a commit need not query the broker.
/// At most 64 queues are cached; adding another one clears the cache.
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
        hangup: SocketShutdown,
        (config, peer): (&ConnectionConfig, Peer),
        noticed: Arc<Noticed>,
    ) -> Self {
        Self {
            hangup,
            amqp,
            peer,
            server: noticed.greeting().map(Server::from_greeting).unwrap_or_default(),
            noticed,
            host: config.host,
            known_queues: KnownQueues::default(),
            last_used: Mutex::new(Moment::now()),
            _permit: None,
        }
    }

    /// Ties `permit` to the connection, so that it is released when the connection has ended.
    pub(crate) fn holding(self, permit: Permit) -> Self {
        Self { _permit: Some(permit), ..self }
    }

    /// Opens a channel, which takes one round trip to the broker.
    ///
    /// # Errors
    /// If the broker refuses, or does not answer in time.
    pub async fn open_channel(&self, deadline: Deadline) -> Result<Channel, Failure> {
        call(deadline, self.amqp.create_channel()).await
    }

    /// Opens a channel, and returns it with the time that the broker took.
    pub(crate) async fn timed_channel(&self, deadline: Deadline) -> Result<(Channel, HealthStatus), Failure> {
        let started = Instant::now();
        let channel = self.open_channel(deadline).await?;
        Ok((channel, HealthStatus::healthy(started.elapsed())))
    }

    /// Opens a channel on an idle connection, which shows that the broker answers. `None` if it
    /// does not answer in time: 3 s if the connection is [`Staleness::Fresh`], 1 s if it is
    /// [`Staleness::Doubtful`]. A [`Staleness::Dead`] connection is not tried.
    pub(crate) async fn reopen(&self, deadline: Deadline) -> Option<(Channel, HealthStatus)> {
        match self.staleness() {
            Staleness::Fresh => self.timed_channel(deadline.min(TRUSTED)).await.ok(),
            Staleness::Doubtful => match self.probe(deadline.min(PROBE)).await {
                (Some(channel), health) => Some((channel, health)),
                (None, _) => None,
            },
            Staleness::Dead => None,
        }
    }

    /// Closes a channel of this connection, with everything that is open on it.
    ///
    /// # Errors
    /// If the broker does not answer. The connection must not be used again then.
    pub async fn close_channel(&self, channel: &Channel, deadline: Deadline) -> Result<(), Failure> {
        call(deadline, channel.close(200, "OK".into())).await
    }

    /// Returns the negotiated maximum size of a frame, in bytes.
    pub(crate) fn frame_max(&self) -> usize {
        usize::try_from(self.amqp.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// True if the client library considers the connection open. It does not notice a dead network.
    pub fn is_connected(&self) -> bool {
        self.amqp.status().connected()
    }

    /// Returns the reason for which the broker blocks the connection; `None` if it does not. A
    /// broker that is short of memory or disk space reads nothing from publishing connections.
    pub(crate) fn blocked(&self) -> Option<Shortage> {
        self.noticed.blocked()
    }

    /// Records that the connection is used now; its idle time is counted from this call.
    pub fn mark_used(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Moment::now();
    }

    /// Returns how far the connection can be trusted after its idle time. A received heartbeat
    /// counts as use in a long-running process, but not in a function, which may have been frozen
    /// since.
    pub fn staleness(&self) -> Staleness {
        let idle = self.last_used.lock().unwrap_or_else(PoisonError::into_inner).age();
        let silent = match self.host {
            Host::Function => idle,
            Host::Process => idle.min(self.noticed.pulse.age()),
        };
        Staleness::of(silent, self.heartbeat())
    }

    /// Returns the negotiated interval of heartbeats; 0 if there are none.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.amqp.configuration().heartbeat().into())
    }

    /// Returns the record of the time at which bytes were last received from the broker.
    pub fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.noticed.pulse)
    }

    /// Returns the limit on the bytes of deliveries that the client library receives.
    pub(crate) fn intake(&self) -> &Intake {
        self.noticed.intake()
    }

    /// Waits until the client library reports the connection as broken, and returns the error.
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

    /// Opens a channel to check whether the broker answers. Returns and logs the result.
    pub async fn check_health(&self, deadline: Deadline) -> HealthStatus {
        self.probe(deadline).await.1
    }

    /// Opens a channel to check whether the broker answers, and logs the result. The channel is
    /// `None` if it does not answer.
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

    /// Closes the socket at once, even if other code still uses the connection.
    pub fn cut(&self) {
        self.hangup.hang_up();
    }

    /// Closes the connection in an orderly way, for at most 500 ms. After that, dropping it closes
    /// the socket.
    pub async fn close(&self) {
        let closed = tokio::time::timeout(CLOSE_TIMEOUT, self.amqp.close(200, "OK".into())).await;
        events::disconnected(&self.peer, matches!(closed, Ok(Ok(()))));
    }
}

impl broker::Connection for Connection {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn unusable(&self) -> Option<&'static str> {
        if self.blocked().is_some() {
            Some("RabbitMQ has blocked it")
        } else if !self.is_connected() {
            Some("it was closed")
        } else {
            (self.staleness() == Staleness::Dead).then_some("it was idle for too long")
        }
    }

    fn mark_used(&mut self) {
        Self::mark_used(self);
    }

    async fn close(self) {
        Self::close(&self).await;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Degree of trust in an idle connection. A frozen function sends no heartbeats, and the broker
/// closes a connection after two missed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staleness {
    /// Idle for less than half a heartbeat interval: the connection can be used.
    Fresh,
    /// Idle for up to two heartbeat intervals, or without heartbeats: the broker must answer before
    /// the connection is used.
    Doubtful,
    /// Idle for more than two heartbeat intervals: the broker has closed the connection.
    Dead,
}

impl Staleness {
    fn of(idle: Duration, heartbeat: Duration) -> Self {
        if heartbeat.is_zero() {
            // Without heartbeats, silence proves nothing.
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
