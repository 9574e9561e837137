//! `POST /messages/move`: moves messages from a queue to another one, or each message back to the
//! queue where it was first dead-lettered.

mod destination;

use access::Scope;
use api::{Problem, Route};
use front::{Action, KeyRule, NamedTarget, Operation, OtherQueues, Plan, QueueRule, TargetPlace};
use idempotency::OperationType;
use mq::{Destination, IdBytes, List, MaxMoves, MoveCommand, ProfileName, Tags, TargetSpec, or_default};
use orders::{Change, Read};
use serde::Deserialize;

use crate::destination::To;

/// Operation type of a move, in idempotency records.
const MOVE: OperationType = OperationType::named("MOVE");

/// Body of a request to move messages, as JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveRequest {
    #[serde(default, deserialize_with = "or_default")]
    from: From,
    to: To,
    #[serde(default, deserialize_with = "or_default")]
    max: MaxMoves,
    #[serde(default, deserialize_with = "or_default")]
    selector: MoveSelector,
    #[serde(default, deserialize_with = "or_default")]
    dry_run: bool,
    #[serde(default, deserialize_with = "or_default")]
    tags: Tags,
}

/// Member `from` of a move request: the target with the queue that the messages are moved from.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct From {
    target: Option<TargetSpec>,
    target_ref: Option<ProfileName>,
}

/// Member `selector` of a move request: ids of the messages to move. Without ids, the move takes
/// the first messages on the queue.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MoveSelector {
    msg_ids_base64: Option<List<IdBytes, 1, 100>>,
}

impl Operation for MoveRequest {
    type Work = Action;

    const ROUTE: Route = Route::post("/messages/move");
    const SCOPES: &'static [Scope] = &[Scope::MqRead, Scope::MqWrite];
    const KEY: KeyRule = KeyRule::RequiredUnlessRead;
    const QUEUE: QueueRule = QueueRule::Required;

    fn plan(self) -> Result<Plan, Problem> {
        let From { target, target_ref } = self.from;
        let named = NamedTarget { place: TargetPlace::From, ..NamedTarget::in_members(target_ref, target) };
        let command = MoveCommand {
            to: self.to.0,
            max: self.max,
            msg_ids: self.selector.msg_ids_base64.map(List::into_vec),
        };
        let further = match &command.to {
            Destination::Queue(queue) => OtherQueues::Queue(queue.clone()),
            Destination::Origin => OtherQueues::Any,
        };
        let plan = if self.dry_run {
            Plan::read(named, Read::PreviewMove(command))
        } else {
            Plan::change(named, MOVE, Change::Move(command))
        };
        Ok(Plan { further, tags: self.tags, ..plan })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(body: Value) -> Result<Plan, Problem> {
        api::json::read::<MoveRequest>(body)?.plan()
    }

    #[test]
    fn a_dry_run_is_a_read_and_everything_else_a_change() {
        let from = json!({"targetRef": "local"});
        let named = NamedTarget {
            place: TargetPlace::From,
            ..NamedTarget::in_members(Some("local".to_owned().try_into().unwrap()), None)
        };
        let command = |to| MoveCommand { to, max: MaxMoves::default(), msg_ids: None };
        let dry = plan(json!({"from": from, "to": "origin", "dryRun": true})).unwrap();
        let preview = Read::PreviewMove(command(Destination::Origin));
        let preview = Plan::read(named.clone(), preview);
        assert_eq!(dry, Plan { further: OtherQueues::Any, ..preview });
        let to_queue = plan(json!({"from": from, "to": {"queue": "ORDERS"}})).unwrap();
        let orders = mq::QueueName::try_from("ORDERS".to_owned()).unwrap();
        let change = Change::Move(command(Destination::Queue(orders.clone())));
        let further = OtherQueues::Queue(orders);
        assert_eq!(to_queue, Plan { further, ..Plan::change(named, MOVE, change) });
    }

    #[test]
    fn null_is_the_same_as_absent() {
        let read = |body| format!("{:?}", api::json::read::<MoveRequest>(body).unwrap());
        let nulls = json!({"from": null, "to": "origin", "max": null, "selector": null, "dryRun": null});
        assert_eq!(read(nulls), read(json!({"to": "origin"})));
        let nulls = json!({"from": {"target": null, "targetRef": "local"}, "to": "origin",
                           "selector": {"msgIdsBase64": null}});
        assert_eq!(read(nulls), read(json!({"from": {"targetRef": "local"}, "to": "origin"})));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let to = json!("origin");
        for (body, expected) in [
            (json!({"to": "nowhere"}), "/to"),
            (json!({"to": 1}), "/to"),
            (json!({"to": {}}), "/to"),
            (json!({"to": {"queue": "Q", "exchange": "E"}}), "/to/exchange"),
            (json!({"to": to, "tags": ["a,b"]}), "/tags/0"),
            (json!({"to": to, "selector": {"msgIdsBase64": ["?"]}}), "/selector/msgIdsBase64/0"),
            (json!({"from": {"targetRef": "local"}}), ""),
        ] {
            assert_eq!(plan(body.clone()).unwrap_err().faults[0].pointer, expected, "{body}");
        }
    }
}
