//! Calls to a destination: how many events one call contains, and how it fails.

use attempt::{Retry, Retryable};

use crate::encoded::{Encoded, MAX_BYTES};

/// Maximum number of events that EventBridge and SNS accept in one call.
const ENTRIES: usize = 10;

/// Reason why a destination did not accept the events of a call.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum PublishError {
    #[error("the call to EventBridge failed")]
    Bus(#[source] Box<aws_sdk_eventbridge::Error>),
    #[error("the call to SNS failed")]
    Topic(#[source] Box<aws_sdk_sns::Error>),
    #[error("Kafka did not take the events")]
    Kafka(#[source] Box<crate::kafka::ProduceError>),
}

impl Retryable for PublishError {
    fn retry(&self) -> Retry {
        match self {
            Self::Bus(_) | Self::Topic(_) => Retry::Later,
            Self::Kafka(error) => error.retry(),
        }
    }
}

/// Reason why a destination refused one event of a call. Other events of the call may have been
/// accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{destination} refused it with {code}")]
pub struct Refusal {
    /// Name of the service that refused the event.
    pub destination: &'static str,
    /// Error code that the service returned.
    pub code: String,
}

/// Splits events into calls of at most 10 events and 240 KiB, in order.
pub fn calls(events: &[Encoded]) -> impl Iterator<Item = &[Encoded]> {
    let mut rest = events;
    std::iter::from_fn(move || {
        let mut bytes = 0_usize;
        let fits = |event: &&Encoded| {
            bytes = bytes.saturating_add(event.json.len());
            bytes <= MAX_BYTES
        };
        // No single event exceeds the limit of a call.
        let count = rest.iter().take(ENTRIES).take_while(fits).count();
        let (call, after) = rest.split_at_checked(count)?;
        rest = after;
        (!call.is_empty()).then_some(call)
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn events(sizes: &[usize]) -> Vec<Encoded> {
        let event = |(sequence, size): (i64, &usize)| Encoded {
            sequence,
            id: sequence.to_string(),
            event_type: String::new(),
            tenant: String::new(),
            group: String::new(),
            time: SystemTime::UNIX_EPOCH,
            json: "x".repeat(*size),
        };
        (0..).zip(sizes).map(event).collect()
    }

    #[test]
    fn a_call_has_ten_events_and_no_more_bytes_than_a_destination_takes() {
        let counts = |sizes: &[usize]| calls(&events(sizes)).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(counts(&[]), [0; 0]);
        assert_eq!(counts(&[1; 10]), [10]);
        assert_eq!(counts(&[1; 23]), [10, 10, 3]);
        assert_eq!(counts(&[MAX_BYTES, 1, MAX_BYTES - 1, 1, MAX_BYTES]), [1, 2, 1, 1]);
        let all: Vec<i64> = calls(&events(&[1; 23])).flatten().map(|event| event.sequence).collect();
        assert_eq!(all, (0..23).collect::<Vec<_>>());
    }
}
