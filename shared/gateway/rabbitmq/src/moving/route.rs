//! Destination of each message of a move, or the reason why it stays on the source queue.

use std::collections::HashMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use mq::{AllowedQueues, Death, Destination, KeptReason, QueueName};

use crate::content_header;
use crate::deaths::FIRST_QUEUE;

/// Headers with delivery counts that a queue adds to a delivery; they are not part of the published
/// message.
const COUNTS: [&str; 2] = ["x-delivery-count", "x-acquired-count"];
/// Headers in which a publisher names additional routing keys.
const COPIES: [&str; 2] = ["CC", "BCC"];

/// Rule that decides the destination of each message of a move.
pub(super) struct Route {
    from: QueueName,
    to: Destination,
    reach: AllowedQueues,
    /// Queues to which no more messages are sent, with the reason.
    closed: HashMap<QueueName, KeptReason>,
}

/// Decision about one message of a move: its destination, or the reason to keep it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) to: Option<QueueName>,
    pub(super) stays: Option<KeptReason>,
}

impl Route {
    pub(super) fn new(from: QueueName, to: Destination, reach: AllowedQueues) -> Self {
        Self { from, to, reach, closed: HashMap::new() }
    }

    /// Excludes `queue` from the rest of the move, with the reason for messages that stay.
    pub(super) fn close(&mut self, queue: QueueName, why: KeptReason) {
        self.closed.insert(queue, why);
    }

    /// True if the only destination of the move is excluded, so that no further message can be
    /// moved.
    pub(super) fn is_closed(&self) -> bool {
        matches!(&self.to, Destination::Queue(queue) if self.closed.contains_key(queue))
    }

    /// Decides whether a message with these properties and dead-letter history is moved, and where
    /// to.
    pub(super) fn decide(&self, properties: &BasicProperties, deaths: &[Death]) -> Decision {
        let headers = properties.headers().as_ref();
        let to = match &self.to {
            Destination::Queue(queue) => Some(queue.clone()),
            Destination::Origin => origin(headers, deaths),
        };
        let stays = match &to {
            _ if headers.is_some_and(has_moved_properties) => Some(KeptReason::NotReproducible),
            _ if headers.is_some_and(|headers| COPIES.iter().any(|name| headers.contains_key(name))) => {
                Some(KeptReason::WouldBeCopied)
            }
            None => Some(KeptReason::NoOrigin),
            Some(queue) if *queue == self.from => Some(KeptReason::SameQueue),
            Some(queue) if self.to == Destination::Origin && !self.reach.contains(queue) => {
                Some(KeptReason::NotAllowed)
            }
            Some(queue) => self.closed.get(queue).copied(),
        };
        Decision { to, stays }
    }
}

/// True if the message has properties that the client library could not read, and so cannot write
/// again.
fn has_moved_properties(headers: &FieldTable) -> bool {
    headers.inner().keys().any(|name| content_header::property_moved_to(name.as_str()).is_some())
}

/// Returns the queue from which a message was first dead-lettered, from the header that RabbitMQ
/// keeps when the message is dead-lettered again, or else from the oldest entry of the history.
/// `None` if neither names a queue.
fn origin(headers: Option<&FieldTable>, deaths: &[Death]) -> Option<QueueName> {
    let first = match headers?.inner().get(FIRST_QUEUE) {
        Some(AMQPValue::LongString(text)) => String::from_utf8(text.as_bytes().to_vec()).ok(),
        _ => None,
    };
    QueueName::try_from(first.or_else(|| deaths.last()?.queue.clone())?).ok()
}

/// Returns the properties as they were published: without the queue's count headers, and with the
/// publisher's header names.
pub(super) fn as_put(properties: BasicProperties) -> BasicProperties {
    let Some(headers) = properties.headers().as_ref() else { return properties };
    let is_count = |name: &ShortString| COUNTS.contains(&name.as_str());
    let published = |name: &ShortString| content_header::as_published(name.as_str()).map(ShortString::from);
    if !headers.inner().keys().any(|name| is_count(name) || published(name).is_some()) {
        return properties;
    }
    let kept = headers.inner().iter().filter(|(name, _)| !is_count(name));
    let kept: FieldTable = kept
        .map(|(name, value)| (published(name).unwrap_or_else(|| name.clone()), value.clone()))
        .collect::<std::collections::BTreeMap<_, _>>()
        .into();
    properties.with_headers(kept)
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldArray;

    use super::*;
    use crate::deaths::of_delivery;

    fn queue(name: &str) -> QueueName {
        QueueName::try_from(name.to_owned()).unwrap()
    }

    fn with(headers: &[(&str, AMQPValue)]) -> BasicProperties {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), value.clone());
        }
        BasicProperties::default().with_headers(table)
    }

    fn long(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    fn death(queue: &str, count: i64) -> AMQPValue {
        let mut table = FieldTable::default();
        table.insert("queue".into(), long(queue));
        table.insert("count".into(), AMQPValue::LongLongInt(count));
        AMQPValue::FieldTable(table)
    }

    fn to_queue() -> Route {
        Route::new(queue("DLQ"), Destination::Queue(queue("ORDERS")), AllowedQueues::default())
    }

    fn stays(route: &Route, properties: &BasicProperties) -> Option<KeptReason> {
        let deaths = of_delivery(properties.headers().as_ref());
        route.decide(properties, &deaths).stays
    }

    #[test]
    fn the_origin_is_where_a_message_died_first() {
        let deaths = AMQPValue::FieldArray(FieldArray::from(vec![death("RETRY", 3), death("ORDERS", 1)]));
        let origin = |headers: &[(&str, AMQPValue)]| {
            let properties = with(headers);
            let headers = properties.headers().as_ref();
            super::origin(headers, &of_delivery(headers))
        };
        let history = ("x-death", deaths);
        let first = ("x-first-death-queue", long("FIRST"));
        assert_eq!(origin(&[history.clone(), first]), Some(queue("FIRST")));
        assert_eq!(origin(&[history]), Some(queue("ORDERS")));
        for odd in [("x-death", long("ORDERS")), ("x-first-death-queue", long(""))] {
            assert_eq!(origin(&[odd]), None);
        }
    }

    #[test]
    fn nothing_goes_where_it_came_from_or_where_its_caller_may_not() {
        let origin = Route::new(queue("DLQ"), Destination::Origin, AllowedQueues::default());
        let died_in = |name| with(&[("x-first-death-queue", long(name))]);
        assert_eq!(stays(&origin, &died_in("DLQ")), Some(KeptReason::SameQueue));
        assert_eq!(stays(&origin, &died_in("ORDERS")), Some(KeptReason::NotAllowed));
        assert_eq!(stays(&origin, &BasicProperties::default()), Some(KeptReason::NoOrigin));
        // The request names this queue itself, so it was authorized before.
        assert_eq!(stays(&to_queue(), &died_in("DLQ")), None);
    }

    #[test]
    fn what_could_not_be_put_unchanged_or_would_be_put_twice_stays() {
        let copies = AMQPValue::FieldArray(FieldArray::from(vec![long("OTHER")]));
        assert_eq!(stays(&to_queue(), &with(&[("CC", copies)])), Some(KeptReason::WouldBeCopied));
        let moved = with(&[("\0integrahub:message_id", AMQPValue::ByteArray(vec![0xff].into()))]);
        assert_eq!(stays(&to_queue(), &moved), Some(KeptReason::NotReproducible));
    }

    #[test]
    fn a_queue_that_took_no_message_is_not_tried_again() {
        let mut route = to_queue();
        route.close(queue("ORDERS"), KeptReason::Refused);
        assert!(route.is_closed());
        assert_eq!(stays(&route, &BasicProperties::default()), Some(KeptReason::Refused));
    }

    #[test]
    fn what_a_queue_counted_is_no_part_of_a_message() {
        let counted = with(&[("x-delivery-count", AMQPValue::LongInt(2)), ("kind", long("order"))]);
        assert_eq!(as_put(counted), with(&[("kind", long("order"))]));
        let plain = with(&[("kind", long("order"))]);
        assert_eq!(as_put(plain.clone()), plain);
    }

    #[test]
    fn a_header_is_put_under_the_name_that_its_publisher_gave_it() {
        let renamed = with(&[("\0\0integrahub:exchange", long("forged")), ("kind", long("order"))]);
        assert_eq!(stays(&to_queue(), &renamed), None);
        let published = with(&[("\0integrahub:exchange", long("forged")), ("kind", long("order"))]);
        assert_eq!(as_put(renamed), published);
    }
}
