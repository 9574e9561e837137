//! Series of calls that publish events, one call after another, each to all destinations.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use crate::call::{PublishError, Refusal};
use crate::encoded::Encoded;
use crate::publisher::{Destination, log_refusal};

/// Series of calls that publish events. A destination that failed gets no further call of the
/// series.
#[derive(Debug)]
pub struct CallSeries<'a> {
    destinations: Vec<&'a Destination>,
    /// Failure of the destination that failed first in this series; `None` if none has failed.
    failure: Option<PublishError>,
}

impl<'a> CallSeries<'a> {
    pub(crate) fn new(destinations: &'a [Destination]) -> Self {
        Self { destinations: destinations.iter().collect(), failure: None }
    }

    /// True if a destination failed in this series of calls. A failed destination has not accepted
    /// all events of the call that failed, and gets no events of later calls.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Ends the series of calls.
    ///
    /// # Errors
    /// If a destination failed: the failure that happened first.
    pub fn end(self) -> Result<(), PublishError> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Sends the events of one [call](crate::calls) to all destinations that have not failed, at
    /// the same time. Returns the sequence numbers of the events that a destination refused. Each
    /// refusal is logged.
    pub async fn send(&mut self, call: &[Encoded]) -> BTreeSet<i64> {
        let sending = self.destinations.iter().map(|destination| destination.send(call));
        let answers = join_all(sending).await;
        let mut refused = BTreeSet::new();
        let mut left = Vec::with_capacity(self.destinations.len());
        for (destination, answer) in self.destinations.drain(..).zip(answers) {
            match answer {
                Ok(found) => {
                    for (sequence, why) in found {
                        let of_type = call.iter().find(|event| event.sequence == sequence);
                        log_refusal(sequence, of_type.map_or("", |event| &event.event_type), &why);
                        refused.insert(sequence);
                    }
                    left.push(destination);
                }
                Err(error) => {
                    log(destination, &error);
                    self.failure.get_or_insert(error);
                }
            }
        }
        self.destinations = left;
        refused
    }
}

/// Logs the failure of a destination. The caller reports only the first failure of a series of
/// calls.
fn log(destination: &Destination, error: &(dyn std::error::Error + 'static)) {
    tracing::warn!(
        event_type = "destination.failed",
        topic = destination.topic(),
        error,
        "a destination did not accept the events: {error}"
    );
}

impl Destination {
    /// Returns the ARN of an SNS topic or the name of a Kafka topic; `None` for an event bus.
    fn topic(&self) -> Option<&str> {
        match self {
            Self::Bus(_) => None,
            Self::Topic(topic) => Some(topic.arn()),
            Self::Kafka(topic) => Some(topic.name()),
        }
    }

    async fn send(&self, call: &[Encoded]) -> Result<Vec<(i64, Refusal)>, PublishError> {
        // Boxed: the futures of the clients are large.
        match self {
            Self::Bus(bus) => Box::pin(bus.put(call)).await,
            Self::Topic(topic) => Box::pin(topic.publish(call)).await,
            Self::Kafka(topic) => Box::pin(topic.send(call)).await.map(|()| Vec::new()),
        }
    }
}
