//! What kind of queue it is. AMQP has no method that tells, but a declaration that contradicts a
//! queue is refused with the first argument that differs and its current value. So we declare with
//! a queue type that does not exist, which creates nothing in any case, and agree to one argument
//! after the other until the type is what remains.

use std::collections::BTreeMap;

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use mq::{BrokerError, Deadline, QueueName};

use crate::errors::{During, Failure};
use crate::session::{Session, call, inspect, short};

const QUEUE_TYPE: &str = "x-queue-type";
const OVERFLOW: &str = "x-overflow";
/// No queue type has this name.
const NO_TYPE: &str = "integrahub-asks-for-the-type";
/// A queue has fewer arguments than this.
const MAX_QUESTIONS: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Classic,
    Quorum,
    Stream,
    /// A type that this version does not know.
    Other(String),
}

#[derive(Clone, Debug)]
pub(crate) struct QueueFacts {
    pub(crate) kind: QueueKind,
    /// Whether it goes away with its last consumer.
    pub(crate) auto_delete: bool,
    arguments: BTreeMap<String, AMQPValue>,
}

impl QueueFacts {
    /// Whether the queue was declared to refuse messages when it is full.
    pub(crate) fn rejects_when_full(&self) -> bool {
        matches!(self.arguments.get(OVERFLOW), Some(AMQPValue::LongString(text))
            if text.as_bytes().starts_with(b"reject-publish"))
    }
}

/// Finds out the kind of `queue` and the arguments that it was declared with.
///
/// # Errors
/// [`BrokerError::QueueNotFound`], or [`BrokerError::Unsupported`] with the reason why it cannot be
/// known.
pub(crate) async fn learn(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<QueueFacts, BrokerError> {
    let unknown =
        |why: &str| BrokerError::unsupported(format!("the type of the queue {queue} is not known: {why}"));
    let mut question = Question::default();
    for _ in 0..MAX_QUESTIONS {
        let channel = throwaway(session, deadline).await?;
        let answer =
            call(deadline, channel.queue_declare(short(queue), question.options, question.table())).await;
        let refusal = match answer {
            Err(Failure::Amqp(error)) if error.is_amqp_soft_error() => error.to_string(),
            Err(failure) => return Err(failure.into_error(During::Queue(queue))),
            Ok(_) => return Err(unknown("the broker accepted a queue type that does not exist")),
        };
        if refusal.contains("ACCESS_REFUSED") {
            return Err(unknown("the user lacks the permission `configure` on it, which the question takes"));
        }
        match question.learn(&refusal) {
            Some(Learned::Kind(kind)) => {
                let auto_delete = question.options.auto_delete;
                return Ok(QueueFacts { kind, auto_delete, arguments: question.arguments });
            }
            Some(Learned::Argument) => {}
            None => {
                // There is none, perhaps: such a queue cannot be declared, whether or not there is
                // another one.
                let channel = throwaway(session, deadline).await?;
                let exists = inspect(&channel, queue, deadline).await;
                exists.map_err(|failure| failure.into_error(During::Queue(queue)))?;
                return Err(unknown("the broker did not say"));
            }
        }
    }
    Err(unknown("the broker did not say"))
}

async fn throwaway(session: &Session, deadline: Deadline) -> Result<lapin::Channel, BrokerError> {
    session.throwaway_channel(deadline).await.map_err(|failure| failure.into_error(During::Connection))
}

/// A declaration, as far as the broker has let us complete it.
#[derive(Debug)]
struct Question {
    options: QueueDeclareOptions,
    arguments: BTreeMap<String, AMQPValue>,
    corrected: Vec<String>,
}

impl Default for Question {
    fn default() -> Self {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        Self { options, arguments: BTreeMap::new(), corrected: Vec::new() }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Learned {
    Argument,
    Kind(QueueKind),
}

impl Question {
    fn table(&self) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in &self.arguments {
            if let Ok(name) = ShortString::try_new(name) {
                table.insert(name, value.clone());
            }
        }
        table.insert(QUEUE_TYPE.into(), AMQPValue::LongString(NO_TYPE.into()));
        table
    }

    /// Reads `inequivalent arg 'NAME' for queue …: received … but current is VALUE`.
    fn learn(&mut self, refusal: &str) -> Option<Learned> {
        let (_, rest) = refusal.split_once("inequivalent arg '")?;
        let (name, rest) = rest.split_once('\'')?;
        let (_, current) = rest.rsplit_once(" but current is ")?;
        if name == QUEUE_TYPE {
            return Some(Learned::Kind(kind(current)));
        }
        // An argument that differs a second time was not understood.
        if self.corrected.iter().any(|known| known == name) {
            return None;
        }
        self.corrected.push(name.to_owned());
        match name {
            "durable" => self.options.durable = current.starts_with("'true'"),
            "auto_delete" => self.options.auto_delete = current.starts_with("'true'"),
            "exclusive" => self.options.exclusive = current.starts_with("'true'"),
            _ => {
                self.arguments.insert(name.to_owned(), value(current)?);
            }
        }
        Some(Learned::Argument)
    }
}

fn kind(current: &str) -> QueueKind {
    let name = match value(current) {
        Some(AMQPValue::LongString(name)) => name.to_string(),
        _ => quoted(current).unwrap_or("classic").to_owned(),
    };
    match name.as_str() {
        // A queue that was declared without a type: the default is a classic one.
        "classic" => QueueKind::Classic,
        "quorum" => QueueKind::Quorum,
        "stream" => QueueKind::Stream,
        _ => QueueKind::Other(name),
    }
}

/// Reads `the value 'VALUE' of type 'TYPE'`.
fn value(current: &str) -> Option<AMQPValue> {
    let (_, rest) = current.split_once("the value '")?;
    let (value, kind) = rest.rsplit_once("' of type '")?;
    let kind = kind.split_once('\'')?.0;
    match kind {
        "longstr" => Some(AMQPValue::LongString(value.into())),
        "bool" => Some(AMQPValue::Boolean(value == "true")),
        _ => value.parse().ok().map(AMQPValue::LongLongInt),
    }
}

/// Reads `'VALUE'`.
fn quoted(current: &str) -> Option<&str> {
    current.strip_prefix('\'')?.split_once('\'').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refusal(rest: &str) -> String {
        format!("protocol error: PRECONDITION-FAILED: PRECONDITION_FAILED - inequivalent arg {rest}")
    }

    #[test]
    fn the_type_is_read_from_every_form_that_the_broker_uses() {
        let cases = [
            (
                "'x-queue-type' for queue 'q' in vhost '/': received the value '?' of type 'longstr' but current is none",
                QueueKind::Classic,
            ),
            (
                "'x-queue-type' for queue 'q' in vhost '/': received '?' but current is 'quorum'",
                QueueKind::Quorum,
            ),
            (
                "'x-queue-type' for queue 'q' in vhost '/': received none but current is the value 'stream' of type 'longstr'",
                QueueKind::Stream,
            ),
            (
                "'x-queue-type' for queue 'q' in vhost '/': received '?' but current is 'delayed'",
                QueueKind::Other("delayed".to_owned()),
            ),
        ];
        for (text, kind) in cases {
            assert_eq!(Question::default().learn(&refusal(text)), Some(Learned::Kind(kind)), "{text}");
        }
    }

    #[test]
    fn arguments_that_differ_are_agreed_to_once() {
        let mut question = Question::default();
        let durable = refusal("'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'");
        let length = refusal(
            "'x-max-length' for queue 'q' in vhost '/': received none but current is the value '2' of type 'signedint'",
        );
        assert_eq!(question.learn(&durable), Some(Learned::Argument));
        assert!(!question.options.durable);
        assert_eq!(question.learn(&length), Some(Learned::Argument));
        assert_eq!(question.arguments.get("x-max-length"), Some(&AMQPValue::LongLongInt(2)));
        assert_eq!(question.learn(&length), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reading_fail(text in ".*") {
            let _ = Question::default().learn(&text);
            let _ = Question::default().learn(&refusal(&text));
        }
    }
}
