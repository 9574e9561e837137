//! Finds out the type and the arguments of a queue. AMQP has no method for that, but the broker
//! refuses a declaration that contradicts an existing queue, and names the first argument that
//! differs with its current value. So we declare the queue with a queue type that does not exist,
//! which never creates a queue, and adopt one argument after the other until only the type differs.
//! To find out a delivery limit or a time to live, we declare it with a value that is no number.

use std::collections::BTreeMap;

use broker::Deadline;
use futures_util::FutureExt as _;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use mq::{BrokerError, QueueName};

use crate::errors::{During, Failure};
use crate::session::{Session, call, short};

pub(crate) const OVERFLOW: &str = "x-overflow";
pub(crate) const MAX_LENGTH: &str = "x-max-length";
const QUEUE_TYPE: &str = "x-queue-type";
pub(crate) const DELIVERY_LIMIT: &str = "x-delivery-limit";
pub(crate) const MESSAGE_TTL: &str = "x-message-ttl";
/// Value that is neither a queue type nor a valid limit or time, so that the broker refuses a
/// declaration with it and discloses the actual value.
const NOTHING: &str = "integrahub-asks-for-this";
/// Maximum number of declarations to find out one argument of a queue. It exceeds the number of
/// arguments that a queue has.
const MAX_QUESTIONS: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Classic,
    Quorum,
    Stream,
    /// Queue type that the gateway does not know, by its name.
    Other(String),
}

#[derive(Clone, Debug)]
pub(crate) struct QueueFacts {
    pub(crate) kind: QueueKind,
    /// True if the queue is deleted when its last consumer ends.
    pub(crate) auto_delete: bool,
    /// Arguments with which the queue was declared, as far as the broker disclosed them.
    pub(crate) arguments: BTreeMap<String, AMQPValue>,
}

impl QueueFacts {
    /// Returns the value of a queue argument; `None` if the queue lacks the argument or it is not
    /// text.
    pub(crate) fn text(&self, argument: &str) -> Option<String> {
        match self.arguments.get(argument) {
            Some(AMQPValue::LongString(text)) => Some(text.to_string()),
            _ => None,
        }
    }

    /// Returns the value of a queue argument; `None` if the queue lacks the argument or it is not a
    /// non-negative number.
    pub(crate) fn number(&self, argument: &str) -> Option<u64> {
        self.arguments.get(argument).and_then(crate::message::integer)
    }
}

/// Determines the type of `queue` and the arguments with which it was declared.
///
/// # Errors
/// [`BrokerError::QueueNotFound`], or [`BrokerError::Unsupported`] with the reason why the type is
/// unknown.
pub(crate) async fn learn(
    session: &Session,
    queue: &QueueName,
    deadline: Deadline,
) -> Result<QueueFacts, BrokerError> {
    let mut question = Question::about(QUEUE_TYPE);
    let current = question.ask(session, queue, deadline).boxed().await?;
    let auto_delete = question.options.auto_delete;
    Ok(QueueFacts { kind: kind(&current), auto_delete, arguments: question.arguments })
}

/// Returns the time to live in milliseconds that the queue was declared with; `None` if it has
/// none. Some versions of the broker compare a quorum queue's time to live after its type.
/// [`learn`] stops at the type and does not find it, so this function asks for it separately.
pub(crate) async fn declared_ttl(
    session: &Session,
    queue: &QueueName,
    facts: &QueueFacts,
    deadline: Deadline,
) -> Option<u64> {
    if let Some(ttl) = facts.number(MESSAGE_TTL) {
        return Some(ttl);
    }
    let ttl = ask_quorum_queue(MESSAGE_TTL, session, queue, facts, deadline).await?;
    u64::try_from(ttl).ok()
}

/// Returns the number with which a quorum queue was declared for `argument`; `None` if the queue
/// has none or is not a quorum queue, or if the broker does not disclose it.
pub(crate) async fn ask_quorum_queue(
    argument: &'static str,
    session: &Session,
    queue: &QueueName,
    facts: &QueueFacts,
    deadline: Deadline,
) -> Option<i64> {
    if facts.kind != QueueKind::Quorum {
        return None;
    }
    let mut question = Question::about(argument);
    question.arguments = facts.arguments.clone();
    question.arguments.insert(QUEUE_TYPE.to_owned(), AMQPValue::LongString("quorum".into()));
    let current = question.ask(session, queue, deadline).boxed().await.ok()?;
    // If two values differ, the broker does not name their type.
    quoted(&current)?.parse().ok()
}

/// Contradicting declarations of a queue that make the broker disclose an argument, with the
/// arguments disclosed so far.
#[derive(Debug)]
struct Question {
    /// Name of the queue argument to determine.
    wanted: &'static str,
    options: QueueDeclareOptions,
    arguments: BTreeMap<String, AMQPValue>,
    corrected: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Learned {
    Argument,
    /// The broker disclosed the value of the argument that is to be determined. This is the
    /// broker's text for the value.
    Wanted(String),
}

impl Question {
    fn about(wanted: &'static str) -> Self {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        Self { wanted, options, arguments: BTreeMap::new(), corrected: Vec::new() }
    }

    /// Declares the queue repeatedly, each time with the arguments disclosed so far, until the
    /// broker's refusal names only the wanted argument. Returns the broker's text for the value of
    /// that argument.
    async fn ask(
        &mut self,
        session: &Session,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<String, BrokerError> {
        let unknown = |why: &str| {
            BrokerError::unsupported(format!("the type of the queue `{queue}` is not known: {why}"))
        };
        for _ in 0..MAX_QUESTIONS {
            let channel = session.open_channel(deadline).await;
            let channel = channel.map_err(|failure| failure.into_error(During::Connection))?;
            let declare = channel.queue_declare(short(queue), self.options, self.table());
            let refusal = match call(deadline, declare).await {
                Err(Failure::Amqp(error)) if error.is_amqp_soft_error() => error.to_string(),
                Err(failure) => return Err(failure.into_error(During::Queue(queue))),
                Ok(_) => return Err(unknown("the broker accepted an argument that cannot be")),
            };
            if refusal.contains("ACCESS_REFUSED") {
                return Err(unknown(
                    "the user lacks the permission `configure` on it, which the question takes",
                ));
            }
            match self.learn(&refusal) {
                Some(Learned::Wanted(current)) => return Ok(current),
                Some(Learned::Argument) => {}
                None => {
                    // The queue may not exist: a declaration with this type fails in either case.
                    let exists = session.inspect_apart(queue, deadline).await;
                    exists.map_err(|failure| failure.into_error(During::Queue(queue)))?;
                    break;
                }
            }
        }
        Err(unknown("the broker did not say"))
    }

    fn table(&self) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in &self.arguments {
            if let Ok(name) = ShortString::try_new(name) {
                table.insert(name, value.clone());
            }
        }
        table.insert(self.wanted.into(), AMQPValue::LongString(NOTHING.into()));
        table
    }

    /// Parses the refusal `inequivalent arg 'NAME' for queue …: received … but current is VALUE`.
    /// Returns VALUE if NAME is the wanted argument, and otherwise adopts VALUE for the next
    /// declaration. `None` if the text has another form, or names an argument for the second time.
    fn learn(&mut self, refusal: &str) -> Option<Learned> {
        let (_, rest) = refusal.split_once("inequivalent arg '")?;
        let (name, rest) = rest.split_once('\'')?;
        let (_, current) = rest.rsplit_once(" but current is ")?;
        if name == self.wanted {
            return Some(Learned::Wanted(current.to_owned()));
        }
        // If the same argument differs a second time, its value was not understood.
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
        // The default type of a queue that was declared without one.
        "classic" => QueueKind::Classic,
        "quorum" => QueueKind::Quorum,
        "stream" => QueueKind::Stream,
        _ => QueueKind::Other(name),
    }
}

/// Returns the value in the broker's text `the value 'VALUE' of type 'TYPE'`; `None` if the text
/// has another form.
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

/// Returns VALUE of a text that begins with `'VALUE'`; `None` if the text begins otherwise.
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
            let learned = Question::about(QUEUE_TYPE).learn(&refusal(text));
            let Some(Learned::Wanted(current)) = learned else { panic!("{text}: {learned:?}") };
            assert_eq!(super::kind(&current), kind, "{text}");
        }
    }

    #[test]
    fn arguments_that_differ_are_agreed_to_once() {
        let mut question = Question::about(QUEUE_TYPE);
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
            let _ = Question::about(QUEUE_TYPE).learn(&text);
            let _ = Question::about(QUEUE_TYPE).learn(&refusal(&text));
        }
    }
}
