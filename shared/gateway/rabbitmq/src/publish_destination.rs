//! Destination of published messages: a queue through the default exchange, or an exchange.

use lapin::types::ShortString;
use mq::{BrokerError, Exchange, Member, Outgoing, QueueName};

use crate::errors::{During, Failure};
use crate::session::{Session, short};

/// Reply code of AMQP 0-9-1 for a missing permission (section 1.2).
const ACCESS_REFUSED: i64 = 403;
const NOT_FOUND: i64 = 404;

#[derive(Clone, Copy, Debug)]
pub(crate) enum PublishDestination<'a> {
    Queue(&'a QueueName),
    Exchange(&'a Exchange),
}

impl PublishDestination<'_> {
    /// Returns the exchange to publish to; the empty name (the default exchange) for a queue.
    pub(crate) fn exchange(self) -> ShortString {
        match self {
            Self::Queue(_) => ShortString::default(),
            // Names are at most 255 bytes long, as a short string is.
            Self::Exchange(exchange) => ShortString::try_new(exchange.name.as_str()).unwrap_or_default(),
        }
    }

    /// Returns the routing key for the message at `index`; for a queue, the queue's name.
    pub(crate) fn routing_key(self, outgoing: &Outgoing, index: u64) -> Result<ShortString, BrokerError> {
        match self {
            Self::Queue(queue) => Ok(short(queue)),
            Self::Exchange(exchange) => {
                let key = outgoing.routing_key(index, &exchange.routing_key);
                ShortString::try_new(key).map_err(|error| unusable_key(outgoing, index, error.to_string()))
            }
        }
    }

    /// Ends the session after `failure`, and returns the error that names this queue or exchange.
    pub(crate) fn fail(self, session: Session, failure: Failure) -> BrokerError {
        let exchange = match self {
            Self::Queue(queue) => return session.fail(failure, During::Queue(queue)),
            Self::Exchange(exchange) => &exchange.name,
        };
        let error = session.fail(failure, During::Connection);
        match error.reply().map(|reply| reply.code) {
            Some(NOT_FOUND) => BrokerError::exchange_not_found(exchange.clone()).standing_for(&error),
            Some(ACCESS_REFUSED) => {
                let refused = BrokerError::rejected(format!(
                    "RabbitMQ refused the user access to the exchange `{exchange}`"
                ));
                refused.standing_for(&error)
            }
            _ => error,
        }
    }

    /// Builds the error for a message that the broker returned as unroutable.
    pub(crate) fn unroutable(self) -> BrokerError {
        match self {
            Self::Queue(queue) => BrokerError::queue_not_found(queue.clone()),
            Self::Exchange(exchange) => BrokerError::unroutable(exchange.name.clone()),
        }
    }
}

/// Builds the error of an unusable routing key. It has a JSON Pointer only if the message at
/// `index` sets the key itself, since the target's key may come from a profile.
fn unusable_key(outgoing: &Outgoing, index: u64, detail: String) -> BrokerError {
    let error = BrokerError::unsupported(detail);
    match outgoing.has_own(index, Member::RoutingKey) {
        true => error.at(outgoing.pointer(index, Member::RoutingKey, None)),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use mq::OwnProps;

    use super::*;
    use crate::message::tests::two;

    fn pointer(error: &BrokerError) -> Option<&str> {
        match error {
            BrokerError::Unsupported { pointer, .. } => pointer.as_deref(),
            _ => None,
        }
    }

    #[test]
    fn a_routing_key_is_pointed_to_only_in_a_message() {
        let routing_key = Some("k".to_owned().try_into().unwrap());
        let own = OwnProps { routing_key, ..OwnProps::default() };
        let outgoing = two(|_, second| second.own = own.boxed());
        let own = unusable_key(&outgoing, 1, "too long".to_owned());
        assert_eq!(pointer(&own), Some("/messages/1/routingKey"));
        // The key may come from a profile, and then the request does not name it.
        assert_eq!(pointer(&unusable_key(&outgoing, 0, "too long".to_owned())), None);
    }
}
