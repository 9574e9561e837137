//! Counts the messages and bytes that a request is charged for by rate limits: before the work from
//! the request, and afterwards from the response.

use api::{Reason, Reply};
use endpoint::Moved;
use endpoint::limits::Cost;
use mq::ProduceCommand;
use orders::{Change, Read};
use serde::Deserialize;

use crate::operation::Action;

/// Members of a response or problem from which the transferred messages are counted. `enqueued` and
/// `moved` count all attempts at the request, `resumed_from` only the earlier ones.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Counted<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    reason: String,
    enqueued: u64,
    moved: u64,
    resumed_from: u64,
}

/// Message in a consume's response: its body in base64, or the size of its stored body.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Message<'a> {
    body_base64: Option<&'a str>,
    body_size: Option<u64>,
}

impl Action {
    /// Returns the messages and bytes to charge before the work, and the function that counts the
    /// actual ones from the work's response; `None` if the work transfers no messages. A consume,
    /// browse or move is charged one message in advance, because the number of its messages is
    /// unknown. Such a request is refused while earlier requests have exceeded the limit.
    pub(crate) fn volume(&self) -> Option<(Cost, Moved)> {
        match self {
            Self::Change(_, Change::Produce(command)) => Some((to_put(command), put)),
            Self::Change(_, Change::Consume { .. }) | Self::Read(Read::Browse(_)) => {
                Some((Cost { messages: 1, bytes: 1 }, taken))
            }
            Self::Change(_, Change::Move(_)) => Some((Cost { messages: 1, bytes: 0 }, relocated)),
            Self::Read(Read::PreviewMove(_) | Read::Depth | Read::Depths(_) | Read::Test) => None,
        }
    }
}

fn to_put(command: &ProduceCommand) -> Cost {
    Cost { messages: command.source.count(), bytes: command.bytes() }
}

/// Returns the cost of a produce: all messages if it succeeded or its outcome is unknown, otherwise
/// those that were put. Messages of earlier attempts were already charged, and are subtracted.
/// `drawn` is the cost that was charged in advance.
fn put(reply: &Reply, drawn: Cost) -> Cost {
    let Counted { reason, enqueued, resumed_from, .. } =
        serde_json::from_str(&reply.body).unwrap_or_default();
    let is_all = reply.status < 400 || reason == Reason::OutcomeInDoubt.as_str();
    let of_all_attempts = if is_all { drawn.messages } else { enqueued.min(drawn.messages) };
    let messages = of_all_attempts.saturating_sub(resumed_from);
    if messages == drawn.messages {
        return drawn;
    }
    let of_each = drawn.bytes.checked_div(drawn.messages).unwrap_or_default();
    Cost { messages, bytes: of_each.saturating_mul(messages) }
}

/// Returns the cost of a consume or browse: the messages in its response, with the bytes of their
/// bodies.
fn taken(reply: &Reply, _: Cost) -> Cost {
    let Counted { messages, .. } = serde_json::from_str(&reply.body).unwrap_or_default();
    let bytes = messages.iter().map(Message::bytes).fold(0, u64::saturating_add);
    Cost { messages: as_u64(messages.len()), bytes }
}

/// Returns the cost of a move: the messages that this attempt moved. Their bytes are unknown and
/// count as 0.
fn relocated(reply: &Reply, _: Cost) -> Cost {
    let Counted { moved, resumed_from, .. } = serde_json::from_str(&reply.body).unwrap_or_default();
    Cost { messages: moved.saturating_sub(resumed_from), bytes: 0 }
}

impl Message<'_> {
    fn bytes(&self) -> u64 {
        let encoded = self.body_base64.unwrap_or_default().trim_end_matches('=');
        // Three bytes for four digits.
        let decoded = as_u64(encoded.len()).saturating_mul(3) / 4;
        self.body_size.unwrap_or(decoded)
    }
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reply(status: u16, body: &Value) -> Reply {
        Reply::json(status, body)
    }

    #[test]
    fn a_consume_costs_the_messages_that_it_returns_with_their_bodies() {
        let messages = json!([
            {"msgIdBase64": "AA==", "bodyBase64": "aGVsbG8=", "bodyText": "hello", "headers": {"messages": [1]}},
            {"bodyBase64": "", "bodyText": ""},
            {"bodyBase64": "YWI="},
            {"bodyUrl": "/messages/bodies/1", "bodySize": 7_000_000},
            {"bodyBase64": null},
        ]);
        let answer = reply(200, &json!({"target": "QM1:Q", "count": 5, "messages": messages}));
        assert_eq!(taken(&answer, Cost::default()), Cost { messages: 5, bytes: 5 + 2 + 7_000_000 });
        for nothing in [json!({"messages": []}), json!({"reason": "QUEUE_NOT_FOUND"}), json!([])] {
            assert_eq!(taken(&reply(404, &nothing), Cost::default()), Cost::default(), "{nothing}");
        }
    }

    #[test]
    fn a_move_costs_what_this_attempt_moved() {
        let answer = reply(200, &json!({"moved": 70, "resumedFrom": 32, "messages": [{"to": "Q"}]}));
        assert_eq!(relocated(&answer, Cost::default()), Cost { messages: 38, bytes: 0 });
        let failed = reply(504, &json!({"reason": "BROKER_TIMEOUT", "moved": 70, "resumedFrom": 70}));
        assert_eq!(relocated(&failed, Cost::default()), Cost::default());
    }

    #[test]
    fn a_produce_costs_what_it_put_and_one_in_doubt_all() {
        let drawn = Cost { messages: 100, bytes: 1_000 };
        assert_eq!(put(&reply(201, &json!({"enqueued": 100})), drawn), drawn);
        let resumed = json!({"enqueued": 100, "resumedFrom": 59});
        assert_eq!(put(&reply(201, &resumed), drawn), Cost { messages: 41, bytes: 410 });
        assert_eq!(put(&reply(404, &json!({"reason": "QUEUE_NOT_FOUND"})), drawn), Cost::default());
        let full = json!({"reason": "QUEUE_FULL", "enqueued": 30});
        assert_eq!(put(&reply(502, &full), drawn), Cost { messages: 30, bytes: 300 });
        let doubt = json!({"reason": "OUTCOME_IN_DOUBT", "enqueued": 30});
        assert_eq!(put(&reply(502, &doubt), drawn), drawn);
        let again = json!({"reason": "QUEUE_FULL", "enqueued": 59, "resumedFrom": 30});
        assert_eq!(put(&reply(502, &again), drawn), Cost { messages: 29, bytes: 290 });
        let doubt = json!({"reason": "OUTCOME_IN_DOUBT", "enqueued": 59, "resumedFrom": 30});
        assert_eq!(put(&reply(502, &doubt), drawn), Cost { messages: 70, bytes: 700 });
        let nothing = Cost::default();
        assert_eq!(put(&reply(502, &full), nothing), nothing);
    }
}
