//! Moves of messages from a queue to other queues of the same broker, for example out of a
//! dead-letter queue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base64_bytes::{Base64Bytes, IdBytes};
use crate::bounded::bounded;
use crate::names::QueueName;
use crate::warnings::Warnings;

bounded!(
    /// Maximum number of messages that a move takes from the queue.
    MaxMoves: u32, 1..=1_000, default 100
);

/// Destination queue of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// Queue of this name, for all messages of the move.
    Queue(QueueName),
    /// Queue from which each message was first dead-lettered, according to its dead-letter history.
    Origin,
}

/// Command to move messages from the target's queue to other queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MoveCommand {
    /// Destination queue of the messages.
    pub to: Destination,
    /// Maximum number of messages that all attempts at the request together move.
    pub max: MaxMoves,
    /// Ids of the messages to move; `None` moves any message.
    pub msg_ids: Option<Vec<IdBytes>>,
}

/// Reason why a move leaves a message on the source queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum KeptReason {
    /// The message has no dead-letter history that names a queue.
    NoOrigin,
    /// The destination of the message is the queue that it is already on.
    SameQueue,
    /// The caller may not use the queue from which the message was first dead-lettered.
    NotAllowed,
    /// The destination queue does not exist.
    Unroutable,
    /// The broker refused the message: the destination is full, or a property was not accepted.
    Refused,
    /// The message is larger than a move can hold in memory.
    TooLarge,
    /// A property of the message cannot be written again byte for byte.
    NotReproducible,
    /// The message would be put on other queues as well (RabbitMQ's headers `CC` and `BCC`).
    WouldBeCopied,
}

/// Result for one message that a move selected: moved, or left on its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveOutcome {
    /// Message id as the broker delivered it, in bytes.
    pub msg_id: Option<Vec<u8>>,
    /// Destination of the message; also set if the message stays, `None` if no destination is
    /// known.
    pub to: Option<QueueName>,
    /// Reason why the message stays on the source queue; `None` if it was moved.
    pub stays: Option<KeptReason>,
    /// Number of times that the message was dead-lettered, over all queues.
    pub deaths: u64,
    /// Number of times that the message was delivered before and returned to the queue.
    pub backout_count: u64,
}

impl Serialize for MoveOutcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut json = serializer.serialize_struct("MoveOutcome", 6)?;
        json.serialize_field("msgIdBase64", &self.msg_id.as_deref().map(Base64Bytes::encode))?;
        json.serialize_field("to", &self.to)?;
        json.serialize_field("outcome", if self.stays.is_none() { "moved" } else { "stayed" })?;
        json.serialize_field("reason", &self.stays)?;
        json.serialize_field("deaths", &self.deaths)?;
        json.serialize_field("backoutCount", &self.backout_count)?;
        json.end()
    }
}

/// Result of a move, or of its preview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveReport {
    /// Moved messages, and the first [`Self::MOST_STAYING`] messages that stay on their queue, in
    /// the order of the queue.
    pub messages: Vec<MoveOutcome>,
    /// Number of messages that were selected for the move and stay on their queue.
    pub stayed: u64,
    /// Number of examined messages, whether or not they were selected for the move.
    pub examined: u64,
    /// Number of messages that are still ready on the source queue, if the broker reported it.
    pub remaining: Option<u64>,
    /// True if there may be more messages to move, because the time or another limit ended the
    /// move.
    pub truncated: bool,
    /// Ids of the request's `msgIdsBase64` that none of the examined messages has.
    pub not_found: Vec<Vec<u8>>,
    /// Warnings for the caller, as the member `warnings` of the response.
    pub warnings: Warnings,
}

impl MoveReport {
    /// Maximum number of staying messages that the report lists, since a response has a limited
    /// size.
    pub const MOST_STAYING: u64 = 1_000;
    /// Maximum number of ids that the warning about [`Self::not_found`] lists.
    const MOST_NAMED: usize = 5;

    /// Builds a warning that lists the selected ids for which no message was found; `None` if all
    /// were found. If the move ended early, or earlier attempts moved messages (`moved_before` is
    /// not 0), the warning gives that as the reason.
    #[must_use]
    pub fn warning_of_ids(&self, moved_before: u64) -> Option<String> {
        if self.not_found.is_empty() {
            return None;
        }
        let named: Vec<_> =
            self.not_found.iter().take(Self::MOST_NAMED).map(|id| Base64Bytes::encode(id)).collect();
        let more = match self.not_found.len().saturating_sub(named.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = match (self.truncated, moved_before) {
            (true, _) => "; the move ended before it had looked at all messages",
            (false, 0) => "",
            (false, _) => "; earlier attempts may have moved their messages",
        };
        let (count, named) = (self.not_found.len(), named.join(", "));
        Some(format!("no message was found for {count} of the ids in msgIdsBase64: {named}{more}{why}"))
    }

    /// Counts the moved messages by destination.
    #[must_use]
    pub fn by_destination(&self) -> BTreeMap<&QueueName, u64> {
        let mut counts = BTreeMap::new();
        let moved = self.messages.iter().filter(|message| message.stays.is_none());
        for to in moved.filter_map(|message| message.to.as_ref()) {
            *counts.entry(to).or_insert(0) += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_of_ids_counts_all_of_them_and_names_a_few() {
        let report = |count: u8| MoveReport {
            not_found: (0..count).map(|number| vec![number; 3]).collect(),
            ..MoveReport::default()
        };
        assert_eq!(report(0).warning_of_ids(0), None);
        let one = "no message was found for 1 of the ids in msgIdsBase64: AAAA";
        assert_eq!(report(1).warning_of_ids(0).as_deref(), Some(one));
        let resumed = format!("{one}; earlier attempts may have moved their messages");
        assert_eq!(report(1).warning_of_ids(1), Some(resumed));
        let many = report(7).warning_of_ids(0).unwrap();
        assert!(many.contains("for 7 of the ids") && many.ends_with("BAQE and 2 more"), "{many}");
    }
}
