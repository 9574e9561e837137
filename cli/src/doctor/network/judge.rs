//! Judgement of a network: what its functions will not reach.

use std::collections::BTreeSet;

use super::Place;
use super::facts::{Network, RouteTable, Rule, SecurityGroup, Subnet};
use crate::doctor::kinds::{DNS, EGRESS, ENDPOINTS, ROUTES, SUBNETS};
use crate::doctor::report::Check;

/// Port of every service of AWS.
const HTTPS: u16 = 443;
/// Services that a gateway endpoint leads to, which costs nothing.
const BY_GATEWAY: [&str; 2] = ["s3", "dynamodb"];

/// Way of a subnet to the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By a NAT gateway, a transit gateway or an appliance.
    Open,
    /// By an internet gateway, which serves only what has a public address. Functions have none.
    PublicOnly,
    /// None.
    Closed,
}

/// Judges everything about a network.
pub(super) fn all(place: &Place, network: &Network, before: bool) -> Vec<Check> {
    let subnets = subnets(place, network);
    // Of subnets that are not there nothing else can be said.
    if network.subnets.is_empty() {
        return vec![subnets.about(place.name)];
    }
    let checks = [
        subnets,
        dns(place, network),
        routes(place, network, before),
        endpoints(place, network, before),
        egress(place, network),
    ];
    checks.into_iter().map(|check| check.about(place.name)).collect()
}

fn subnets(place: &Place, network: &Network) -> Check {
    let found: BTreeSet<&str> = network.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
    let groups: BTreeSet<&str> = network.groups.iter().map(|group| group.id.as_str()).collect();
    let missing: Vec<&str> = place
        .subnets
        .iter()
        .filter(|id| !found.contains(id.as_str()))
        // Without any subnet the groups were not asked for.
        .chain(place.groups.iter().filter(|id| !found.is_empty() && !groups.contains(id.as_str())))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        let detail = format!("{} does not exist in this account and region", missing.join(", "));
        return SUBNETS.fail(detail, "name subnets and security groups that do");
    }
    let strange = network.subnets.iter().filter(|subnet| subnet.vpc != network.vpc).map(|subnet| &subnet.id);
    let ours = |group: &&SecurityGroup| place.groups.contains(&group.id) && group.vpc != network.vpc;
    let strange: Vec<&str> = strange
        .chain(network.groups.iter().filter(ours).map(|group| &group.id))
        .map(String::as_str)
        .collect();
    if !strange.is_empty() {
        let detail = format!("{} is in another VPC than {}", strange.join(", "), network.vpc);
        return SUBNETS.fail(detail, "name subnets and security groups of one VPC");
    }
    if !place.vpc.is_empty() && place.vpc != network.vpc {
        let detail = format!("the subnets are in {}, and the parameters name {}", network.vpc, place.vpc);
        return SUBNETS.fail(detail, "name the VPC of the subnets");
    }
    let zones: BTreeSet<&str> = network.subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
    if zones.len() < place.zones {
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

fn dns(place: &Place, network: &Network) -> Check {
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
    if place.made.is_empty() && place.tables.is_empty() && is_open(network) {
        return DNS.ok(format!("{} is off in {vpc}, and nothing there needs it", off.join(" and ")));
    }
    DNS.fail(
        format!("{} is off in {vpc}: an interface endpoint cannot have its private name", off.join(" and ")),
        format!("aws ec2 modify-vpc-attribute --vpc-id {vpc} --enable-dns-hostnames '{{\"Value\": true}}', and the same for enable-dns-support"),
    )
}

fn routes(place: &Place, network: &Network, before: bool) -> Check {
    let mut faults = Vec::new();
    for subnet in &network.subnets {
        let Some(table) = table_of(network, subnet) else {
            faults.push(format!("{} has no route table", subnet.id));
            continue;
        };
        let way = way(table);
        let is_made = before && place.tables.contains(&table.id);
        let is_reached = |service: &&str| {
            way == Way::Open
                || is_made
                || network.endpoints.iter().any(|endpoint| {
                    endpoint.is_gateway
                        && endpoint.is_available
                        && endpoint.service == **service
                        && endpoint.tables.contains(&table.id)
                })
        };
        let closed: Vec<&str> = BY_GATEWAY.into_iter().filter(|service| !is_reached(service)).collect();
        if !closed.is_empty() {
            let public = if way == Way::PublicOnly {
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
    ROUTES.fail(
        faults.join("; "),
        format!(
            "name the route tables in {}, which makes endpoints, or give the subnets a NAT gateway",
            place.tables_parameter
        ),
    )
}

fn endpoints(place: &Place, network: &Network, before: bool) -> Check {
    if is_open(network) {
        return ENDPOINTS.ok("the subnets have a way to the internet");
    }
    let (mut missing, mut shut) = (Vec::new(), Vec::new());
    for &service in &place.services {
        let found = network.endpoints.iter().find(|endpoint| {
            !endpoint.is_gateway
                && endpoint.is_available
                && endpoint.has_private_name
                && endpoint.service == service
        });
        match found {
            Some(endpoint) => {
                let groups = network.groups.iter().filter(|group| endpoint.groups.contains(&group.id));
                let mut rules = groups.flat_map(|group| &group.inwards);
                if !rules.any(|rule| admits(rule, place)) {
                    shut.push(format!("{service} ({})", endpoint.id));
                }
            }
            None if before && place.made.contains(&service) => {}
            None => missing.push(service),
        }
    }
    if !missing.is_empty() {
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
            format!("admit {} there, on port {HTTPS}", place.groups.join(", ")),
        );
    }
    ENDPOINTS.ok(format!("endpoints lead to {}", place.services.join(", ")))
}

fn egress(place: &Place, network: &Network) -> Check {
    let ours = network.groups.iter().filter(|group| place.groups.contains(&group.id));
    let rules: Vec<&Rule> = ours.flat_map(|group| &group.outwards).collect();
    if rules.iter().any(|rule| rule.is_open()) {
        return EGRESS.ok("the functions may connect to everything");
    }
    let groups = place.groups.join(", ");
    if !rules.iter().any(|rule| rule.is_for(HTTPS)) {
        return EGRESS.fail(
            format!(
                "no rule of {groups} lets the functions connect to port {HTTPS}: they reach no service of AWS"
            ),
            format!("add an outbound rule for TCP {HTTPS}, and for the ports of the {}", place.name),
        );
    }
    EGRESS.warn(
        format!("the rules of {groups} let the functions connect to some addresses and ports only"),
        format!("make sure that those of the {} are among them; the checks of these say more", place.name),
    )
}

/// Returns whether a rule of an endpoint lets the functions in. Ranges of addresses are taken to
/// cover the subnets.
fn admits(rule: &Rule, place: &Place) -> bool {
    rule.is_for(HTTPS)
        && (!rule.addresses.is_empty() || rule.groups.iter().any(|group| place.groups.contains(group)))
}

fn table_of<'a>(network: &'a Network, subnet: &Subnet) -> Option<&'a RouteTable> {
    let own = network.tables.iter().find(|table| table.subnets.contains(&subnet.id));
    own.or_else(|| network.tables.iter().find(|table| table.is_main))
}

fn way(table: &RouteTable) -> Way {
    match &table.way_out {
        Some(target) if target.starts_with("igw-") => Way::PublicOnly,
        Some(_) => Way::Open,
        None => Way::Closed,
    }
}

/// Returns whether every subnet has a way to the internet.
fn is_open(network: &Network) -> bool {
    let is_out = |subnet: &Subnet| table_of(network, subnet).is_some_and(|table| way(table) == Way::Open);
    network.subnets.iter().all(is_out)
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::super::facts::Endpoint;
    use super::*;
    use crate::doctor::report::Status;

    fn own(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn place() -> Place {
        Place {
            name: "database",
            subnets: own(&["subnet-1", "subnet-2"]),
            groups: own(&["sg-1"]),
            tables_parameter: "DatabaseRouteTableIds",
            services: vec!["secretsmanager", "sqs"],
            zones: 2,
            ..Place::default()
        }
    }

    /// A network with a NAT gateway.
    fn network() -> Network {
        let subnet = |number: u8| Subnet {
            id: format!("subnet-{number}"),
            vpc: "vpc-1".to_owned(),
            zone: format!("zone-{number}"),
        };
        let table = RouteTable {
            id: "rtb-1".to_owned(),
            is_main: true,
            subnets: Vec::new(),
            way_out: Some("nat-1".to_owned()),
        };
        let everything =
            Rule { protocol: "-1".to_owned(), addresses: own(&["0.0.0.0/0"]), ..Rule::default() };
        let group = SecurityGroup {
            id: "sg-1".to_owned(),
            vpc: "vpc-1".to_owned(),
            outwards: vec![everything],
            ..SecurityGroup::default()
        };
        Network {
            vpc: "vpc-1".to_owned(),
            dns_support: true,
            dns_hostnames: true,
            subnets: vec![subnet(1), subnet(2)],
            tables: vec![table],
            endpoints: Vec::new(),
            groups: vec![group],
        }
    }

    /// A network without a way out, and with endpoints of these services.
    fn closed(services: &[&str]) -> Network {
        let mut network = network();
        network.tables[0].way_out = None;
        for &service in services {
            network.endpoints.push(Endpoint {
                id: format!("vpce-{service}"),
                service: service.to_owned(),
                is_gateway: BY_GATEWAY.contains(&service),
                is_available: true,
                has_private_name: true,
                tables: own(&["rtb-1"]),
                groups: own(&["sg-2"]),
            });
        }
        let in_443 = Rule {
            protocol: "tcp".to_owned(),
            ports: Some((443, 443)),
            groups: own(&["sg-1"]),
            ..Rule::default()
        };
        network.groups.push(SecurityGroup {
            id: "sg-2".to_owned(),
            vpc: "vpc-1".to_owned(),
            inwards: vec![in_443],
            ..SecurityGroup::default()
        });
        network
    }

    fn statuses(place: &Place, network: &Network, before: bool) -> Vec<Status> {
        all(place, network, before).iter().map(|check| check.status).collect()
    }

    #[test]
    fn a_network_with_a_nat_gateway_or_all_endpoints_works() {
        assert_eq!(statuses(&place(), &network(), true), [Status::Ok; 5]);
        let all = closed(&["s3", "dynamodb", "secretsmanager", "sqs"]);
        assert_eq!(statuses(&place(), &all, false), [Status::Ok; 5]);
        let mut without_names = network();
        without_names.dns_hostnames = false;
        assert_eq!(dns(&place(), &without_names).status, Status::Ok, "nothing needs them");
    }

    #[test]
    fn what_a_deployment_will_make_is_no_fault_before_it_and_one_after() {
        let made = Place { tables: own(&["rtb-1"]), made: vec!["secretsmanager", "sqs"], ..place() };
        assert_eq!(statuses(&made, &closed(&[]), true), [Status::Ok; 5]);
        let after = all(&made, &closed(&[]), false);
        assert_eq!((after[2].status, after[3].status), (Status::Fail, Status::Fail));
        assert!(after[2].fix.as_ref().unwrap().contains("DatabaseRouteTableIds"));
        assert!(after[3].detail.contains("secretsmanager, sqs"), "{}", after[3].detail);
        let mut nameless = closed(&[]);
        nameless.dns_hostnames = false;
        let check = dns(&made, &nameless);
        assert!(check.status == Status::Fail && check.detail.starts_with("enableDnsHostnames is off"));
    }

    #[test]
    fn an_internet_gateway_serves_no_function() {
        let mut public = network();
        public.tables[0].way_out = Some("igw-1".to_owned());
        let check = routes(&place(), &public, false);
        assert!(
            check.status == Status::Fail && check.detail.contains("no public address"),
            "{}",
            check.detail
        );
        assert_eq!(endpoints(&place(), &public, false).status, Status::Fail);
    }

    #[test]
    fn an_endpoint_has_to_admit_the_functions() {
        let mut shut = closed(&["s3", "dynamodb", "secretsmanager", "sqs"]);
        shut.groups[1].inwards[0].groups = own(&["sg-3"]);
        let check = endpoints(&place(), &shut, false);
        assert!(check.status == Status::Fail && check.detail.contains("sqs (vpce-sqs)"), "{}", check.detail);
        assert_eq!(check.fix.as_deref(), Some("admit sg-1 there, on port 443"));
    }

    #[test]
    fn subnets_and_groups_belong_together() {
        let mut other = network();
        other.subnets[1].vpc = "vpc-2".to_owned();
        assert!(subnets(&place(), &other).detail.contains("subnet-2 is in another VPC"));
        let mut gone = network();
        gone.groups.clear();
        assert!(subnets(&place(), &gone).detail.contains("sg-1 does not exist"));
        let nothing = all(&place(), &Network::default(), true);
        assert_eq!((nothing.len(), nothing[0].status), (1, Status::Fail));
        let named = Place { vpc: "vpc-9".to_owned(), ..place() };
        assert_eq!(subnets(&named, &network()).status, Status::Fail);
        let mut one_zone = network();
        one_zone.subnets[1].zone = "zone-1".to_owned();
        assert!(subnets(&place(), &one_zone).detail.contains("needs two"));
    }

    #[test]
    fn a_group_without_a_way_out_for_https_fails() {
        let mut bounded = network();
        let to_broker = Rule { protocol: "tcp".to_owned(), ports: Some((5671, 5671)), ..Rule::default() };
        bounded.groups[0].outwards = vec![to_broker.clone()];
        assert_eq!(egress(&place(), &bounded).status, Status::Fail);
        let https = Rule { ports: Some((443, 443)), ..to_broker.clone() };
        bounded.groups[0].outwards = vec![to_broker, https];
        assert_eq!(egress(&place(), &bounded).status, Status::Warn);
    }
}
