//! Depth of a queue: its number of messages.

use mq::{Access, BrokerError, DepthReport, QueueName};

use broker::Deadline;

use crate::errors::During;
use crate::leader;
use crate::pool::Pool;

/// Measures the ready messages and the consumers of a queue. AMQP reports no more about a queue. A
/// quorum queue without a leader reports 0 of both, so one that reports 0 is queried again for up
/// to 500 ms.
pub(crate) async fn depth(
    pool: &Pool,
    access: &Access,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<DepthReport, BrokerError> {
    let session = pool.acquire(access, deadline).await?;
    match leader::counts(&session, queue, deadline).await {
        Ok(state) => {
            session.release(deadline).await;
            Ok(DepthReport {
                current_depth: state.messages.into(),
                max_depth: None,
                open_input_count: Some(state.consumers.into()),
                open_output_count: None,
            })
        }
        Err(failure) => Err(session.fail(failure, During::Queue(queue))),
    }
}
