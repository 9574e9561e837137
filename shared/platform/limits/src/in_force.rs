//! Limits in force for a request: the tenant's own, and the defaults in place of those that it does
//! not set.

use access::{LimitsItem, Rate, TargetLimits};

use crate::defaults::Defaults;
use crate::policy::{ANY_QUEUE_MANAGER, LimitedTarget};

/// Limits in force for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InForce {
    /// Limit of the tenant's requests.
    pub requests: Option<Rate>,
    /// Limits of what the tenant does with the request's target; none without a target.
    pub target: TargetLimits,
}

impl Defaults {
    /// Returns the limits in force for a request of the tenant that has the limits `own`.
    #[must_use]
    pub fn in_force(&self, own: &LimitsItem, target: Option<&LimitedTarget<'_>>) -> InForce {
        let target = target.map(|target| {
            let set = match target.target_ref {
                Some(name) => own.targets.get(name).copied(),
                None => of_queue_manager(own, target.queue_manager),
            };
            self.of_target(set.as_ref())
        });
        InForce { requests: own.requests.or(self.requests), target: target.unwrap_or_default() }
    }

    /// Returns the limits of a target: its own, and the default of each that it does not set.
    pub(crate) fn of_target(&self, own: Option<&TargetLimits>) -> TargetLimits {
        let own = own.copied().unwrap_or_default();
        TargetLimits {
            requests: own.requests.or(self.targets.requests),
            messages: own.messages.or(self.targets.messages),
            bytes: own.bytes.or(self.targets.bytes),
        }
    }
}

/// Returns the tenant's limits of a queue manager. Any queue manager, `*`, has the lowest ones of
/// all if it has none of its own: it may be any of them.
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
            Defaults::default().in_force(item, Some(&target)).target
        };
        assert_eq!(of(&item, None), limits(rate(2.0), rate(7.0)));
        assert_eq!(of(&item, Some("QM3")), TargetLimits::default());
        item.queue_managers.insert("*".to_owned(), limits(rate(9.0), None));
        assert_eq!(of(&item, None), limits(rate(9.0), None));
        assert_eq!(of(&LimitsItem::default(), None), TargetLimits::default());
    }
}
