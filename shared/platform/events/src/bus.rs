use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;

use crate::call::{PublishError, Refusal};
use crate::encoded::Encoded;

/// Value of `source` in every event on the bus, by which rules select the events of this system.
const SOURCE: &str = "integrahub";

/// Client of an EventBridge event bus to which events are published.
#[derive(Clone, Debug)]
pub struct EventBus {
    client: Client,
    name: String,
}

impl EventBus {
    /// Creates a client of the event bus with this name or ARN.
    #[must_use]
    pub const fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    /// Puts events on the bus. `detail-type` is the event's type, and `detail` the whole envelope.
    /// Returns the events that EventBridge refused, by their sequence numbers.
    pub(crate) async fn put(&self, events: &[Encoded]) -> Result<Vec<(i64, Refusal)>, PublishError> {
        let entry = |event: &Encoded| {
            PutEventsRequestEntry::builder()
                .event_bus_name(&self.name)
                .source(SOURCE)
                .detail_type(&event.event_type)
                .time(event.time.into())
                .detail(&event.json)
                .build()
        };
        let entries = events.iter().map(entry).collect();
        let answer = self.client.put_events().set_entries(Some(entries)).send().await;
        let answer = answer.map_err(|error| PublishError::Bus(Box::new(error.into())))?;
        // One result for each entry, in the order of the entries.
        let results = events.iter().zip(answer.entries());
        let refused = results.filter_map(|(event, result)| {
            let code = result.error_code()?.to_owned();
            Some((event.sequence, Refusal { destination: "EventBridge", code }))
        });
        Ok(refused.collect())
    }
}
