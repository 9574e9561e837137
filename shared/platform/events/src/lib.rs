//! Published events: their envelope ([`Event`]), and their delivery to an event bus of EventBridge,
//! a topic of SNS, topics of Kafka, or several of them ([`Publisher`]).

mod bus;
mod call;
mod call_series;
mod encoded;
mod envelope;
pub mod kafka;
mod kafka_topic;
mod publisher;
mod topic;

pub use bus::EventBus;
pub use call::{PublishError, Refusal, calls};
pub use call_series::CallSeries;
pub use encoded::{DirectEvent, Encoded, Published, UnpublishableEvent};
pub use envelope::{Attributes, Event, EventError};
pub use kafka_topic::KafkaTopic;
pub use publisher::{Destination, Publisher, Settings, Unpublished, log_refusal};
pub use topic::Topic;
