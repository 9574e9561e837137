//! Interprets a refused publish (`basic.nack`). A refusal means that one of the queues did not take
//! the message. It does not mean that the message is nowhere: another queue behind the exchange may
//! have it, the queue may have dead-lettered what it refused, and RabbitMQ also refuses the
//! messages that a queue was processing when it crashed or its node was lost.
//!
//! So a refused message is in doubt, unless the queue proves that it was full and keeps no copy.
//! For that proof, it must be the only queue that the message was sent to, be declared with the
//! overflow `reject-publish`, which no policy overrules on a classic queue, and still hold as many
//! messages as its declared maximum. Quorum queues have no other overflow setting that refuses. A
//! classic queue whose process crashed, and that is full when the gateway asks later, is taken for
//! one that was full when it refused: AMQP shows no difference.

use broker::Deadline;
use mq::{BrokerError, QueueName};

use crate::errors::NACK;
use crate::publish_destination::PublishDestination;
use crate::queue_facts::{self, MAX_LENGTH, OVERFLOW, QueueFacts, QueueKind};
use crate::session::Session;

/// Explanation of a refused publish (`basic.nack`): the error for the caller, and whether the
/// messages may be on a queue.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: BrokerError,
    /// True if the refused messages are certain to be on no queue.
    pub(crate) is_nowhere: bool,
}

/// Determines why messages for this queue or exchange were refused.
pub(crate) async fn explain(
    session: &Session,
    destination: PublishDestination<'_>,
    deadline: Deadline,
) -> Refusal {
    match destination {
        PublishDestination::Queue(queue) => by_queue(session, queue, deadline).await,
        PublishDestination::Exchange(exchange) => {
            let detail = format!(
                "RabbitMQ refused a message (basic.nack): a queue behind the exchange `{}` is full and rejects, or could not store it; other queues may have it",
                exchange.name
            );
            Refusal { error: BrokerError::rejected(detail).with_reply(NACK), is_nowhere: false }
        }
    }
}

/// Determines why a queue refused messages that were published only to it.
pub(crate) async fn by_queue(session: &Session, queue: &QueueName, deadline: Deadline) -> Refusal {
    let facts = queue_facts::learn(session, queue, deadline).await.ok();
    let is_nowhere = match facts.as_ref().and_then(most_before_it_refuses) {
        Some(most) => {
            let counts = session.inspect_apart(queue, deadline).await;
            counts.is_ok_and(|counts| u64::from(counts.messages) >= most)
        }
        None => false,
    };
    let error = match facts.and_then(|facts| facts.text(OVERFLOW)) {
        Some(_) if is_nowhere => {
            BrokerError::queue_full(format!("the queue `{queue}` is full and rejects further messages"))
        }
        Some(overflow) if overflow.starts_with("reject-publish") => BrokerError::queue_full(format!(
            "the queue `{queue}` was full and rejects further messages; those that it refused may be there or at its dead-letter exchange"
        )),
        _ => BrokerError::rejected(format!(
            "RabbitMQ refused a message (basic.nack): the queue `{queue}` is full under a policy that rejects, or could not store it; the message may be there or at its dead-letter exchange"
        )),
    };
    Refusal { error: error.with_reply(NACK), is_nowhere }
}

/// Returns the number of messages at which the queue refuses further ones without storing or
/// dead-lettering them; `None` if this is not certain.
fn most_before_it_refuses(facts: &QueueFacts) -> Option<u64> {
    let is_known = matches!(facts.kind, QueueKind::Classic | QueueKind::Quorum);
    let leaves_nothing = facts.text(OVERFLOW).is_some_and(|overflow| overflow == "reject-publish");
    facts.number(MAX_LENGTH).filter(|_| is_known && leaves_nothing)
}

#[cfg(test)]
mod tests {
    use lapin::types::AMQPValue;

    use super::*;

    #[test]
    fn only_a_queue_that_leaves_nothing_behind_proves_that_a_message_is_nowhere() {
        use QueueKind::{Classic, Other, Quorum, Stream};
        let text = |text: &str| AMQPValue::LongString(text.into());
        let plain = || (OVERFLOW, text("reject-publish"));
        let limit = || (MAX_LENGTH, AMQPValue::LongLongInt(3));
        let bytes = ("x-max-length-bytes", AMQPValue::LongLongInt(3));
        let cases = [
            (Classic, vec![plain(), limit()], Some(3)),
            (Quorum, vec![plain(), limit()], Some(3)),
            // The queue may have been full by a policy's limit, which is not visible here.
            (Classic, vec![plain()], None),
            (Classic, vec![plain(), bytes], None),
            // An overflow set by a policy, which no client can see, may dead-letter.
            (Classic, vec![limit()], None),
            (Classic, vec![], None),
            (Classic, vec![(OVERFLOW, text("reject-publish-dlx")), limit()], None),
            (Classic, vec![(OVERFLOW, text("drop-head")), limit()], None),
            (Classic, vec![(OVERFLOW, text("reject-publish-")), limit()], None),
            (Classic, vec![(OVERFLOW, AMQPValue::Boolean(true)), limit()], None),
            (Classic, vec![plain(), (MAX_LENGTH, AMQPValue::LongLongInt(-1))], None),
            (Classic, vec![plain(), (MAX_LENGTH, text("3"))], None),
            (Stream, vec![plain(), limit()], None),
            (Other("delayed".to_owned()), vec![plain(), limit()], None),
        ];
        for (kind, arguments, expected) in cases {
            let arguments = arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let facts = QueueFacts { kind, auto_delete: false, arguments };
            assert_eq!(most_before_it_refuses(&facts), expected, "{facts:?}");
        }
    }
}
