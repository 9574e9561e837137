//! The bound on open connections, which one pool has for itself or several share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mq::{Address, BrokerKind, Deadline, PoolReport};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::ConnectionConfig;
use crate::connection::Staleness;
use crate::events::{self, Peer};
use crate::pool::{PoolLimits, PoolStats};
use crate::pooled::PooledConnection;

/// A pool, as its connections know it.
#[derive(Debug)]
pub(crate) struct Member {
    config: Arc<ConnectionConfig>,
    is_closed: AtomicBool,
}

impl Member {
    pub(crate) fn new(config: Arc<ConnectionConfig>) -> Self {
        Self { config, is_closed: AtomicBool::new(false) }
    }

    /// The first address, for the log.
    pub(crate) fn peer(&self) -> Peer {
        let first = Address { host: self.config.host().to_owned(), port: self.config.port() };
        Peer::new(&self.config, &first)
    }

    /// Broker, addresses and virtual host, without the user.
    fn target(&self) -> String {
        PoolReport::target_of(BrokerKind::RabbitMq, self.config.addresses(), self.config.vhost())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }
}

pub(crate) struct Capacity {
    limits: PoolLimits,
    /// It hands permits out in the order of asking.
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The least recently used first.
    idle: Vec<(Arc<Member>, PooledConnection)>,
    /// One entry for each connection that is in use or about to be made.
    in_use: Vec<Arc<Member>>,
}

impl State {
    /// Counts a connection of `member` as in use, in place of the idle one that was used last.
    /// Gives that one, and what is past use, and what has to make room.
    fn enter(&mut self, member: &Arc<Member>, max_size: usize) -> Entered {
        let (usable, past): (Vec<_>, Vec<_>) = std::mem::take(&mut self.idle)
            .into_iter()
            .partition(|(_, idle)| idle.seems_open() && idle.staleness() != Staleness::Dead);
        self.idle = usable;
        let last = self.idle.iter().rposition(|(owner, _)| Arc::ptr_eq(owner, member));
        let idle = last.map(|index| self.idle.remove(index).1);
        self.in_use.push(Arc::clone(member));
        let excess = (self.idle.len() + self.in_use.len()).saturating_sub(max_size).min(self.idle.len());
        let evicted = self.idle.drain(..excess).map(|(_, idle)| idle).collect();
        Entered { idle, past: past.into_iter().map(|(_, idle)| idle).collect(), evicted }
    }

    fn leave(&mut self, member: &Arc<Member>) {
        if let Some(index) = self.in_use.iter().position(|other| Arc::ptr_eq(other, member)) {
            self.in_use.swap_remove(index);
        }
    }
}

struct Entered {
    idle: Option<PooledConnection>,
    past: Vec<PooledConnection>,
    evicted: Vec<PooledConnection>,
}

/// The right to one connection in use.
pub(crate) struct Place {
    capacity: Arc<Capacity>,
    member: Arc<Member>,
    is_counted: bool,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_counted {
            self.capacity.lock().leave(&self.member);
        }
    }
}

impl Place {
    pub(crate) fn pool_is_closed(&self) -> bool {
        self.member.is_closed()
    }

    /// Keeps `connection`, which was in use in this place, as an idle one.
    pub(crate) fn keep(mut self, connection: PooledConnection) {
        let peer = connection.peer().clone();
        {
            let mut state = self.capacity.lock();
            state.leave(&self.member);
            state.idle.push((Arc::clone(&self.member), connection));
        }
        self.is_counted = false;
        events::released(&peer, self.capacity.stats(&self.member));
    }
}

impl Capacity {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self { limits, permits: Arc::new(Semaphore::new(limits.max_size)), state: Mutex::default() }
    }

    pub(crate) fn max_size(&self) -> usize {
        self.limits.max_size
    }

    /// Waits for a place until `deadline` or the pool's timeout, and gives it with the idle
    /// connection of `member` that was used last. Where there is none, another connection may be
    /// opened: the least recently used ones of other members were closed to make room.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        member: &Arc<Member>,
        deadline: Deadline,
    ) -> Option<(Place, Option<PooledConnection>)> {
        let acquired = Arc::clone(&self.permits).acquire_owned();
        let permit = deadline.min(self.limits.timeout).run(acquired).await.ok()?.ok()?;
        let Entered { idle, past, evicted } = self.lock().enter(member, self.limits.max_size);
        let place = Place {
            capacity: Arc::clone(self),
            member: Arc::clone(member),
            is_counted: true,
            _permit: permit,
        };
        for past in past {
            past.abandon("it was closed or idle for too long");
        }
        for evicted in evicted {
            evicted.close().await;
        }
        Some((place, idle))
    }

    /// Takes the connections of `member` that are idle.
    pub(crate) fn take_idle(&self, member: &Arc<Member>) -> Vec<PooledConnection> {
        let mut state = self.lock();
        let (mine, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.idle).into_iter().partition(|(owner, _)| Arc::ptr_eq(owner, member));
        state.idle = others;
        mine.into_iter().map(|(_, idle)| idle).collect()
    }

    pub(crate) fn stats(&self, member: &Arc<Member>) -> PoolStats {
        let state = self.lock();
        let available = state.idle.iter().filter(|(owner, _)| Arc::ptr_eq(owner, member)).count();
        let in_use = state.in_use.iter().filter(|owner| Arc::ptr_eq(owner, member)).count();
        PoolStats { total: available + in_use, in_use, available, max_size: self.limits.max_size }
    }

    /// The connections of each target, whatever their users.
    pub(crate) fn reports(&self) -> Vec<PoolReport> {
        let state = self.lock();
        let mut reports: Vec<PoolReport> = Vec::new();
        let idle = state.idle.iter().map(|(owner, _)| (owner, 0));
        let used = state.in_use.iter().map(|owner| (owner, 1));
        for (owner, in_use) in idle.chain(used) {
            let target = owner.target();
            match reports.iter_mut().find(|report| report.target == target) {
                Some(report) => {
                    report.open += 1;
                    report.in_use += in_use;
                }
                None => reports.push(PoolReport { target, open: 1, in_use, max_size: self.limits.max_size }),
            }
        }
        reports.sort_by(|a, b| a.target.cmp(&b.target));
        reports
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
