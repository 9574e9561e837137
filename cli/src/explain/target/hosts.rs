//! The rules about the addresses to which a target's host names lead.

use std::net::IpAddr;

use mq::Target;

use crate::explain::rule::Rule;

/// Returns the rule about host names in the target's addresses, which the gateway resolves at each
/// connection.
pub(super) fn names(target: &Target) -> Rule {
    let names = target.endpoint.addresses.iter().filter(|address| address.host.parse::<IpAddr>().is_err());
    match names.count() {
        0 => Rule::holds("addresses", "the target names addresses and no host names"),
        count => Rule::holds(
            "addresses",
            format!(
                "{count} host names are resolved at each connection; one that leads to a special address is refused \
                 (docs/access-table.md). --resolve asks this machine's name server"
            ),
        ),
    }
}

/// Resolves the target's host names on this machine, and checks the addresses by the gateway's
/// rule.
pub(in crate::explain) async fn resolve(target: &Target) -> Vec<Rule> {
    const NAME: &str = "resolved";
    let mut rules = Vec::new();
    for address in &target.endpoint.addresses {
        let host = (address.host.as_str(), address.port);
        let found: Vec<IpAddr> = match tokio::net::lookup_host(host).await {
            Ok(found) => found.map(|found| found.ip()).collect(),
            Err(error) => {
                rules.push(Rule::unknown(NAME, format!("{address} is not known here: {error}")));
                continue;
            }
        };
        let refused = found.iter().find(|found| !target.endpoint.special.admit(address, **found));
        rules.push(match refused {
            Some(_) => Rule::broken(NAME, format!("{address} leads to a special address from here")),
            None => Rule::holds(NAME, format!("{address} leads to {} addresses, none special", found.len())),
        });
    }
    rules
}

#[cfg(test)]
mod tests {
    use mq::{InlineTargets, TargetSpec};
    use serde_json::json;

    use super::*;
    use crate::access::examples::ACME;
    use crate::explain::rule::Verdict;

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_needs_an_entry() {
        let named = |list: &str| {
            let list: InlineTargets = list.parse().unwrap();
            let spec = json!({"broker": "rabbitmq", "connName": "localhost:5671", "queue": "Q"});
            let spec: TargetSpec = serde_json::from_value(spec).unwrap();
            Target::resolve(None, Some(&spec), list.of(ACME)).unwrap()
        };
        let verdict = async |list: &str| resolve(&named(list)).await[0].verdict;
        assert_eq!(verdict("rabbitmq://**:*/*").await, Verdict::Broken);
        assert_eq!(verdict("rabbitmq://localhost:*/*").await, Verdict::Holds);
    }
}
