//! Load tests on RabbitMQ, and the AMQP headers by which a message of a load test is recognized.

mod consumer;
mod producer;

use broker::load::{PutOptions, SENT_AT, SEQUENCE, Stamp, TEST_ID};
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::AMQPValue;
use mq::{BrokerError, OutgoingMessage};

use crate::message::{integer, put_properties, signed};
use crate::properties::PutProperties;

pub(crate) use consumer::connect as connect_consumer;
pub(crate) use producer::connect as connect_producer;

/// Builds the AMQP properties of a message of the load test, with the id of the test and the send
/// time.
fn stamped(
    options: &PutOptions,
    message: &OutgoingMessage,
    sent_at_us: u64,
) -> Result<BasicProperties, BrokerError> {
    let PutProperties { amqp, mut headers } = put_properties(&options.outgoing, message)?;
    headers.insert(TEST_ID.into(), AMQPValue::LongString(options.test.as_str().into()));
    headers.insert(SENT_AT.into(), AMQPValue::LongLongInt(signed(sent_at_us)));
    Ok(amqp.with_headers(headers))
}

/// Reads the load test's values (stamp) from a message's headers; `None` if the message does not
/// belong to the load test with the id `test`.
fn stamp(delivery: &Delivery, test: &str) -> Option<Stamp> {
    let headers = delivery.properties.headers().as_ref()?.inner();
    match headers.get(TEST_ID)? {
        AMQPValue::LongString(id) if id.as_bytes() == test.as_bytes() => {}
        _ => return None,
    }
    let number = |name: &str| headers.get(name).and_then(integer);
    Some(Stamp { sequence: number(SEQUENCE)?, sent_at_us: number(SENT_AT)? })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use mq::Headers;

    use super::*;
    use crate::message::tests::two;

    fn options(headers: Headers) -> PutOptions {
        PutOptions {
            outgoing: two(|command, _| command.headers = headers),
            test: "test-1".to_owned().try_into().unwrap(),
            confirms_in_flight: NonZeroUsize::MIN,
            transaction: NonZeroUsize::MIN,
        }
    }

    fn delivered(properties: BasicProperties) -> Delivery {
        let mut delivery = Delivery::mock(1, "".into(), "q".into(), false, Vec::new());
        delivery.properties = properties;
        delivery
    }

    #[test]
    fn a_message_is_known_again_by_its_own_test_alone() {
        let headers = serde_json::from_str(r#"{"testId": "forged", "sentAtUs": "x", "other": 1}"#).unwrap();
        let options = options(headers);
        let message = options.outgoing.with_body(1_000_000, b"x".to_vec());
        let delivery = delivered(stamped(&options, &message, 1_790_000_000_000_001).unwrap());
        let expected = Stamp { sequence: 1_000_000, sent_at_us: 1_790_000_000_000_001 };
        assert_eq!(stamp(&delivery, "test-1"), Some(expected));
        for other in ["test-2", "forged", ""] {
            assert_eq!(stamp(&delivery, other), None, "{other}");
        }
    }

    #[test]
    fn a_message_without_all_values_is_of_no_test() {
        assert_eq!(stamp(&delivered(BasicProperties::default()), "test-1"), None);
        let options = options(Headers::default());
        let message = options.outgoing.with_body(0, Vec::new());
        let of_a_produce = delivered(crate::message::properties(&options.outgoing, &message).unwrap());
        assert_eq!(stamp(&of_a_produce, "test-1"), None);
    }
}
