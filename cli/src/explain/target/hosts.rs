//! Rules of `integrahub explain` about a target's host names and the IP addresses that they resolve
//! to.

use std::net::IpAddr;

use mq::Target;

use crate::explain::rule::Rule;

/// Returns a rule that says how many of the target's addresses are host names. It permits the
/// request, because the gateway resolves and checks host names only when it connects.
pub(super) fn describe(target: &Target) -> Rule {
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

/// Resolves the target's host names on this machine, and checks by the gateway's rule that no IP
/// address is special, such as a private one. Returns a result for each address.
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
