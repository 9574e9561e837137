//! Checks of the network of a group of functions: whether they reach the services that they call.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::FunctionGroup;
use super::facts::{Network, RouteTable, Rule, SecurityGroup, Subnet};
use crate::doctor::kinds::{DNS, EGRESS, ENDPOINTS, ROUTES, SUBNETS};
use crate::doctor::report::Check;

/// TCP port on which all AWS services are reached.
const HTTPS: u16 = 443;
/// Services that can be reached through a gateway endpoint, which is free of charge.
const BY_GATEWAY: [&str; 2] = ["s3", "dynamodb"];
/// End of the sentence about missing VPC endpoints, if the subnets have routes to another network.
/// The endpoints of that network cannot be read.
const UNSEEN: &str = "only the network that its other routes lead to may have one";
const ELSEWHERE: &str =
    "make sure that the other network has endpoints for them, and that their names lead there";

/// Default route of a subnet, by what it lets functions reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteKind {
    /// Route to the internet through a NAT gateway, a transit gateway or an appliance.
    Open,
    /// Route to an internet gateway. Functions cannot use it, because they have no public
    /// addresses.
    PublicOnly,
    /// No route to the internet, but one to another network, which may have endpoints that several
    /// VPCs share.
    Elsewhere,
    /// No route to the internet or to another network.
    Closed,
}

/// Makes all checks of the network of one group of functions. If `before` is true, the deployment
/// is still to come.
pub(super) fn all(functions: &FunctionGroup, network: &Network, before: bool) -> Vec<Check> {
    let subnets = subnets(functions, network);
    // Of subnets that are not there nothing else can be said.
    if network.subnets.is_empty() {
        return vec![subnets.about(functions.name)];
    }
    let checks = [
        subnets,
        dns(functions, network),
        routes(functions, network, before),
        endpoints(functions, network, before),
        egress(functions, network),
    ];
    checks.into_iter().map(|check| check.about(functions.name)).collect()
}

fn subnets(functions: &FunctionGroup, network: &Network) -> Check {
    let found: BTreeSet<&str> = network.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
    let groups: BTreeSet<&str> = network.groups.iter().map(|group| group.id.as_str()).collect();
    let missing: Vec<&str> = functions
        .subnets
        .iter()
        .filter(|id| !found.contains(id.as_str()))
        // Without any subnet the groups were not asked for.
        .chain(functions.groups.iter().filter(|id| !found.is_empty() && !groups.contains(id.as_str())))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        let detail = format!("{} does not exist in this account and region", missing.join(", "));
        return SUBNETS.fail(detail, "name subnets and security groups that do");
    }
    let strange = network.subnets.iter().filter(|subnet| subnet.vpc != network.vpc).map(|subnet| &subnet.id);
    let ours = |group: &&SecurityGroup| functions.groups.contains(&group.id) && group.vpc != network.vpc;
    let strange: Vec<&str> = strange
        .chain(network.groups.iter().filter(ours).map(|group| &group.id))
        .map(String::as_str)
        .collect();
    if !strange.is_empty() {
        let detail = format!("{} is in another VPC than {}", strange.join(", "), network.vpc);
        return SUBNETS.fail(detail, "name subnets and security groups of one VPC");
    }
    if !functions.vpc.is_empty() && functions.vpc != network.vpc {
        let detail = format!("the subnets are in {}, and the parameters name {}", network.vpc, functions.vpc);
        return SUBNETS.fail(detail, "name the VPC of the subnets");
    }
    let zones: BTreeSet<&str> = network.subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
    if zones.len() < functions.zones {
        let detail = format!("the subnets are in {} zone, and a new database needs two", zones.len());
        return SUBNETS.fail(detail, "add a subnet of another zone");
    }
    SUBNETS.ok(format!(
        "{} in {} of {}",
        count(found.len(), "subnet"),
        count(zones.len(), "zone"),
        network.vpc
    ))
}

fn dns(functions: &FunctionGroup, network: &Network) -> Check {
    let vpc = &network.vpc;
    let off: Vec<&str> =
        [("enableDnsSupport", network.dns_support), ("enableDnsHostnames", network.dns_hostnames)]
            .into_iter()
            .filter(|(_, is_on)| !is_on)
            .map(|(name, _)| name)
            .collect();
    if off.is_empty() {
        return DNS.ok(format!("{vpc} resolves the private names of endpoints"));
    }
    if functions.made.is_empty() && functions.tables.is_empty() && is_open(network) {
        if !network.dns_support {
            return DNS.warn(
                format!("enableDnsSupport is off in {vpc}: only name servers of its DHCP options give names"),
                "make sure that they know the names of AWS and of the brokers or the database, or switch it on",
            );
        }
        return DNS.ok(format!("{} is off in {vpc}, and nothing there needs it", off.join(" and ")));
    }
    DNS.fail(
        format!("{} is off in {vpc}: an interface endpoint cannot have its private name", off.join(" and ")),
        format!("aws ec2 modify-vpc-attribute --vpc-id {vpc} --enable-dns-hostnames '{{\"Value\": true}}', and the same for enable-dns-support"),
    )
}

fn routes(functions: &FunctionGroup, network: &Network, before: bool) -> Check {
    let taken: Vec<String> = network
        .endpoints
        .iter()
        .filter(|endpoint| before && endpoint.is_gateway && endpoint.is_available && endpoint.is_foreign)
        .filter(|endpoint| BY_GATEWAY.contains(&endpoint.service.as_str()))
        .filter(|endpoint| endpoint.tables.iter().any(|table| functions.tables.contains(table)))
        .map(|endpoint| format!("{} ({})", endpoint.service, endpoint.id))
        .collect();
    if !taken.is_empty() {
        return ROUTES.fail(
            format!("route tables in {} have an endpoint for {} already", functions.tables_parameter, taken.join(", ")),
            format!(
                "a route table takes one for each service, so EC2 refuses the deployment's own: leave {} empty and \
                 make the missing endpoints yourself, or remove these",
                functions.tables_parameter
            ),
        );
    }
    let (mut faults, mut is_sure) = (Vec::new(), false);
    for subnet in &network.subnets {
        let Some(table) = table_of(network, subnet) else {
            is_sure = true;
            faults.push(format!("{} has no route table", subnet.id));
            continue;
        };
        let kind = route_kind(table);
        let is_made = before && functions.tables.contains(&table.id);
        let is_reached = |service: &&str| {
            kind == RouteKind::Open
                || is_made
                || network.endpoints.iter().any(|endpoint| {
                    let leads = if endpoint.is_gateway {
                        endpoint.tables.contains(&table.id)
                    } else {
                        endpoint.has_private_name
                    };
                    leads && endpoint.is_available && endpoint.service == **service
                })
        };
        let closed: Vec<&str> = BY_GATEWAY.into_iter().filter(|service| !is_reached(service)).collect();
        if !closed.is_empty() {
            is_sure |= kind != RouteKind::Elsewhere;
            let public = if kind == RouteKind::PublicOnly {
                "; its internet gateway is none, because functions have no public address"
            } else {
                ""
            };
            faults.push(format!(
                "{} ({}) has no way to {}{public}",
                subnet.id,
                table.id,
                closed.join(" and ")
            ));
        }
    }
    if faults.is_empty() {
        return ROUTES.ok("every subnet has a way to S3 and DynamoDB");
    }
    if !is_sure {
        return ROUTES.warn(format!("{}; {UNSEEN}", faults.join("; ")), ELSEWHERE);
    }
    ROUTES.fail(
        faults.join("; "),
        format!(
            "name the route tables in {}, which makes endpoints, or give the subnets a NAT gateway",
            functions.tables_parameter
        ),
    )
}

fn endpoints(functions: &FunctionGroup, network: &Network, before: bool) -> Check {
    let (mut missing, mut shut, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for &service in &functions.services {
        let found = network.endpoints.iter().find(|endpoint| {
            !endpoint.is_gateway
                && endpoint.is_available
                && endpoint.has_private_name
                && endpoint.service == service
        });
        match found {
            Some(endpoint) if before && functions.made.contains(&service) => {
                taken.extend(endpoint.is_foreign.then(|| format!("{service} ({})", endpoint.id)));
            }
            // Its name leads to it even if there is another way.
            Some(endpoint) => {
                let groups = network.groups.iter().filter(|group| endpoint.groups.contains(&group.id));
                let mut rules = groups.flat_map(|group| &group.inwards);
                if !rules.any(|rule| admits(rule, functions)) {
                    shut.push(format!("{service} ({})", endpoint.id));
                }
            }
            None if before && functions.made.contains(&service) => {}
            None => missing.push(service),
        }
    }
    if !taken.is_empty() {
        return ENDPOINTS.fail(
            format!("the VPC has an endpoint for {} already", taken.join(", ")),
            format!(
                "a VPC has one private name for each service, so EC2 refuses the deployment's own: leave {} empty and \
                 make the missing endpoints yourself, or remove these",
                functions.tables_parameter
            ),
        );
    }
    let is_open = is_open(network);
    let is_closed = !is_open && !missing.is_empty();
    if is_closed && !reaches_internet_or_other_network(network) {
        return ENDPOINTS.fail(
            format!("there is no way to {}: functions that call it time out", missing.join(", ")),
            format!(
                "make interface endpoints with private names for {}, or give the subnets a NAT gateway",
                missing.join(", ")
            ),
        );
    }
    if !shut.is_empty() {
        return ENDPOINTS.fail(
            format!("the security groups of the endpoints {} do not admit the functions", shut.join(", ")),
            format!("admit {} there, on port {HTTPS}", functions.groups.join(", ")),
        );
    }
    if is_closed {
        let detail = format!("no endpoint here leads to {}; {UNSEEN}", missing.join(", "));
        return ENDPOINTS.warn(detail, ELSEWHERE);
    }
    if is_open {
        return ENDPOINTS.ok("the subnets have a way to the internet");
    }
    ENDPOINTS.ok(format!("endpoints lead to {}", functions.services.join(", ")))
}

fn egress(functions: &FunctionGroup, network: &Network) -> Check {
    let ours = network.groups.iter().filter(|group| functions.groups.contains(&group.id));
    let rules: Vec<&Rule> = ours.flat_map(|group| &group.outwards).collect();
    if rules.iter().any(|rule| rule.is_open()) {
        return EGRESS.ok("the functions may connect to everything");
    }
    let groups = functions.groups.join(", ");
    if !rules.iter().any(|rule| rule.is_for(HTTPS)) {
        return EGRESS.fail(
            format!(
                "no rule of {groups} lets the functions connect to port {HTTPS}: they reach no service of AWS"
            ),
            format!("add an outbound rule for TCP {HTTPS}, and for the ports of the {}", functions.name),
        );
    }
    EGRESS.warn(
        format!("the rules of {groups} let the functions connect to some addresses and ports only"),
        format!(
            "make sure that those of the {} are among them; the checks of these say more",
            functions.name
        ),
    )
}

/// Returns whether a rule of an endpoint's security group admits HTTPS from the functions. Any
/// address range is assumed to contain their subnets.
fn admits(rule: &Rule, functions: &FunctionGroup) -> bool {
    rule.is_for(HTTPS)
        && (!rule.addresses.is_empty() || rule.groups.iter().any(|group| functions.groups.contains(group)))
}

fn table_of<'a>(network: &'a Network, subnet: &Subnet) -> Option<&'a RouteTable> {
    let own = network.tables.iter().find(|table| table.subnets.contains(&subnet.id));
    own.or_else(|| network.tables.iter().find(|table| table.is_main))
}

fn route_kind(table: &RouteTable) -> RouteKind {
    match &table.default_route_target {
        Some(target) if !target.starts_with("igw-") => RouteKind::Open,
        _ if table.leads_elsewhere => RouteKind::Elsewhere,
        Some(_) => RouteKind::PublicOnly,
        None => RouteKind::Closed,
    }
}

/// Returns whether every subnet has a route to the internet that functions can use.
fn is_open(network: &Network) -> bool {
    let is_out =
        |subnet: &Subnet| table_of(network, subnet).is_some_and(|table| route_kind(table) == RouteKind::Open);
    network.subnets.iter().all(is_out)
}

/// Returns whether every subnet has a route that functions can use, to the internet or to another
/// network.
fn reaches_internet_or_other_network(network: &Network) -> bool {
    let leads = |subnet: &Subnet| {
        table_of(network, subnet)
            .is_some_and(|table| [RouteKind::Open, RouteKind::Elsewhere].contains(&route_kind(table)))
    };
    network.subnets.iter().all(leads)
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
