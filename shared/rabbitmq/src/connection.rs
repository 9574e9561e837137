//! One open connection, and how it ends.

use std::time::{Duration, Instant, SystemTime};

use lapin::Channel;
use mq::{Address, Deadline};

use crate::errors::Failure;
use crate::events;
use crate::server::Server;
use crate::transport::Hangup;

/// How long a polite close may take.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// An open AMQP connection. Dropping it cuts it: the broker puts back what was not acknowledged.
pub(crate) struct Connection {
    // Before `amqp`, so that nothing is said any more on a connection that is given up.
    _hangup: Hangup,
    amqp: lapin::Connection,
    pub(crate) address: Address,
    pub(crate) server: Server,
    last_used: Moment,
}

impl Connection {
    pub(crate) fn new(amqp: lapin::Connection, hangup: Hangup, address: Address, server: Server) -> Self {
        Self { _hangup: hangup, amqp, address, server, last_used: Moment::now() }
    }

    /// Opens a channel: a round trip to the broker.
    pub(crate) async fn open_channel(&self, deadline: Deadline) -> Result<Channel, Failure> {
        match deadline.run(self.amqp.create_channel()).await {
            Ok(channel) => Ok(channel?),
            Err(_) => Err(Failure::Deadline),
        }
    }

    /// The largest frame that either side may send, in bytes.
    pub(crate) fn frame_max(&self) -> usize {
        usize::try_from(self.amqp.configuration().frame_max()).unwrap_or(usize::MAX)
    }

    /// What the library believes; a dead network is not known to it.
    pub(crate) fn seems_open(&self) -> bool {
        self.amqp.status().connected() && !self.amqp.status().blocked()
    }

    pub(crate) fn mark_used(&mut self) {
        self.last_used = Moment::now();
    }

    /// How much can be expected of the connection after the time that it was idle.
    pub(crate) fn staleness(&self) -> Staleness {
        Staleness::of(self.last_used.age(), Duration::from_secs(self.amqp.configuration().heartbeat().into()))
    }

    /// Ends the connection politely, or not at all politely where that takes too long.
    pub(crate) async fn close(self) {
        let closed = tokio::time::timeout(CLOSE_TIMEOUT, self.amqp.close(200, "OK".into())).await;
        events::disconnected(&self.address, matches!(closed, Ok(Ok(()))));
    }
}

/// A point in time on two clocks: the monotonic one of a machine that is paused may stand still, the other one may
/// be set.
#[derive(Clone, Copy, Debug)]
struct Moment {
    monotonic: Instant,
    system: SystemTime,
}

impl Moment {
    fn now() -> Self {
        Self { monotonic: Instant::now(), system: SystemTime::now() }
    }

    fn age(self) -> Duration {
        self.monotonic.elapsed().max(self.system.elapsed().unwrap_or_default())
    }
}

/// How far a connection that was idle can be trusted. A function that is frozen between invocations sends no
/// heartbeats, and a broker that misses two of them hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staleness {
    Fresh,
    Doubtful,
    Dead,
}

impl Staleness {
    fn of(idle: Duration, heartbeat: Duration) -> Self {
        if idle < heartbeat / 2 {
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
}
