//! Permission for a move to put messages on any queue, for tests that are not about permissions.

use mq::{AllowedQueues, TargetSpec};

/// Returns a [`AllowedQueues`] that allows a move to put messages on every queue.
pub(crate) fn everywhere() -> AllowedQueues {
    let target: TargetSpec =
        serde_json::from_value(serde_json::json!({"broker": "rabbitmq", "connName": "h:1"})).unwrap();
    let profile = mq::Profile { target, queues: vec!["*".to_owned()], ..mq::Profile::default() };
    let allowed = mq::InlineTargets::default();
    let target = mq::Target::resolve(Some(&profile), None, allowed.of("tenant")).unwrap();
    target.with_reach(Some(&profile), None, allowed.of("tenant")).reach
}
