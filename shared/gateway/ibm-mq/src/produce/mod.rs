//! Puts messages on a queue, in units of work that are committed or backed out as a whole.

mod end;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use broker::{Deadline, EarlierAttempts, Latencies, Pacer, ReadyToPut};
use libmqm_sys::MQLONG;
use mq::{Access, BrokerError, Outgoing, ProduceFailure, ProduceReport, QueueName, Transaction};
use tokio::sync::watch;

use crate::doubt::{self, SearchedQueue};
use crate::earlier::EarlierSearch;
use crate::errors::During;
use crate::members;
use crate::outgoing::{Context, Preparer};
use crate::owned::Owned;
use crate::pool::Pool;
use crate::produce::end::Stop;
use crate::putting::{CommitDecision, Handed, Putting, Unfinished};
use crate::session::{Failure, Session};

/// Maximum number of messages that the connection's thread is asked to put at a time.
const BATCH: u64 = 256;

/// Number of bytes after which a unit of work is committed, if the request has no transactions. An
/// open unit of work occupies the queue manager's log.
const UNIT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum time that messages of a produce with a rate limit wait for their commit, if the request
/// has no transactions.
const PACED_UNIT: Duration = Duration::from_millis(250);

/// Minimum pause between messages of a rate-limited produce in which the messages already put are
/// committed. During a shorter pause, they wait for a later commit.
const PAUSE: Duration = Duration::from_millis(20);

/// Time reserved before the deadline for the last commit of a produce.
const MARGIN: Duration = Duration::from_millis(500);

/// Time limit of a produce's search for messages that earlier attempts put.
const TO_FIND: Duration = Duration::from_secs(5);

/// Connection of a produce on which no message has been put yet.
pub(crate) struct Connected<'a> {
    session: Session,
    /// Queue that was opened for output, or the failure to open it, which `put` returns.
    opened: Result<Putting, Failure>,
    target: SearchedQueue,
    outgoing: &'a Outgoing,
}

/// Connects and opens the queue for a produce, after checking that IBM MQ can carry the properties
/// and headers of its messages. Fails if it cannot, or if no connection is available.
pub(crate) async fn connect<'a>(
    pool: &Arc<Pool>,
    access: &Access,
    queue: &QueueName,
    outgoing: &'a Outgoing,
    deadline: Deadline,
) -> Result<Connected<'a>, BrokerError> {
    members::check(outgoing)?;
    let context = Context::of(access, pool.settings());
    let preparer = Arc::new(Preparer::new(outgoing, None, context).map_err(BrokerError::unsupported)?);
    let job = |_: &Owned| Putting::job(queue.as_str(), Arc::clone(&preparer));
    let (session, opened) = pool.begin(access, deadline, job).await?;
    Ok(Connected { session, opened, target: SearchedQueue::new(pool, access, queue), outgoing })
}

#[async_trait]
impl ReadyToPut for Connected<'_> {
    fn cluster(&self) -> Option<&str> {
        self.session.cluster()
    }

    /// Searches the queue for messages that earlier attempts put, and returns how many of the
    /// produce's first messages are known to have been put. Returns the number known before if the
    /// user may not browse, or the queue holds no messages of its own.
    async fn find(&mut self, unconfirmed: EarlierAttempts, deadline: Deadline) -> u64 {
        let EarlierAttempts { from, most, is_here } = unconfirmed;
        let Ok(putting) = &self.opened else { return from };
        let until = deadline.min(TO_FIND.min(deadline.remaining() / 4));
        let end = from.saturating_add(most).min(self.outgoing.count());
        let look = EarlierSearch { from, end, is_here, seed: self.outgoing.seed().clone(), until };
        let found = putting.find(look, deadline).await;
        let error = found.as_ref().err().map(|failure| failure as &(dyn std::error::Error + 'static));
        let found = *found.as_ref().unwrap_or(&from);
        tracing::info!(
            event_type = "produce.found",
            from,
            found,
            error,
            "searched the queue `{}` for messages of earlier attempts: the first {found} are put, {from} of \
             them were known",
            self.target.queue
        );
        found
    }

    async fn put(
        self: Box<Self>,
        from: u64,
        confirmed: &watch::Sender<u64>,
        deadline: Deadline,
    ) -> Result<ProduceReport, ProduceFailure> {
        let Self { session, opened, target, outgoing } = *self;
        let nothing = |error| ProduceFailure { error, committed: from, in_doubt: Vec::new() };
        let putting = match opened {
            Ok(putting) => putting,
            Err(failure) => {
                let during = During::Queue(&target.queue);
                return Err(nothing(session.fail(failure, during, deadline).await));
            }
        };
        let most = session.most_uncommitted();
        let transaction = outgoing.transaction();
        let size = u64::from(transaction.tx_size.get()).min(outgoing.count().saturating_sub(from));
        // The queue manager would refuse a larger one after it accepted a part.
        if transaction.enabled
            && let Err(error) = fits_unit(size, most)
        {
            session.finish();
            return Err(nothing(error));
        }
        let mut producer = Producer {
            outgoing,
            transaction,
            most,
            confirmed,
            from,
            next: from,
            allowed: from,
            unit: Unit::default(),
            units: 0,
            bytes: 0,
            pacer: outgoing.rate_limit_per_sec().map(|rate| Pacer::new(rate, tokio::time::Instant::now())),
            due: None,
            latencies: Latencies::default(),
            warned: BTreeMap::new(),
            deadline,
            stop_at: deadline.earlier_by(MARGIN.min(deadline.remaining() / 4)),
        };
        let stop = producer.run(&putting).await.err();
        // Frees the thread for other work.
        drop(putting);
        match stop {
            None => {
                session.finish();
                Ok(producer.report())
            }
            Some(stop) => producer.explain(stop, session, &target).await,
        }
    }
}

/// Messages of a produce that were put in the open unit of work.
#[derive(Default)]
struct Unit {
    times: Vec<Instant>,
    bytes: usize,
    began: Option<Instant>,
}

impl Unit {
    fn add(&mut self, handed: Handed, warned: &mut BTreeMap<MQLONG, u64>) {
        self.times.extend(handed.times);
        self.bytes += handed.bytes;
        for reason in handed.warnings {
            *warned.entry(reason).or_default() += 1;
        }
    }
}

struct Producer<'a> {
    outgoing: &'a Outgoing,
    transaction: Transaction,
    /// Queue manager's maximum number of messages in a unit of work (MAXUMSGS).
    most: u64,
    confirmed: &'a watch::Sender<u64>,
    from: u64,
    /// Index of the produce's first message that is not known to be committed.
    next: u64,
    /// Index after the last message that the rate limit allows to be put by now.
    allowed: u64,
    unit: Unit,
    units: u64,
    bytes: u64,
    pacer: Option<Pacer>,
    /// Time at which the rate limit allows the next message; `None` if the time is not computed
    /// yet.
    due: Option<tokio::time::Instant>,
    latencies: Latencies,
    /// Number of messages that the queue manager accepted with a warning, by the warning's reason
    /// code.
    warned: BTreeMap<MQLONG, u64>,
    deadline: Deadline,
    stop_at: Deadline,
}

impl Producer<'_> {
    async fn run(&mut self, putting: &Putting) -> Result<(), Stop> {
        while self.next < self.outgoing.count() {
            match self.fill(putting).await {
                Ok(()) => {}
                // Without transactions, the messages that are already put are kept.
                Err(Stop::OutOfTime) if !self.transaction.enabled && !self.unit.times.is_empty() => {
                    self.commit(putting).await?;
                    return Err(Stop::OutOfTime);
                }
                Err(stop) => return Err(stop),
            }
            // The unit of work may be committed already, with its last messages.
            if !self.unit.times.is_empty() {
                self.commit(putting).await?;
            }
        }
        Ok(())
    }

    /// Puts the next messages in the open unit of work, until it is full, or should be committed
    /// because the rate limit delays the next message. The request to put the last messages of a
    /// full one includes the commit, which saves a round trip to the connection's thread.
    async fn fill(&mut self, putting: &Putting) -> Result<(), Stop> {
        while !self.is_full() {
            let end = self.allow().await?;
            let messages = self.index()..end;
            if messages.is_empty() {
                break;
            }
            self.unit.began.get_or_insert_with(Instant::now);
            let is_last = end >= self.outgoing.count() || self.left_in_unit() <= end - messages.start;
            let until = if is_last { self.commit_until() } else { self.deadline };
            let commit = is_last.then(CommitDecision::default);
            let put = putting.put(messages.clone(), self.stop_at, commit, until).await;
            let handed = put.map_err(|unfinished| self.stopped(unfinished, messages))?;
            let is_committed = handed.is_committed;
            self.unit.add(handed, &mut self.warned);
            if is_committed {
                self.confirm();
                break;
            }
        }
        Ok(())
    }

    /// Returns the reason to stop after the request to put `messages` failed. Messages that may be
    /// committed are added to the unit of work.
    fn stopped(&mut self, unfinished: Unfinished, messages: Range<u64>) -> Stop {
        match unfinished {
            Unfinished::Put(failure, at) => Stop::Put(failure, at),
            Unfinished::Unusable(detail) => Stop::Unusable(detail),
            Unfinished::Commit(failure, handed) => {
                // Without an answer, all of them may be on the queue.
                let unknown = || {
                    let lengths = messages.filter_map(|index| Some(self.outgoing.message(index)?.body.len()));
                    let lengths: Vec<_> = lengths.collect();
                    let times = vec![Instant::now(); lengths.len()];
                    Handed { times, bytes: lengths.into_iter().sum(), ..Handed::default() }
                };
                let handed = handed.unwrap_or_else(unknown);
                self.unit.add(handed, &mut self.warned);
                Stop::Commit(failure)
            }
        }
    }

    /// Returns the index of the next message to put.
    fn index(&self) -> u64 {
        self.next + count(self.unit.times.len())
    }

    fn is_full(&self) -> bool {
        if self.index() >= self.outgoing.count() || self.left_in_unit() == 0 {
            return true;
        }
        let has_waited = |began: Instant| self.pacer.is_some() && began.elapsed() >= PACED_UNIT;
        !self.transaction.enabled
            && (self.unit.bytes >= UNIT_BYTES || self.unit.began.is_some_and(has_waited))
    }

    fn left_in_unit(&self) -> u64 {
        let size = if self.transaction.enabled {
            let size = u64::from(self.transaction.tx_size.get());
            // Transactions have the boundaries that they would have if this attempt had begun with
            // the first message.
            size - (self.next - self.from) % size
        } else {
            self.most
        };
        size.saturating_sub(count(self.unit.times.len()))
    }

    /// Waits until the rate limit allows the next message, and returns the index after the last
    /// message that may be put together with it. If the messages already put should be committed
    /// first, returns the index of the next message instead, so that nothing is put.
    async fn allow(&mut self) -> Result<u64, Stop> {
        let index = self.index();
        let most = index.saturating_add(self.left_in_unit().min(BATCH)).min(self.outgoing.count());
        if self.stop_at.has_passed() {
            return Err(Stop::OutOfTime);
        }
        while self.allowed < most && self.is_due(self.allowed == index).await? {
            self.allowed += 1;
            self.due = None;
        }
        Ok(self.allowed.min(most))
    }

    /// True if the rate limit allows the next message now. With `may_wait`, waits until it does,
    /// unless the messages already put should be committed first.
    async fn is_due(&mut self, may_wait: bool) -> Result<bool, Stop> {
        let Some(pacer) = &mut self.pacer else { return Ok(true) };
        let now = tokio::time::Instant::now();
        let due = *self.due.get_or_insert_with(|| pacer.due(now));
        if due <= now {
            return Ok(true);
        }
        let should_commit = !self.transaction.enabled && !self.unit.times.is_empty() && due - now >= PAUSE;
        if !may_wait || should_commit {
            return Ok(false);
        }
        if due >= self.stop_at.instant() {
            return Err(Stop::OutOfTime);
        }
        tokio::time::sleep_until(due).await;
        Ok(true)
    }

    async fn commit(&mut self, putting: &Putting) -> Result<(), Stop> {
        putting.commit(self.commit_until()).await.map_err(Stop::Commit)?;
        self.confirm();
        Ok(())
    }

    fn commit_until(&self) -> Deadline {
        self.deadline.earlier_by(doubt::TO_RESOLVE.min(self.deadline.remaining() / 4))
    }

    /// Counts the messages of the unit of work, whose commit is confirmed, as committed, and
    /// records their latencies.
    fn confirm(&mut self) {
        let now = Instant::now();
        for time in &self.unit.times {
            self.latencies.record(now.saturating_duration_since(*time));
        }
        self.committed();
    }

    /// Counts the messages of the unit of work as committed, and publishes the new number of
    /// messages on the queue.
    fn committed(&mut self) {
        let unit = std::mem::take(&mut self.unit);
        self.next += count(unit.times.len());
        self.bytes += count(unit.bytes);
        self.units += 1;
        let on_queue = self.next;
        self.confirmed.send_if_modified(|known| {
            let is_more = on_queue > *known;
            *known = on_queue.max(*known);
            is_more
        });
    }
}

/// Checks that a unit of work of `size` messages is within the queue manager's limit `most`.
pub(crate) fn fits_unit(size: u64, most: u64) -> Result<(), BrokerError> {
    if size > most {
        return Err(BrokerError::unsupported(format!(
            "a transaction of {size} messages is larger than the queue manager allows, which is {most} (MAXUMSGS)"
        )));
    }
    Ok(())
}

pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
