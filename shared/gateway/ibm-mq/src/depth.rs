//! Measures the depth of a queue, and builds the errors for queues without messages of their own,
//! such as remote queues.

use std::sync::Arc;

use broker::Deadline;
use libmqm_sys::{self as mqi, MQLONG};
use mq::{Access, BrokerError, DepthReport, QueueName};

use crate::errors::During;
use crate::facts::QueueKind;
use crate::mqi::{Refusal, Verb};
use crate::pool::Pool;
use crate::session::{Failure, Session};

/// Measures the depth of a queue, or of the base queue of an alias. Fails for a queue that holds no
/// messages of its own, such as a remote queue.
pub(crate) async fn depth(
    pool: &Arc<Pool>,
    access: &Access,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<DepthReport, BrokerError> {
    let session = pool.acquire(access, deadline).await?;
    let name = queue.as_str().to_owned();
    match session.call(deadline, move |connection| QueueKind::ask(connection, &name)).await {
        Ok(kind) => {
            session.finish();
            report(queue, kind)
        }
        Err(failure) => Err(session.fail(failure, During::Queue(queue), deadline).await),
    }
}

fn report(queue: &QueueName, kind: QueueKind) -> Result<DepthReport, BrokerError> {
    match kind {
        QueueKind::Local(facts) => Ok(DepthReport {
            current_depth: facts.depth,
            max_depth: Some(facts.max_depth),
            open_input_count: Some(facts.open_input),
            open_output_count: Some(facts.open_output),
        }),
        QueueKind::WithoutMessages(kind) => Err(without_messages(queue, kind)),
    }
}

fn without_messages(queue: &QueueName, kind: &str) -> BrokerError {
    BrokerError::unsupported(format!("the queue `{queue}` is {kind}, which has no messages of its own"))
}

/// Reason codes with which MQOPEN may refuse to open a queue for input or browsing because it holds
/// no messages of its own, such as a remote queue.
const NOT_OPENED: [MQLONG; 6] = [
    mqi::MQRC_ALIAS_BASE_Q_TYPE_ERROR,
    mqi::MQRC_OBJECT_TYPE_ERROR,
    mqi::MQRC_OPTION_NOT_VALID_FOR_TYPE,
    mqi::MQRC_Q_TYPE_ERROR,
    mqi::MQRC_UNKNOWN_ALIAS_BASE_Q,
    mqi::MQRC_UNKNOWN_REMOTE_Q_MGR,
];

/// Ends a session that could not open or read a queue, and returns the error. For a queue that
/// holds no messages of its own, the error states the queue's kind, such as a remote queue.
pub(crate) async fn fail_to_get(
    session: Session,
    failure: Failure,
    queue: &QueueName,
    deadline: Deadline,
) -> BrokerError {
    if let Failure::Refused(refusal @ Refusal { verb: Verb::Open, .. }) = failure
        && NOT_OPENED.contains(&refusal.reason)
    {
        let name = queue.as_str().to_owned();
        let kind = session.call(deadline, move |connection| QueueKind::ask(connection, &name)).await;
        if let Ok(QueueKind::WithoutMessages(kind)) = kind {
            let refused = session.fail(failure, During::Queue(queue), deadline).await;
            return without_messages(queue, kind).standing_for(&refused);
        }
    }
    session.fail(failure, During::Queue(queue), deadline).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::LocalQueue;

    #[test]
    fn only_queues_with_messages_have_a_depth() {
        let queue = QueueName::try_from("TO.PARIS".to_owned()).unwrap();
        let elsewhere =
            report(&queue, QueueKind::WithoutMessages("a definition of a remote queue")).unwrap_err();
        assert!(matches!(elsewhere, BrokerError::Unsupported { .. }), "{elsewhere:?}");
        assert!(elsewhere.to_string().contains("remote queue"), "{elsewhere}");
        let local = LocalQueue { depth: 3, max_depth: 5_000, open_input: 1, ..LocalQueue::default() };
        let report = report(&queue, QueueKind::Local(local)).unwrap();
        assert_eq!(
            (report.current_depth, report.max_depth, report.open_input_count),
            (3, Some(5_000), Some(1))
        );
    }
}
