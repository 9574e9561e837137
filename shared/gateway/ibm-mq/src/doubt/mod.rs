//! Finds out by a search of the queue whether a commit of unknown outcome took effect.
//!
//! Only messages that are found prove something. A message that was put and is on the queue was
//! committed, with its whole unit of work. But an earlier attempt at the request may have put it
//! under the same id, in a unit of work that ended differently. So after earlier attempts, all
//! messages of the unit of work have to be found. If the unit of work got messages and all of them
//! are on the queue again, none was removed. An absent message proves nothing: another consumer may
//! have got it meanwhile, or the queue manager may not have noticed yet that the connection broke.

#[cfg(test)]
mod model;
mod rule;

use std::sync::Arc;
use std::time::Duration;

use broker::Deadline;
use libmqm_sys as mqi;
use mq::{Access, MessageId, QueueName};

use crate::mqi::{Connection, Got, Object, Properties, Refusal, Take};
use crate::pool::Pool;
use rule::Needed;

pub(crate) use rule::Evidence;

/// Maximum number of messages to search for after a commit of unknown outcome, if finding a single
/// one proves the commit. The last messages are searched first, since consumers take from the
/// front. Each search costs a round trip.
const MOST: usize = 8;

/// Maximum number of messages to search for after a commit of unknown outcome, if all have to be
/// found. After the commit of a larger unit of work, the outcome remains unknown.
const MOST_OF_ALL: usize = 1_000;

/// Time before an operation's deadline that is reserved for searching the queue if a commit is not
/// answered.
pub(crate) const TO_RESOLVE: Duration = Duration::from_secs(1);

/// Pauses before the first, second and third search for the messages of a commit of unknown
/// outcome.
const SEARCH_PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(150), Duration::from_millis(400)];

/// Adds the identifying fields of a received message to the list `taken`, for a search after a
/// commit of unknown outcome. The list stops growing at one entry more than [`MOST_OF_ALL`], so
/// that its length shows that there are too many messages to search for.
pub(crate) fn remember(taken: &mut Vec<Evidence>, md: &mqi::MQMD) {
    if taken.len() <= MOST_OF_ALL {
        taken.push(Evidence::of(md));
    }
}

/// Queue to search for messages after a commit of unknown outcome, with the pool and the login to
/// reach it.
pub(crate) struct SearchedQueue {
    pool: Arc<Pool>,
    access: Access,
    pub(crate) queue: QueueName,
}

impl SearchedQueue {
    pub(crate) fn new(pool: &Arc<Pool>, access: &Access, queue: &QueueName) -> Self {
        Self { pool: Arc::clone(pool), access: access.clone(), queue: queue.clone() }
    }

    /// Searches the queue. True if the search proves that all messages with these ids were put and
    /// committed, by this attempt at the request or an earlier one. False if that remains unknown.
    /// With `is_first_attempt`, no earlier attempt can have put them, so one found message is
    /// proof.
    pub(crate) async fn has_unit(
        &self,
        ids: &[MessageId],
        is_first_attempt: bool,
        deadline: Deadline,
    ) -> bool {
        let needed = Needed::of_put(is_first_attempt);
        let most = if needed == Needed::One { MOST } else { MOST_OF_ALL };
        if ids.is_empty() || (needed == Needed::All && ids.len() > most) {
            return false;
        }
        let ids: Vec<_> = ids.iter().rev().take(most).map(|id| id.0).collect();
        self.search(ids, needed, |_| true, deadline).await
    }

    /// Searches the queue. True if the search proves that all messages in `taken`, which a unit of
    /// work got, are back on the queue. False if that remains unknown.
    pub(crate) async fn has_all_back(&self, taken: &[Evidence], deadline: Deadline) -> bool {
        if taken.is_empty() || taken.len() > MOST_OF_ALL {
            return false;
        }
        let taken: Vec<_> = taken.iter().rev().copied().collect();
        let ids = taken.iter().map(|evidence| evidence.message_id).collect();
        let is_back = move |found: &Evidence| taken.iter().any(|evidence| evidence.came_back_as(found));
        self.search(ids, Needed::OF_GOT, is_back, deadline).await
    }

    /// Searches the queue for messages by their ids, on another connection of the pool. Returns
    /// true if as many as `needed` are found, so that they prove the outcome of the commit. A found
    /// message counts if `is_proof` accepts it. Searches up to three times, because the queue
    /// manager may not have noticed yet that the connection of the commit broke. Returns false if a
    /// search fails, since that proves nothing.
    async fn search(
        &self,
        ids: Vec<mqi::MQBYTE24>,
        needed: Needed,
        is_proof: impl Fn(&Evidence) -> bool + Send + Sync + 'static,
        deadline: Deadline,
    ) -> bool {
        let Self { pool, access, queue } = self;
        let (ids, is_proof) = (Arc::new(ids), Arc::new(is_proof));
        let mut found = false;
        for pause in SEARCH_PAUSES {
            if found || pause >= deadline.remaining() {
                break;
            }
            tokio::time::sleep(pause).await;
            let Ok(session) = pool.acquire(access, deadline).await else { break };
            let (name, ids, is_proof) = (queue.as_str().to_owned(), Arc::clone(&ids), Arc::clone(&is_proof));
            let job = move |connection: &Connection| look(connection, &name, &ids, needed, &*is_proof);
            let Ok(proved) = session.call(deadline, job).await else { break };
            session.finish();
            found = proved;
        }
        tracing::info!(
            event_type = "commit.resolved",
            queue = queue.as_str(),
            found,
            "searched the queue `{queue}` for the messages of a commit in doubt: found = {found}"
        );
        found
    }
}

fn look(
    connection: &Connection,
    queue: &str,
    ids: &[mqi::MQBYTE24],
    needed: Needed,
    is_proof: impl Fn(&Evidence) -> bool,
) -> Result<bool, Refusal> {
    let queue = Object::open_queue(connection, queue, mqi::MQOO_BROWSE)?;
    let properties = Properties::new(connection)?;
    for id in ids {
        let is_there = find(&queue, &properties, *id)?.is_some_and(|found| is_proof(&Evidence::of(&found)));
        if let Some(certain) = needed.settled_by(is_there) {
            return Ok(certain);
        }
    }
    Ok(needed.at_the_end())
}

/// Searches a queue that is open for browsing for the message with this id; `None` if it is absent.
pub(crate) fn find(
    queue: &Object<'_>,
    properties: &Properties<'_>,
    id: mqi::MQBYTE24,
) -> Result<Option<Box<mqi::MQMD>>, Refusal> {
    let take = Take {
        // The body is not needed; browsing a truncated message does not remove it.
        options: mqi::MQGMO_BROWSE_FIRST | mqi::MQGMO_ACCEPT_TRUNCATED_MSG,
        message_id: Some(id),
        ..Take::default()
    };
    Ok(match queue.get(&take, properties, &mut [])? {
        Got::Message { descriptor, .. } => Some(descriptor),
        _ => None,
    })
}
