//! Writes the target of a request into the request's audit event: first as the request names it,
//! then as it was resolved. Texts have a limited length, and no field has a secret, a user or a
//! header.

use api::cut;
use mq::{QueueName, RoutingKey, Target, TargetSpec};
use tracing::Span;

use crate::operation::{OtherQueues, Plan, Reports};

/// Maximum number of bytes, in JSON form, of each audit field with the target's addresses or with
/// the names of other queues. The rest is cut off.
const LONGEST: usize = 1_000;

/// Records in the request's audit event the target, other queues and tags that the request names.
/// If the target is refused, the event keeps these values.
pub(crate) fn note_asked<W>(plan: &Plan<W>) {
    let span = Span::current();
    if let Some(profile) = &plan.named.target_ref {
        span.record("target_ref", profile.as_str());
    }
    if let Some(target) = &plan.named.target {
        if let Some(queue_manager) = &target.queue_manager {
            span.record("queue_manager", queue_manager.as_str());
        }
        if let Some(queue) = &target.queue {
            span.record("queue", queue.as_str());
        }
        if let Some(name) = target.conn_name.clone() {
            span.record("conn_name", &*cut(&String::from(name), LONGEST));
        }
        if let Some(asked) = asked(target) {
            span.record("mq_target", asked);
        }
    }
    if let Some(further) = further(&plan.further, &plan.reports) {
        span.record("further_queues", &*cut(&further, LONGEST));
    }
    if !plan.tags.is_empty() {
        span.record("tags", plan.tags.joined());
    }
}

/// Records the resolved target in the request's audit event.
pub fn note_reached(target: &Target) {
    let span = Span::current();
    span.record("queue_manager", target.endpoint.queue_manager.as_str());
    if let Some(queue) = &target.queue {
        span.record("queue", queue.as_str());
    }
    span.record("mq_target", target.to_string());
}

/// Returns the target that the request names, in the form in which a resolved target is recorded:
/// `<queue manager>:<queue>` or `<queue manager>:<exchange>/<routing key>`. Parts that the request
/// lacks are empty; `None` if it has none of them.
fn asked(target: &TargetSpec) -> Option<String> {
    let queue_manager = target.queue_manager.as_deref().unwrap_or_default();
    if let Some(exchange) = &target.exchange {
        let routing_key = target.routing_key.as_ref().map_or("", RoutingKey::as_str);
        return Some(format!("{queue_manager}:{}/{routing_key}", exchange.as_str()));
    }
    let queue = target.queue.as_deref().unwrap_or_default();
    (!queue_manager.is_empty() || !queue.is_empty()).then(|| format!("{queue_manager}:{queue}"))
}

/// Returns the names of the queues that the work uses besides the target's, separated by commas;
/// `None` if there are none. Reply queues for IBM MQ's reports are included. For a move to queues
/// that only the messages name, the list has `*` in place of names.
fn further(queues: &OtherQueues, reports: &[Reports]) -> Option<String> {
    let own = match queues {
        OtherQueues::None => Vec::new(),
        OtherQueues::Queue(queue) => vec![queue.as_str()],
        OtherQueues::Any => vec!["*"],
        OtherQueues::InPlace(names) | OtherQueues::Listed(names) => {
            names.iter().map(QueueName::as_str).collect()
        }
    };
    // The name of a reply queue may be any text until the target is checked.
    let is_name = |name: &&str| !name.contains(',');
    let replies = reports.iter().map(|reports| reports.place.queue.as_str()).filter(is_name);
    // More names than the field has characters would be cut off.
    let names: Vec<_> = own.into_iter().chain(replies).take(LONGEST).collect();
    (!names.is_empty()).then(|| names.join(","))
}

#[cfg(test)]
mod tests {
    use mq::ReportPlace;
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> TargetSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_target_is_noted_as_it_was_asked_for() {
        for (target, expected) in [
            (json!({"queueManager": "QM1", "queue": "Q"}), Some("QM1:Q")),
            (json!({"queue": "Q"}), Some(":Q")),
            (json!({"queueManager": "QM1"}), Some("QM1:")),
            (json!({"broker": "rabbitmq", "exchange": "E", "routingKey": "k"}), Some(":E/k")),
            (json!({"connName": "h:1"}), None),
        ] {
            assert_eq!(asked(&spec(target.clone())).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn further_queues_are_named() {
        let name = |text: &str| QueueName::try_from(text.to_owned()).unwrap();
        assert_eq!(further(&OtherQueues::None, &[]), None);
        assert_eq!(further(&OtherQueues::Queue(name("A")), &[]).as_deref(), Some("A"));
        assert_eq!(further(&OtherQueues::Any, &[]).as_deref(), Some("*"));
        let listed = OtherQueues::Listed(vec![name("A"), name("B")]);
        assert_eq!(further(&listed, &[]).as_deref(), Some("A,B"));
        let reports = ["R1", "no,name", "R2"].map(|queue| Reports {
            pointer: "/mqProps".to_owned(),
            place: ReportPlace { queue: queue.to_owned().try_into().unwrap(), queue_manager: None },
        });
        assert_eq!(further(&OtherQueues::None, &reports).as_deref(), Some("R1,R2"));
    }
}
