//! Moves messages from one queue to others, unchanged.

mod losses;
mod preview;
mod route;
mod source;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use broker::{Deadline, PutMessages, Relocation};
use lapin::options::{BasicAckOptions, BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, PublisherConfirm};
use mq::{
    Access, AllowedQueues, BrokerError, Destination, KeptReason, MoveCommand, MoveFailure, MoveReport,
    QueueName,
};

use crate::errors::{During, Failure};
use crate::pool::Pool;
use crate::refusal;
use crate::session::{Session, call, short};
use crate::settlement::Proof;
pub(crate) use preview::preview;
use source::{Parcel, Source};

/// Maximum number of messages in a window: they are published, confirmed and acknowledged together,
/// and are on the source and the destination queue meanwhile. A channel sends a quorum queue 32
/// commands at once, and each message taken with `basic.get` needs one.
const WINDOW: usize = 32;
/// Size in bytes at which a window (group of messages that are published together) is full.
const WINDOW_BYTES: usize = 1024 * 1024;

/// Time reserved before the deadline for confirming and acknowledging the last window (group of
/// messages that are published together).
const MARGIN: Duration = Duration::from_secs(1);

/// Move on one connection with two channels. One holds the deliveries, the other publishes: a
/// refused publish closes its channel, and on a shared channel that would requeue all deliveries,
/// even those already confirmed on the destination.
pub(crate) struct Moving {
    source: Source,
    puts: Channel,
    /// User of the connection; `None` if the client certificate is the login.
    login: Option<String>,
    /// Queues that accepted a message of this move. The first message to a queue is published
    /// alone, to find out whether the queue accepts it.
    known: HashSet<QueueName>,
    /// Window: the messages that are published together.
    window: Vec<Parcel>,
    /// Message that was taken, but cannot be published together with the current window.
    next: Option<Parcel>,
    /// Number of messages removed from a queue that is not replicated. If the broker is killed
    /// before the removal is on disk, these messages return to the queue.
    unreplicated_removals: u64,
    /// Number of messages that stay on the source queue because a destination queue refused them.
    /// The destination queue may have stored or dead-lettered a copy nevertheless.
    refused_in_doubt: u64,
}

pub(crate) async fn connect(
    pool: &Pool,
    access: &Access,
    queue: &QueueName,
    command: &MoveCommand,
    reach: &AllowedQueues,
    deadline: Deadline,
) -> Result<Moving, BrokerError> {
    let held = (pool.acquire(access, deadline).await?, pool.settings().most_held);
    let source = open_source(held, queue, command, reach, deadline).await?;
    match open_puts(&source.session, deadline).await {
        Ok(puts) => {
            let login = access.credentials.as_ref().map(|login| login.user.clone());
            let (known, window) = (HashSet::new(), Vec::new());
            Ok(Moving {
                source,
                puts,
                login,
                known,
                window,
                next: None,
                unreplicated_removals: 0,
                refused_in_doubt: 0,
            })
        }
        Err(failure) => Err(source.session.fail(failure, During::Connection)),
    }
}

/// Opens the source queue of a move or its preview, on the session and with the maximum of messages
/// to hold that `held` has. A destination queue that the command names must exist.
async fn open_source(
    held: (Session, usize),
    queue: &QueueName,
    command: &MoveCommand,
    reach: &AllowedQueues,
    deadline: Deadline,
) -> Result<Source, BrokerError> {
    let source = Source::open(held, queue, command, reach, deadline).await?;
    if let Destination::Queue(to) = &command.to
        && let Err(error) = expect_queue(&source.session, to, deadline).await
    {
        source.session.release(deadline).await;
        return Err(error);
    }
    Ok(source)
}

/// Checks by a passive declaration that a queue exists.
///
/// # Errors
/// If the queue does not exist. If the broker refuses to tell (403, 405), the queue counts as
/// existing.
async fn expect_queue(session: &Session, queue: &QueueName, deadline: Deadline) -> Result<(), BrokerError> {
    match session.inspect_apart(queue, deadline).await {
        Ok(_) => Ok(()),
        Err(failure) if failure.reply().is_some_and(|reply| matches!(reply.code, 403 | 405)) => Ok(()),
        Err(failure) => Err(failure.into_error(During::Queue(queue))),
    }
}

async fn open_puts(session: &Session, deadline: Deadline) -> Result<Channel, Failure> {
    let channel = session.open_channel(deadline).await?;
    call(deadline, channel.confirm_select(ConfirmSelectOptions::default())).await?;
    Ok(channel)
}

fn stop_at(deadline: Deadline) -> Deadline {
    deadline.earlier_by(MARGIN.min(deadline.remaining() / 4))
}

impl Moving {
    /// Takes messages until the window (the messages to publish together) has `limit` messages or
    /// is full, or the next message must not be published with it.
    async fn gather(&mut self, limit: usize, deadline: Deadline) -> Result<(), Failure> {
        let stop_at = stop_at(deadline);
        let mut bytes = 0;
        while self.window.len() < limit && bytes < WINDOW_BYTES {
            let next = match self.next.take() {
                Some(parcel) => Some(parcel),
                None => {
                    let in_hand = u64::try_from(self.window.len()).unwrap_or(u64::MAX);
                    self.source.next(in_hand, stop_at, deadline).await?
                }
            };
            let Some(parcel) = next else { break };
            let alone = self.goes_alone(&parcel, deadline).await;
            if alone && !self.window.is_empty() {
                self.next = Some(parcel);
                break;
            }
            bytes += parcel.body.len();
            self.window.push(parcel);
            if alone {
                break;
            }
        }
        Ok(())
    }

    /// True if the message must be published alone, for one of three reasons:
    /// - Its destination queue has not accepted a message of this move yet.
    /// - Its `user_id` is another user's, which the broker refuses.
    /// - The source queue counts each return towards a limit that no client can see, so that the
    ///   message must not return because another one is refused.
    async fn goes_alone(&mut self, parcel: &Parcel, deadline: Deadline) -> bool {
        let user = parcel.properties.user_id().as_ref().map(ShortString::as_str);
        !self.known.contains(&parcel.to)
            || user.is_some_and(|user| self.login.as_deref() != Some(user))
            || self.source.counts_returns(deadline).await
    }

    /// Publishes the messages of the window together, and keeps only the confirmed ones in it.
    async fn publish(&mut self, deadline: Deadline) -> Result<(), MoveFailure> {
        let earlier_returns = self.source.session.noticed.returns();
        let sent = self.send(deadline).await;
        let is_returned = self.source.session.noticed.returns() != earlier_returns;
        let is_alone = self.window.len() == 1;
        match sent {
            Err(failure) if is_alone && failure.spares_the_connection() => {
                self.refused(&failure, deadline).await
            }
            Err(failure) => {
                let error = failure.into_error(During::Queue(&self.source.queue));
                Err(self.in_doubt("were put and not confirmed", &error))
            }
            Ok(_) if is_returned && !is_alone => {
                let detail = BrokerError::rejected("a queue went away while messages were put on it");
                Err(self.in_doubt("were put, and some of them returned", &detail))
            }
            Ok(_) if is_returned => {
                self.stay_all(KeptReason::Unroutable, deadline).await;
                Ok(())
            }
            Ok(confirmed) => {
                self.judge(&confirmed, deadline).await;
                Ok(())
            }
        }
    }

    /// Publishes the messages of the window together. Returns for each whether the broker confirmed
    /// it.
    async fn send(&mut self, deadline: Deadline) -> Result<Vec<bool>, Failure> {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut confirms: Vec<PublisherConfirm> = Vec::with_capacity(self.window.len());
        for parcel in &mut self.window {
            let body = std::mem::take(&mut parcel.body);
            let (to, properties) = (short(&parcel.to), parcel.properties.clone());
            let publish = self.puts.basic_publish(ShortString::default(), to, options, &body, properties);
            confirms.push(call(deadline, publish).await?);
        }
        let mut confirmed = Vec::with_capacity(confirms.len());
        for confirm in confirms {
            confirmed.push(matches!(call(deadline, confirm).await?, Confirmation::Ack(_)));
        }
        Ok(confirmed)
    }

    /// Handles the refusal of a message that was published alone: the message stays on the source
    /// queue, and a new channel is opened. With the refusal, the broker closed the channel, so it
    /// has not stored the message. Fails if the user may not publish at all (403), or no channel
    /// can be opened.
    async fn refused(&mut self, failure: &Failure, deadline: Deadline) -> Result<(), MoveFailure> {
        let reply = failure.reply();
        if reply.is_some_and(|reply| reply.code == 403) {
            // No other message would be accepted either.
            let error = failure.clone().into_error(During::Queue(&self.source.queue));
            return Err(MoveFailure { error, in_doubt: 0 });
        }
        for Parcel { tag, outcome, .. } in std::mem::take(&mut self.window) {
            self.source.keep(tag, outcome, KeptReason::Refused, deadline).await;
        }
        self.puts = open_puts(&self.source.session, deadline).await.map_err(|failure| {
            let error = failure.into_error(During::Connection);
            MoveFailure { error, in_doubt: 0 }
        })?;
        Ok(())
    }

    /// Keeps only the confirmed messages in the window of messages that were published together. No
    /// more messages are sent to a queue that refused one.
    async fn judge(&mut self, confirmed: &[bool], deadline: Deadline) {
        let mut refused: BTreeMap<QueueName, u64> = BTreeMap::new();
        for (parcel, confirmed) in std::mem::take(&mut self.window).into_iter().zip(confirmed) {
            if *confirmed {
                self.known.insert(parcel.to.clone());
                self.window.push(parcel);
            } else {
                *refused.entry(parcel.to.clone()).or_default() += 1;
                self.source.route.close(parcel.to.clone(), KeptReason::Refused);
                self.source.keep(parcel.tag, parcel.outcome, KeptReason::Refused, deadline).await;
            }
        }
        for (queue, count) in refused {
            if refusal::by_queue(&self.source.session, &queue, deadline).await.is_nowhere {
                continue;
            }
            self.refused_in_doubt += count;
            self.source.report.warnings.push(format!(
                "the queue `{queue}` refused {count} messages, which stay, and may also be there or at its dead-letter exchange"
            ));
        }
    }

    async fn stay_all(&mut self, why: KeptReason, deadline: Deadline) {
        for Parcel { tag, to, outcome, .. } in std::mem::take(&mut self.window) {
            self.source.route.close(to, why);
            self.source.keep(tag, outcome, why, deadline).await;
        }
    }

    /// Builds the error for a window of messages that may be on both the source and the destination
    /// queue. `what` says in its text what happened to the messages.
    fn in_doubt(&self, what: &str, cause: &BrokerError) -> MoveFailure {
        let (count, why) = (self.window.len(), self.source.session.blocked_note());
        let error = cause.clone().left_in_doubt(format!("{count} messages {what}: {cause}{why}"));
        MoveFailure { error, in_doubt: u64::try_from(count).unwrap_or(u64::MAX) }
    }

    /// Acknowledges to the source queue the messages of the window, which were published, and waits
    /// for the proof that the queue has applied the acknowledgement.
    async fn acknowledge(&mut self, deadline: Deadline) -> Result<(), BrokerError> {
        let proof = match self.prepare(deadline).await {
            Ok(proof) => proof,
            Err(error) => {
                // The connection is closed next, which would count as a failure of the messages in
                // hand.
                self.source.session.give_back(&self.source.queue, deadline).await;
                return Err(error);
            }
        };
        let (session, queue) = (&self.source.session, &self.source.queue);
        let settled = match self.send_acknowledgements(deadline).await {
            Ok(()) => proof.obtain(session, queue, deadline).await,
            Err(failure) => Err(failure.into()),
        };
        let counts = settled.map_err(|unproven| unproven.into_error(queue))?;
        if !proof.is_replicated() {
            self.unreplicated_removals += u64::try_from(self.window.len()).unwrap_or(u64::MAX);
        }
        match counts {
            Some(counts) => self.source.ready = Some(counts.messages.into()),
            // The broker has closed the channel.
            None => self.source.end(true),
        }
        Ok(())
    }

    /// Prepares the proof that the source queue applies the acknowledgement of the window's
    /// messages. Must be called before the acknowledgement is sent.
    async fn prepare(&mut self, deadline: Deadline) -> Result<Proof, BrokerError> {
        let leadership = self.source.leadership(deadline).await?;
        let (session, queue) = (&self.source.session, &self.source.queue);
        Proof::prepare(leadership, session, queue, self.window.len(), deadline).await
    }

    async fn send_acknowledgements(&self, deadline: Deadline) -> Result<(), Failure> {
        let channel = self.source.session.channel();
        let multiple = BasicAckOptions { multiple: true };
        match self.window.last() {
            Some(last) if self.source.held == 0 => {
                call(deadline, channel.basic_ack(last.tag, multiple)).await?;
            }
            _ => {
                for Parcel { tag, .. } in &self.window {
                    call(deadline, channel.basic_ack(*tag, BasicAckOptions::default())).await?;
                }
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Relocation for Moving {
    fn cluster(&self) -> Option<&str> {
        self.source.session.server.cluster.as_deref()
    }

    fn most_in_doubt(&self) -> u64 {
        u64::try_from(WINDOW).unwrap_or(u64::MAX)
    }

    fn unreplicated_removals(&self) -> u64 {
        self.unreplicated_removals
    }

    fn refused_in_doubt(&self) -> u64 {
        self.refused_in_doubt
    }

    async fn put(&mut self, limit: u64, deadline: Deadline) -> Result<PutMessages, MoveFailure> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(WINDOW);
        let before = self.refused_in_doubt;
        loop {
            self.source.bind_intake();
            self.gather(limit, deadline).await.map_err(|failure| MoveFailure {
                error: failure.into_error(During::Queue(&self.source.queue)),
                in_doubt: 0,
            })?;
            if !self.window.is_empty() {
                self.publish(deadline).await?;
            }
            let is_last = self.source.is_over && self.next.is_none();
            let is_in_doubt = self.refused_in_doubt > before;
            if is_last || is_in_doubt || !self.window.is_empty() {
                let count = u64::try_from(self.window.len()).unwrap_or(u64::MAX);
                return Ok(PutMessages { count, is_certain: true, is_last });
            }
        }
    }

    async fn settle(&mut self, deadline: Deadline) -> Result<(), MoveFailure> {
        if self.window.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.acknowledge(deadline).await {
            return Err(self.in_doubt("are at their new places, and may be back at the old one too", &error));
        }
        for Parcel { tag, to, outcome, effects, .. } in std::mem::take(&mut self.window) {
            self.source.losses.note(to, effects);
            self.source.moved(tag, outcome);
        }
        Ok(())
    }

    async fn finish(self: Box<Self>, deadline: Deadline) -> MoveReport {
        let Self { source, puts, next, .. } = *self;
        // A connection is kept for reuse only if no channel is open on it.
        let _ = source.session.close_channel(&puts, deadline).await;
        source.finish(u64::from(next.is_some()), deadline).await
    }
}
