//! Previews a move, which leaves every message on its queue.

use std::collections::HashSet;

use broker::Deadline;
use mq::{Access, AllowedQueues, BrokerError, KeptReason, MoveCommand, MoveReport, QueueName};

use super::{expect_queue, open_source, stop_at};
use crate::errors::During;
use crate::fetch::{NO_BROWSE, refuse_harm};
use crate::pool::Pool;

/// Previews a move: takes the messages, decides about each, and returns all to the queue. The
/// result reports what the move would do with each message.
pub(crate) async fn preview(
    pool: &Pool,
    access: &Access,
    queue: &QueueName,
    command: &MoveCommand,
    reach: &AllowedQueues,
    deadline: Deadline,
) -> Result<MoveReport, BrokerError> {
    let session = refuse_harm(pool.acquire(access, deadline).await?, queue, deadline).await?;
    let held = (session, pool.settings().most_held);
    let mut source = open_source(held, queue, command, reach, deadline).await?;
    let mut known = HashSet::new();
    let stop_at = stop_at(deadline);
    for _ in 0..command.max.get() {
        source.bind_intake();
        let next = source.next(0, stop_at, deadline).await;
        let Some(parcel) = next.map_err(|failure| failure.into_error(During::Queue(queue)))? else { break };
        if !known.contains(&parcel.to) {
            match expect_queue(&source.session, &parcel.to, deadline).await {
                Ok(()) => known.insert(parcel.to.clone()),
                Err(BrokerError::QueueNotFound { .. }) => {
                    source.route.close(parcel.to, KeptReason::Unroutable);
                    source.keep(parcel.tag, parcel.outcome, KeptReason::Unroutable, deadline).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
        }
        source.losses.note(parcel.to, parcel.effects);
        source.hold(parcel.tag, parcel.outcome);
    }
    let mut report = source.finish(0, deadline).await;
    report.warnings.push(NO_BROWSE);
    Ok(report)
}
