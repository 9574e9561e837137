//! Rule of `integrahub explain` about the rate limits of the request.

use access::{DefaultLimits, LimitedTarget, LimitsInForce, LimitsItem, pk};
use mq::Target;

use super::Deployment;
use super::rule::Rule;
use super::target::Named;
use crate::access::{Snapshot, limit};

/// Returns a rule that lists the rate limits for a request to `target`; `None` if there are none.
/// The rule permits the request, since rate limits refuse only what exceeds them. If the tenant's
/// item of limits is invalid, the rule refuses the request, as the functions do.
pub(super) async fn describe(
    known: &Snapshot,
    tenant: &str,
    named: &Named,
    target: Option<&Target>,
    deployment: &Deployment<'_>,
) -> Option<Rule> {
    if let Some(fault) = known.fault(&pk::limits(tenant)) {
        return Some(Rule::broken("limits", format!("their item cannot be used: {fault}")));
    }
    let requests = deployment.limits("TenantLimit", "TENANT_LIMIT").await.requests;
    let targets = deployment.limits("TargetLimit", "TARGET_LIMIT").await;
    let texts = in_force(&known.limits(tenant), named, target, DefaultLimits { requests, targets });
    (!texts.is_empty()).then(|| Rule::holds("limits", texts.join(", ")))
}

/// Returns the rate limits of one request as texts, by the rules of the functions: the tenant's own
/// limits (`own`), or else those of the deployment (`defaults`). Without a `target`, only the limit
/// on requests is returned.
fn in_force(
    own: &LimitsItem,
    named: &Named,
    target: Option<&Target>,
    defaults: DefaultLimits,
) -> Vec<String> {
    let limited = target.map(|target| {
        let queue_manager = target.endpoint.broker.certain_queue_manager(&target.endpoint.queue_manager);
        LimitedTarget::new(named.profile.as_deref(), queue_manager)
    });
    let LimitsInForce { requests, target: limits } = defaults.in_force(own, limited.as_ref());
    let mut one = LimitsItem { requests, ..LimitsItem::default() };
    if let Some(LimitedTarget { target_ref, queue_manager }) = limited {
        let (name, place) = match target_ref {
            Some(name) => (name, &mut one.targets),
            None => (queue_manager, &mut one.queue_managers),
        };
        place.insert(name.to_owned(), limits);
    }
    limit::each(&one).iter().map(|one| format!("{} {}", one.title(), one.rate)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::examples::ACME;

    #[test]
    fn the_limits_in_force_are_the_tenant_s_or_the_deployment_s() {
        let own = LimitsItem { requests: Some("5/10".parse().unwrap()), ..LimitsItem::default() };
        let defaults = DefaultLimits::parse("", "messages=500/1000").unwrap();
        let texts = in_force(&own, &Named::default(), None, defaults);
        assert_eq!(texts, ["requests 5/10"]);
        let spec = json!({"broker": "rabbitmq", "connName": "h:1", "queue": "Q"});
        let spec: mq::TargetSpec = serde_json::from_value(spec).unwrap();
        let list: mq::InlineTargets = "rabbitmq://h:1/*".parse().unwrap();
        let target = Target::resolve(None, Some(&spec), list.of(ACME)).unwrap();
        let named = Named { profile: None, inline: Some(spec) };
        let texts = in_force(&own, &named, Some(&target), defaults);
        assert_eq!(texts, ["requests 5/10", "queue manager `/` messages 500/1000"]);
    }
}
