//! From what a request says to the target that its work goes to.

use api::access::AccessStore;
use api::{Problem, Reason};
use mq::{AllowedTargets, BrokerKind, Profile, Target, TargetSpec};

use crate::operation::QueueRule;
use crate::problems::from_target;

/// Finds the tenant's profile, merges and checks the target.
///
/// # Errors
/// 400 for an incomplete target, 404 for an unknown profile, 403 for one that is not allowed, 422 for a broker that
/// is not built yet.
pub(crate) async fn resolve(
    access: &AccessStore,
    allowed: AllowedTargets<'_>,
    tenant: &str,
    target_ref: Option<&str>,
    inline: Option<&TargetSpec>,
    queue: QueueRule,
) -> Result<Target, Problem> {
    if target_ref.is_none() && inline.is_none() {
        return Err(Problem::violation("/target", "name a target or a targetRef"));
    }
    let profile = match target_ref {
        None => None,
        Some(name) => {
            let profile: Option<Profile> = access.profile(tenant, name).await?;
            Some(profile.ok_or_else(|| {
                Problem::new(Reason::TargetRefNotFound, "there is no target profile of this name")
            })?)
        }
    };
    let target = Target::resolve(profile.as_ref(), inline, allowed).map_err(from_target)?;
    if queue == QueueRule::Required && target.queue.is_none() {
        return Err(Problem::violation("/target/queue", "is required"));
    }
    if target.endpoint.broker == BrokerKind::IbmMq {
        return Err(Problem::new(
            Reason::UnsupportedByBroker,
            "this deployment does not speak to IBM MQ yet",
        ));
    }
    Ok(target)
}
