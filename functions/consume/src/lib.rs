//! `POST /messages/consume`: get or browse messages.

use access::Scope;
use api::{Problem, Route};
use gateway::{KeyRule, NamedTarget, Operation, Plan, QueueRule, Work};
use idempotency::OperationType;
use mq::{Ack, AckMode, ConsumeCommand, MaxMessages, ProfileName, Selector, TargetSpec, TxSize, WaitSeconds};
use serde::Deserialize;

/// The kind of work, as records name it.
const CONSUME: OperationType = OperationType::named("CONSUME");

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsumeRequest {
    target: Option<TargetSpec>,
    target_ref: Option<ProfileName>,
    #[serde(default)]
    max_messages: MaxMessages,
    #[serde(default)]
    wait_seconds: WaitSeconds,
    #[serde(default)]
    browse_only: bool,
    #[serde(default)]
    selector: Option<Selector>,
    transaction: Option<ConsumeTransaction>,
    ack: Option<Ack>,
}

/// Accepted for symmetry with a produce: a call is one unit of work whatever its size.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConsumeTransaction {
    #[serde(default)]
    enabled: bool,
    #[serde(default, rename = "txSize")]
    _tx_size: TxSize,
}

impl Operation for ConsumeRequest {
    const ROUTE: Route = Route::post("/messages/consume");
    const SCOPES: &'static [Scope] = &[Scope::MqRead, Scope::MqWrite];
    const KEY: KeyRule = KeyRule::RequiredUnlessRead;
    const QUEUE: QueueRule = QueueRule::Required;

    fn plan(self) -> Result<Plan, Problem> {
        let mut warnings = Vec::new();
        if self.browse_only && self.ack.is_some() {
            warnings.push("ack has no effect: a browse acknowledges nothing".to_owned());
        }
        if self.transaction.is_some_and(|transaction| transaction.enabled) {
            warnings.push(
                "transaction has no effect: a call is one unit of work, whatever its txSize".to_owned(),
            );
        }
        let mode =
            if self.browse_only { AckMode::Browse } else { AckMode::Take(self.ack.unwrap_or_default()) };
        let command = ConsumeCommand {
            max_messages: self.max_messages,
            wait_seconds: self.wait_seconds,
            mode,
            selector: self.selector.unwrap_or_default(),
            warnings,
        };
        let named = NamedTarget::in_members(self.target_ref, self.target);
        Ok(match mode {
            AckMode::Browse => Plan::read(named, |target| Work::Browse { target, command }),
            AckMode::Take(_) => {
                Plan::change(named, CONSUME, |target, execution| Work::Consume { target, command, execution })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(body: Value) -> Result<Plan, Problem> {
        api::json::read::<ConsumeRequest>(body)?.plan()
    }

    #[test]
    fn a_browse_is_a_read_and_everything_else_a_change() {
        assert_eq!(plan(json!({"targetRef": "local", "browseOnly": true})).unwrap().scope, Scope::MqRead);
        for body in [json!({"targetRef": "local"}), json!({"targetRef": "local", "ack": "rollback"})] {
            assert_eq!(plan(body).unwrap().scope, Scope::MqWrite);
        }
    }

    #[test]
    fn the_request_of_the_specification_is_understood() {
        let body = json!({
            "target": {"queueManager": "QM1", "queue": "DEV.QUEUE.1", "channel": "DEV.APP.SVRCONN", "connName": "mq.host:1414"},
            "maxMessages": 500, "waitSeconds": 20, "browseOnly": false,
            "selector": {"correlIdBase64": null, "msgIdBase64": null},
            "transaction": {"enabled": true, "txSize": 100}, "ack": "commit"
        });
        assert!(plan(body).is_ok());
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (body, expected) in [
            (json!({"maxMessages": 0}), "/maxMessages"),
            (json!({"maxMessages": 10_001}), "/maxMessages"),
            (json!({"waitSeconds": 61}), "/waitSeconds"),
            (json!({"ack": "maybe"}), "/ack"),
            (json!({"transaction": {"txSize": 0}}), "/transaction/txSize"),
            (json!({"selector": {"msgIdBase64": "?"}}), "/selector/msgIdBase64"),
        ] {
            assert_eq!(plan(body.clone()).unwrap_err().faults[0].pointer, expected, "{body}");
        }
    }
}
