//! Work orders in the form in which HTTP functions sent them to `mq-access` until 2026-11-26.
//!
//! While a deployment replaces the functions, HTTP functions of the previous version still call the
//! new `mq-access`: for minutes if the template's parameter `Rollout` shifts traffic gradually, and
//! after an HTTP function was rolled back. No deployment of version 0.1.0 sends this form any more,
//! so the release after 0.1.0 can remove this file.

use idempotency::Execution;
use mq::{ConsumeCommand, MoveCommand, OversizedBodies, ProduceCommand, Target};
use serde::Deserialize;

use crate::work::{Change, Read, Work};

/// Work of an order, in the current form or in the form of earlier versions. One enum has the
/// variants of both, because an untagged enum would buffer an order of 6 MB to parse it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Received {
    Change {
        target: Target,
        execution: Execution,
        change: Change,
    },
    Read {
        target: Target,
        read: Read,
    },
    Pools,
    Produce {
        target: Target,
        command: ProduceCommand,
        execution: Execution,
    },
    Consume {
        target: Target,
        command: ConsumeCommand,
        #[serde(default)]
        large: OversizedBodies,
        execution: Execution,
    },
    Move {
        target: Target,
        command: MoveCommand,
        execution: Execution,
    },
    Browse {
        target: Target,
        command: ConsumeCommand,
    },
    PreviewMove {
        target: Target,
        command: MoveCommand,
    },
    Depth {
        target: Target,
    },
    Test {
        target: Target,
    },
}

impl From<Received> for Work {
    fn from(received: Received) -> Self {
        match received {
            Received::Change { target, execution, change } => Self::Change { target, execution, change },
            Received::Read { target, read } => Self::Read { target, read },
            Received::Pools => Self::Pools,
            Received::Produce { target, command, execution } => {
                Self::Change { target, execution, change: Change::Produce(command) }
            }
            Received::Consume { target, command, large, execution } => {
                Self::Change { target, execution, change: Change::Consume { command, large } }
            }
            Received::Move { target, command, execution } => {
                Self::Change { target, execution, change: Change::Move(command) }
            }
            Received::Browse { target, command } => Self::Read { target, read: Read::Browse(command) },
            Received::PreviewMove { target, command } => {
                Self::Read { target, read: Read::PreviewMove(command) }
            }
            Received::Depth { target } => Self::Read { target, read: Read::Depth },
            Received::Test { target } => Self::Read { target, read: Read::Test },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn work(form: Value) -> Work {
        serde_json::from_value(form).unwrap()
    }

    #[test]
    fn work_in_the_former_form_is_the_same_work() {
        let sample = |order: &str| serde_json::from_str::<Value>(order).unwrap()["work"].take();
        let produce = sample(include_str!("../../../../events/gateway/mq-access/produce-too-late.json"));
        let Value::Object(mut change) = produce["change"].clone() else { panic!("{produce}") };
        let [target, execution] = ["target", "execution"].map(|member| change.remove(member).unwrap());
        let consume = &sample(include_str!("../../../../events/gateway/mq-access/browse.json"))["read"]["read"]
            ["browse"];
        let relocate = &json!({"to": "origin", "max": 100, "msgIds": null});
        let put = &produce["change"]["change"]["produce"];
        let changed =
            |change: Value| json!({"change": {"target": target, "execution": execution, "change": change}});
        let read = |read: Value| json!({"read": {"target": target, "read": read}});
        for (former, form) in [
            (
                json!({"produce": {"target": target, "command": put, "execution": execution}}),
                changed(json!({"produce": put})),
            ),
            (
                json!({"consume": {"target": target, "command": consume, "execution": execution}}),
                changed(json!({"consume": {"command": consume, "large": "refuse"}})),
            ),
            (
                json!({"consume": {"target": target, "command": consume, "large": "store", "execution": execution}}),
                changed(json!({"consume": {"command": consume, "large": "store"}})),
            ),
            (
                json!({"move": {"target": target, "command": relocate, "execution": execution}}),
                changed(json!({"move": relocate})),
            ),
            (json!({"browse": {"target": target, "command": consume}}), read(json!({"browse": consume}))),
            (
                json!({"previewMove": {"target": target, "command": relocate}}),
                read(json!({"previewMove": relocate})),
            ),
            (json!({"depth": {"target": target}}), read(json!("depth"))),
            (json!({"test": {"target": target}}), read(json!("test"))),
            (json!("pools"), json!("pools")),
        ] {
            let form = work(form);
            assert_eq!(work(former), form);
            assert_eq!(work(serde_json::to_value(&form).unwrap()), form);
        }
    }
}
