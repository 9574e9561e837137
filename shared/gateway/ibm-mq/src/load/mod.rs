//! Puts and gets the messages of a load test. A producer and a consumer each control a job: a
//! function that runs on the thread of their connection for as long as they exist, puts or gets the
//! messages there, and reports every message with its time.
//!
//! ```text
//! producer -> putter      consumer -> getter
//! ```

mod consumer;
mod getter;
mod producer;
mod putter;

use broker::load::{SENT_AT, SEQUENCE, Stamp, TEST_ID};
use mq::HeaderValue;

use crate::property_names::is_called;

pub(crate) use consumer::connect as connect_consumer;
pub(crate) use producer::connect as connect_producer;

/// Reads the stamp (sequence number and send time) of the load test with the id `test` from a
/// message's properties; `None` if the message does not belong to this test.
fn stamp(properties: &[(String, HeaderValue)], test: &str) -> Option<Stamp> {
    let value = |name: &str| {
        let found = properties.iter().find(|(property, _)| is_called(property, name));
        found.map(|(_, value)| value)
    };
    let number = |name: &str| match value(name)? {
        HeaderValue::Int64(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    match value(TEST_ID)? {
        HeaderValue::Text(id) if id == test => {}
        _ => return None,
    }
    Some(Stamp { sequence: number(SEQUENCE)?, sent_at_us: number(SENT_AT)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(test: HeaderValue, sequence: HeaderValue) -> Vec<(String, HeaderValue)> {
        vec![
            ("idempotencyKey".to_owned(), HeaderValue::from("key")),
            (TEST_ID.to_owned(), test),
            (SEQUENCE.to_owned(), sequence),
            (format!("usr.{SENT_AT}"), HeaderValue::Int64(5)),
        ]
    }

    #[test]
    fn a_message_is_known_again_by_its_own_test_alone() {
        let text = |text: &str| HeaderValue::Text(text.to_owned());
        let whole = properties(text("test-1"), HeaderValue::Int64(7));
        assert_eq!(stamp(&whole, "test-1"), Some(Stamp { sequence: 7, sent_at_us: 5 }));
        assert_eq!(stamp(&whole, "test-2"), None);
        assert_eq!(stamp(&whole[..3], "test-1"), None, "it has no time");
        for (test, sequence) in [
            (text("test-1"), HeaderValue::Int64(-1)),
            (text("test-1"), text("7")),
            (HeaderValue::Bytes(b"test-1".to_vec()), HeaderValue::Int64(7)),
        ] {
            assert_eq!(stamp(&properties(test, sequence), "test-1"), None);
        }
        assert_eq!(stamp(&[], "test-1"), None);
    }
}
