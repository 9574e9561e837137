//! Rate limits in force for a request: the tenant's own, and the deployment's default in place of
//! each limit that the tenant does not set.

use std::str::FromStr;

use crate::items::{LimitsItem, Rate, RateError, TargetLimits};

/// Name that stands for the queue manager, in the rate limits of targets that may lead to any queue
/// manager.
const ANY_QUEUE_MANAGER: &str = "*";

/// Rate limits of the deployment for tenants and targets without limits of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DefaultLimits {
    /// Rate limit of a tenant's requests; `None` for no limit.
    pub requests: Option<Rate>,
    /// Rate limits of each tenant at each target. A member that is `None` sets no limit.
    pub targets: TargetLimits,
}

/// Default rate limit of a tenant's requests, parsed from a text such as `requests=100/200`; `None`
/// for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TenantLimit(pub Option<Rate>);

/// Reason why the deployment's default limits are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefaultLimitsError {
    /// The text is malformed, or a number is out of range.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The default limit for tenants is for another quantity than requests.
    #[error("a tenant has a limit of requests alone")]
    Unit,
}

/// Rate limits that apply to one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitsInForce {
    /// Rate limit of the tenant's requests; `None` for no limit.
    pub requests: Option<Rate>,
    /// Rate limits of the tenant at the request's target; all are `None` if the request has no
    /// target.
    pub target: TargetLimits,
}

/// Target of a request, as its rate limits identify it.
#[derive(Clone, Copy, Debug)]
pub struct LimitedTarget<'a> {
    /// Name of the target's profile; `None` for an inline target.
    pub target_ref: Option<&'a str>,
    /// Name of the target's queue manager, or `*` if it may be any.
    pub queue_manager: &'a str,
}

impl FromStr for TenantLimit {
    type Err = DefaultLimitsError;

    fn from_str(text: &str) -> Result<Self, DefaultLimitsError> {
        let TargetLimits { requests, messages, bytes } = text.parse::<TargetLimits>()?;
        match (messages, bytes) {
            (None, None) => Ok(Self(requests)),
            _ => Err(DefaultLimitsError::Unit),
        }
    }
}

impl DefaultLimits {
    /// Parses the values of the parameters `TenantLimit` and `TargetLimit`.
    ///
    /// # Errors
    /// If a text is malformed, or the tenant's limit has another unit than requests.
    pub fn parse(tenant: &str, target: &str) -> Result<Self, DefaultLimitsError> {
        let TenantLimit(requests) = tenant.parse::<TenantLimit>()?;
        Ok(Self { requests, targets: target.parse()? })
    }

    /// Returns the rate limits of a request to `target` (`None` for a request without a target):
    /// the tenant's limits in `own`, and the default in place of each limit that `own` does not
    /// set.
    #[must_use]
    pub fn in_force(&self, own: &LimitsItem, target: Option<&LimitedTarget<'_>>) -> LimitsInForce {
        let target = target.map(|target| {
            let set = match target.target_ref {
                Some(name) => own.targets.get(name).copied(),
                None => of_queue_manager(own, target.queue_manager),
            };
            self.of_target(set.as_ref())
        });
        LimitsInForce { requests: own.requests.or(self.requests), target: target.unwrap_or_default() }
    }

    /// Returns the rate limits of a tenant at a target: the tenant's limits in `own`, and the
    /// default in place of each limit that `own` does not set.
    #[must_use]
    pub fn of_target(&self, own: Option<&TargetLimits>) -> TargetLimits {
        let own = own.copied().unwrap_or_default();
        TargetLimits {
            requests: own.requests.or(self.targets.requests),
            messages: own.messages.or(self.targets.messages),
            bytes: own.bytes.or(self.targets.bytes),
        }
    }
}

impl<'a> LimitedTarget<'a> {
    /// Creates the target of a request from the name of its profile (`None` if it is inline) and
    /// the name of its queue manager (`None` if the name may lead to any queue manager, as `*QM`
    /// may). All targets with such names share one limit, because otherwise a caller could get a
    /// further limit by another name.
    #[must_use]
    pub fn new(target_ref: Option<&'a str>, queue_manager: Option<&'a str>) -> Self {
        Self { target_ref, queue_manager: queue_manager.unwrap_or(ANY_QUEUE_MANAGER) }
    }
}

/// Returns the tenant's own rate limits at the queue manager `name`; `None` if it has none. A
/// target that may lead to any queue manager has the name `*`. If the tenant has no limits for `*`,
/// such a target has the lowest limits of all queue managers, because it may lead to each of them.
fn of_queue_manager(item: &LimitsItem, name: &str) -> Option<TargetLimits> {
    let own = item.queue_managers.get(name).copied();
    if own.is_some() || name != ANY_QUEUE_MANAGER {
        return own;
    }
    item.queue_managers.values().copied().reduce(|one, other| TargetLimits {
        requests: lower(one.requests, other.requests),
        messages: lower(one.messages, other.messages),
        bytes: lower(one.bytes, other.bytes),
    })
}

fn lower(one: Option<Rate>, other: Option<Rate>) -> Option<Rate> {
    let by_pace = |a: &Rate, b: &Rate| a.per_second.total_cmp(&b.per_second).then(a.burst.cmp(&b.burst));
    one.into_iter().chain(other).min_by(by_pace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_queue_manager_has_the_lowest_limits_unless_it_has_its_own() {
        let limits = |requests, messages: Option<Rate>| TargetLimits { requests, messages, bytes: None };
        let rate = |per_second| Rate::new(per_second, Some(5)).ok();
        let named = [("QM1", limits(rate(3.0), None)), ("QM2", limits(rate(2.0), rate(7.0)))];
        let queue_managers = named.map(|(name, limits)| (name.to_owned(), limits)).into();
        let mut item = LimitsItem { queue_managers, ..LimitsItem::default() };
        let of = |item: &LimitsItem, name| {
            let target = LimitedTarget::new(None, name);
            DefaultLimits::default().in_force(item, Some(&target)).target
        };
        assert_eq!(of(&item, None), limits(rate(2.0), rate(7.0)));
        assert_eq!(of(&item, Some("QM3")), TargetLimits::default());
        item.queue_managers.insert("*".to_owned(), limits(rate(9.0), None));
        assert_eq!(of(&item, None), limits(rate(9.0), None));
        assert_eq!(of(&LimitsItem::default(), None), TargetLimits::default());
    }
}
