//! `POST /messages/consume`: gets or browses messages. `GET /messages/bodies/{body_id}`: redirects
//! to the stored body of a consumed message that was too large for a response.

use access::Scope;
use api::{Problem, Route, path_parameter};
use front::{Action, Gateway, KeyRule, NamedTarget, Operation, Plan, QueueRule};
use idempotency::OperationType;
use lambda_http::{Body, Request, Response};
use mq::{
    Ack, AckMode, BackoutRule, ConsumeCommand, IdBytes, MaxMessages, OversizedBodies, ProfileName, Selector,
    SelectorExpression, Tags, TargetSpec, TxSize, WaitSeconds, or_default,
};
use orders::{Change, Read, STORED_BODY};
use serde::{Deserialize, Deserializer};

/// Operation type of a consume, in idempotency records.
const CONSUME: OperationType = OperationType::named("CONSUME");

/// Responds to a consume request, or to a request for a stored message body.
pub async fn handle(gateway: &Gateway, request: Request) -> Response<Body> {
    if path_parameter(STORED_BODY.path, request.uri().path()).is_some() {
        gateway.stored_body(CONSUME, request).await
    } else {
        gateway.handle::<ConsumeRequest>(request).await
    }
}

/// Body of a request to consume or browse messages, as JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsumeRequest {
    target: Option<TargetSpec>,
    target_ref: Option<ProfileName>,
    #[serde(default, deserialize_with = "or_default")]
    max_messages: MaxMessages,
    #[serde(default, deserialize_with = "or_default")]
    wait_seconds: WaitSeconds,
    #[serde(default, deserialize_with = "or_default")]
    browse_only: bool,
    selector: Option<ConsumeSelector>,
    #[serde(default, deserialize_with = "or_default")]
    convert: bool,
    transaction: Option<ConsumeTransaction>,
    ack: Option<Ack>,
    #[serde(default, deserialize_with = "or_default")]
    large: OversizedBodies,
    #[serde(default, deserialize_with = "or_default")]
    tags: Tags,
}

/// Member `selector` of a consume request: ids or an expression that the messages to get must
/// match. Each field is `None` if its member is absent, and `Some(None)` if its member is null.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConsumeSelector {
    #[serde(default, deserialize_with = "named")]
    correl_id_base64: Option<Option<IdBytes>>,
    #[serde(default, deserialize_with = "named")]
    msg_id_base64: Option<Option<IdBytes>>,
    #[serde(default, deserialize_with = "named")]
    expression: Option<Option<SelectorExpression>>,
}

/// Deserializes a member so that null becomes `Some(None)`. The field needs a serde default, which
/// gives `None` for an absent member.
fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl ConsumeSelector {
    /// Converts the member to the conditions that consumed messages must meet. Refuses an object
    /// without members, and a blank expression. Both would select any message, so a client that
    /// lost the id of the message it wants would remove another one.
    fn selection(self) -> Result<Selector, Problem> {
        const MEANT: &str =
            "name correlIdBase64, msgIdBase64 or expression, or leave selector out to get any message";
        let Self { correl_id_base64, msg_id_base64, expression } = self;
        if correl_id_base64.is_none() && msg_id_base64.is_none() && expression.is_none() {
            let detail = format!("is empty and selects no message: {MEANT}");
            return Err(Problem::violation("/selector", detail));
        }
        let expression = expression.flatten();
        if expression.as_ref().is_some_and(|text| text.trim().is_empty()) {
            let detail = format!("is blank and selects no message: {MEANT}");
            return Err(Problem::violation("/selector/expression", detail));
        }
        Ok(Selector {
            correl_id_base64: correl_id_base64.flatten(),
            msg_id_base64: msg_id_base64.flatten(),
            expression,
        })
    }
}

/// Member `transaction` of a consume request, with `enabled` and `txSize` as in a produce request.
/// It has no effect, because a consume with `ack` commit or rollback is always one unit of work.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConsumeTransaction {
    #[serde(default, deserialize_with = "or_default")]
    enabled: bool,
    #[serde(default, deserialize_with = "or_default", rename = "txSize")]
    _tx_size: TxSize,
}

impl Operation for ConsumeRequest {
    type Work = Action;

    const ROUTE: Route = Route::post("/messages/consume");
    const SCOPES: &'static [Scope] = &[Scope::MqRead, Scope::MqWrite];
    const KEY: KeyRule = KeyRule::RequiredUnlessRead;
    const QUEUE: QueueRule = QueueRule::Required;

    fn plan(self) -> Result<Plan, Problem> {
        let warnings = self.warnings();
        let large = self.large;
        let mode =
            if self.browse_only { AckMode::Browse } else { AckMode::Take(self.ack.unwrap_or_default()) };
        if large == OversizedBodies::Store && matches!(mode, AckMode::Browse | AckMode::Take(Ack::None)) {
            // A stored body lives as long as the record, which has to exist before a message leaves
            // its queue.
            return Err(Problem::violation(
                "/large",
                "may be store with ack commit or rollback: a browse and ack none record nothing beforehand",
            ));
        }
        let selector = self.selector.map(ConsumeSelector::selection).transpose()?;
        let command = ConsumeCommand {
            max_messages: self.max_messages,
            wait_seconds: self.wait_seconds,
            mode,
            selector: selector.unwrap_or_default(),
            convert: self.convert,
            backout: BackoutRule::default(),
            warnings,
        };
        let named = NamedTarget::in_members(self.target_ref, self.target);
        let plan = match mode {
            AckMode::Browse => Plan::read(named, Read::Browse(command)),
            AckMode::Take(_) => Plan::change(named, CONSUME, Change::Consume { command, large }),
        };
        Ok(Plan { tags: self.tags, ..plan })
    }
}

impl ConsumeRequest {
    /// Returns warnings about members of the request that have no effect.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.browse_only && self.ack.is_some() {
            warnings.push("ack has no effect: a browse acknowledges nothing".to_owned());
        }
        let unbound = self.browse_only || self.ack == Some(Ack::None);
        if unbound && self.transaction.as_ref().is_some_and(|transaction| transaction.enabled) {
            warnings.push("transaction has no effect: a browse and ack none are no unit of work".to_owned());
        }
        warnings
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
        let command = |mode| ConsumeCommand {
            max_messages: MaxMessages::default(),
            wait_seconds: WaitSeconds::default(),
            mode,
            selector: Selector::default(),
            convert: false,
            backout: BackoutRule::default(),
            warnings: Vec::new(),
        };
        let named = NamedTarget::in_members(Some("local".to_owned().try_into().unwrap()), None);
        let browse = plan(json!({"targetRef": "local", "browseOnly": true})).unwrap();
        assert_eq!(browse, Plan::read(named.clone(), Read::Browse(command(AckMode::Browse))));
        for (body, ack, large) in [
            (json!({"targetRef": "local"}), Ack::Commit, OversizedBodies::Refuse),
            (
                json!({"targetRef": "local", "ack": "rollback", "large": "store"}),
                Ack::Rollback,
                OversizedBodies::Store,
            ),
            (
                json!({"targetRef": "local", "large": "refuse", "ack": "none"}),
                Ack::None,
                OversizedBodies::Refuse,
            ),
        ] {
            let consume = Change::Consume { command: command(AckMode::Take(ack)), large };
            assert_eq!(plan(body).unwrap(), Plan::change(named.clone(), CONSUME, consume));
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
    fn a_transaction_warns_only_if_there_is_none() {
        let warnings = |members: Value| {
            let mut body = json!({"targetRef": "local", "transaction": {"enabled": true, "txSize": 100}});
            body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            format!("{:?}", api::json::read::<ConsumeRequest>(body).unwrap().warnings())
        };
        for quiet in [json!({}), json!({"maxMessages": 500, "ack": "commit"}), json!({"ack": "rollback"})] {
            assert_eq!(warnings(quiet.clone()), "[]", "{quiet}");
        }
        for said in [json!({"ack": "none"}), json!({"browseOnly": true})] {
            assert!(warnings(said.clone()).contains("transaction has no effect"), "{said}");
        }
    }

    #[test]
    fn null_is_the_same_as_absent() {
        let body = json!({"targetRef": "local", "target": null, "maxMessages": null, "waitSeconds": null,
                          "browseOnly": null, "selector": null, "convert": null, "ack": null, "large": null,
                          "transaction": {"enabled": null, "txSize": null}});
        let read = |body| format!("{:?}", api::json::read::<ConsumeRequest>(body).unwrap());
        let absent = json!({"targetRef": "local", "transaction": {}});
        assert_eq!(read(body), read(absent));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (body, expected) in [
            (json!({"large": "store", "ack": "none"}), "/large"),
            (json!({"large": "store", "browseOnly": true}), "/large"),
            (json!({"selector": {"msgIdBase64": "?"}}), "/selector/msgIdBase64"),
        ] {
            assert_eq!(plan(body.clone()).unwrap_err().faults[0].pointer, expected, "{body}");
        }
    }
}
