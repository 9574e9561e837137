//! Queues that a move may put messages on.

use mq::{Reach, TargetSpec};

/// Returns a [`Reach`] that allows every queue.
pub(crate) fn everywhere() -> Reach {
    let target: TargetSpec =
        serde_json::from_value(serde_json::json!({"broker": "rabbitmq", "connName": "h:1"})).unwrap();
    let profile = mq::Profile { target, queues: vec!["*".to_owned()], ..mq::Profile::default() };
    let allowed = mq::InlineTargets::default();
    let target = mq::Target::resolve(Some(&profile), None, allowed.of("tenant")).unwrap();
    target.with_reach(Some(&profile), None, allowed.of("tenant")).reach
}
