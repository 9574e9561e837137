//! Resolves the target that a request names, with its profile and the defaults, and checks that the
//! caller may use it.

mod asked;

use std::error::Error;

use access::{AccessStore, AccessTableError};
use api::{Problem, Reason, cut};
use mq::{BrokerKind, InlineTargets, Profile, Target};

use self::asked::Asked;
use crate::operation::{OtherQueues, QueueRule, Reports};
use crate::target_request::NamedTarget;

/// Queues that an operation uses: the rule for the target's own queue, other queues, and the reply
/// queues for IBM MQ's reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues<'a> {
    pub(crate) own: QueueRule,
    pub(crate) further: &'a OtherQueues,
    pub(crate) reports: &'a [Reports],
}

impl Queues<'_> {
    /// True if the tenant's own allow-list has to be read, because the request names more than a
    /// profile.
    fn need_a_list(&self, named: &NamedTarget) -> bool {
        named.target.is_some()
            || !named.routing_keys.is_empty()
            || !self.reports.is_empty()
            || *self.further != OtherQueues::None
    }
}

/// Reads the profile and the tenant's own allow-list, merges the target over its profile, and
/// checks that the caller may use it. The JSON Pointers of faults are those in the request's body.
///
/// # Errors
/// 400 for an incomplete target, 404 for an unknown profile, 403 for a target that is not allowed,
/// 422 for a broker that is not built yet, 503 for a profile with a fault.
pub(crate) async fn resolve(
    access: &AccessStore,
    inline_targets: &InlineTargets,
    tenant: &str,
    named: &NamedTarget,
    queues: Queues<'_>,
) -> Result<Target, Problem> {
    let own = async {
        if queues.need_a_list(named) {
            own_targets(access, tenant).await
        } else {
            Ok(InlineTargets::default())
        }
    };
    let (profile, own) = tokio::join!(profile(access, tenant, named), own);
    let (profile, own) = (profile?, own?);
    let allowed = inline_targets.of(tenant).and(&own);
    let asked = Asked { profile: profile.as_ref(), named, allowed };
    let resolved = match queues.further {
        OtherQueues::InPlace(names) => asked.in_place(names, |_| "/queues".to_owned()),
        OtherQueues::Listed(names) => asked.in_place(names, |index| format!("/queues/{index}")),
        OtherQueues::None | OtherQueues::Queue(_) | OtherQueues::Any => asked.complete(queues.own),
    };
    let target = resolved.map_err(|problem| named.place.point(problem))?;
    if target.endpoint.broker == BrokerKind::IbmMq {
        for reports in queues.reports {
            asked.check_reports(&target, reports)?;
        }
    }
    match queues.further {
        OtherQueues::None | OtherQueues::InPlace(_) | OtherQueues::Listed(_) => Ok(target),
        OtherQueues::Queue(queue) => {
            asked.check_further(queue)?;
            if target.queue.as_ref() == Some(queue) {
                return Err(Problem::violation("/to/queue", "is the queue that the messages come from"));
            }
            Ok(target)
        }
        OtherQueues::Any => Ok(target.with_reach(profile.as_ref(), named.target.as_ref(), allowed)),
    }
}

/// Reads the profile that the request names; `None` if it names none.
async fn profile(
    access: &AccessStore,
    tenant: &str,
    named: &NamedTarget,
) -> Result<Option<Profile>, Problem> {
    let Some(name) = &named.target_ref else { return Ok(None) };
    let profile = access.profile(tenant, name).await?;
    profile.map(Some).ok_or_else(|| {
        let detail = format!(
            "the tenant has no target profile `{}`; GET /targets lists those that it has",
            cut(name.as_str(), 100)
        );
        Problem::new(Reason::TargetRefNotFound, detail)
    })
}

/// Reads the tenant's own allow-list. A malformed list allows nothing, but does not prevent the use
/// of profiles.
async fn own_targets(access: &AccessStore, tenant: &str) -> Result<InlineTargets, Problem> {
    let item = match access.targets(tenant).await {
        Ok(item) => item,
        Err(AccessTableError::Malformed) => return Ok(InlineTargets::default()),
        Err(error @ AccessTableError::Unavailable) => return Err(error.into()),
    };
    Ok(InlineTargets::of_one_tenant(&item.entries).unwrap_or_else(|error| {
        let pk = access::pk::targets(tenant);
        let error: &dyn Error = &error;
        tracing::error!(
            event_type = "access.item_malformed",
            pk,
            error,
            "item `{pk}` of the access table is refused: {error}"
        );
        InlineTargets::default()
    }))
}

#[cfg(test)]
mod tests {
    use mq::{ReportPlace, RoutingKey, TargetSpec};

    use super::*;

    #[test]
    fn a_profile_by_itself_needs_no_list() {
        let queues = |further| Queues { own: QueueRule::Required, further, reports: &[] };
        let by_name = |target| NamedTarget::in_members(Some("orders".to_owned().try_into().unwrap()), target);
        let (nothing, any) = (OtherQueues::None, OtherQueues::Any);
        let none = queues(&nothing);
        assert!(!none.need_a_list(&by_name(None)));
        assert!(none.need_a_list(&by_name(Some(TargetSpec::default()))));
        assert!(queues(&any).need_a_list(&by_name(None)));
        let keys = vec![(0, RoutingKey::default())];
        assert!(none.need_a_list(&NamedTarget {
            routing_keys: keys,
            all_have_routing_keys: true,
            ..by_name(None)
        }));
        let place = ReportPlace { queue: "R".to_owned().try_into().unwrap(), queue_manager: None };
        let reports = [Reports { pointer: "/messages/0".to_owned(), place }];
        assert!(Queues { reports: &reports, ..none }.need_a_list(&by_name(None)));
    }
}
