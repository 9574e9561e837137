//! Remembers which tenant's orders used which targets, so that a tenant is shown only the
//! connection pools that its own orders used.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use mq::{ConnectionCounts, Endpoint};

/// Maximum number of remembered pairs of tenant and target, far more than an execution environment
/// has connection pools.
const MAX_REMEMBERED: usize = 500;

/// Pairs of a tenant and a target that the tenant's orders used, without duplicates, the most
/// recent pair last.
#[derive(Debug, Default)]
pub(crate) struct PoolUsers(Mutex<VecDeque<(String, String)>>);

impl PoolUsers {
    pub(crate) fn note(&self, tenant: &str, endpoint: &Endpoint) {
        let target =
            ConnectionCounts::target_of(endpoint.broker, &endpoint.addresses, &endpoint.queue_manager);
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|(known, at)| known != tenant || *at != target);
        used.push_back((tenant.to_owned(), target));
        if used.len() > MAX_REMEMBERED {
            used.pop_front();
        }
    }

    /// Returns the reports about connection pools that the tenant's orders used.
    pub(crate) fn of(&self, tenant: &str, reports: Vec<ConnectionCounts>) -> Vec<ConnectionCounts> {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used = |report: &ConnectionCounts| {
            used.iter().any(|(known, at)| known == tenant && *at == report.target)
        };
        reports.into_iter().filter(is_used).collect()
    }
}

#[cfg(test)]
mod tests {
    use mq::{Address, BrokerKind};

    use super::*;

    fn endpoint(host: &str) -> Endpoint {
        Endpoint {
            broker: BrokerKind::RabbitMq,
            queue_manager: "/".to_owned(),
            addresses: vec![Address { host: host.to_owned(), port: 5672 }],
            ..Endpoint::default()
        }
    }

    fn reports(hosts: &[&str]) -> Vec<ConnectionCounts> {
        let report = |host: &&str| ConnectionCounts {
            target: format!("rabbitmq://{host}:5672//"),
            open: 1,
            in_use: 0,
            max_size: 5,
        };
        hosts.iter().map(report).collect()
    }

    #[test]
    fn a_tenant_is_shown_the_pools_of_its_own_orders() {
        let users = PoolUsers::default();
        users.note("a", &endpoint("first"));
        users.note("b", &endpoint("second"));
        users.note("b", &endpoint("shared"));
        users.note("a", &endpoint("shared"));
        let shown = |tenant| users.of(tenant, reports(&["first", "second", "shared", "other"]));
        assert_eq!(shown("a"), reports(&["first", "shared"]));
        assert_eq!(shown("b"), reports(&["second", "shared"]));
        assert_eq!(shown("c"), []);
    }

    #[test]
    fn the_latest_targets_are_remembered_however_many_come() {
        let users = PoolUsers::default();
        users.note("a", &endpoint("used"));
        for number in 0..MAX_REMEMBERED {
            users.note("b", &endpoint(&format!("h{number}")));
            users.note("a", &endpoint("used"));
        }
        assert_eq!(users.of("a", reports(&["used"])).len(), 1);
        assert_eq!(users.of("b", reports(&["h0", "h499"])), reports(&["h499"]));
        assert_eq!(users.0.lock().unwrap().len(), MAX_REMEMBERED);
    }
}
