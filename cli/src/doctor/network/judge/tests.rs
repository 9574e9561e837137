use super::super::facts::Endpoint;
use super::*;
use crate::doctor::report::Status;

fn own(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn functions() -> FunctionGroup {
    FunctionGroup {
        name: "database",
        subnets: own(&["subnet-1", "subnet-2"]),
        groups: own(&["sg-1"]),
        tables_parameter: "DatabaseRouteTableIds",
        services: vec!["secretsmanager", "sqs"],
        zones: 2,
        ..FunctionGroup::default()
    }
}

/// Returns a network with a NAT gateway.
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
        default_route_target: Some("nat-1".to_owned()),
        leads_elsewhere: false,
    };
    let everything = Rule { protocol: "-1".to_owned(), addresses: own(&["0.0.0.0/0"]), ..Rule::default() };
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

/// Returns a network without a route to the internet, but with endpoints for these services.
fn closed(services: &[&str]) -> Network {
    let mut network = network();
    network.tables[0].default_route_target = None;
    for &service in services {
        network.endpoints.push(Endpoint {
            id: format!("vpce-{service}"),
            service: service.to_owned(),
            is_gateway: BY_GATEWAY.contains(&service),
            is_available: true,
            has_private_name: true,
            is_foreign: false,
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

fn statuses(functions: &FunctionGroup, network: &Network, before: bool) -> Vec<Status> {
    all(functions, network, before).iter().map(|check| check.status).collect()
}

#[test]
fn a_network_with_a_nat_gateway_or_all_endpoints_works() {
    assert_eq!(statuses(&functions(), &network(), true), [Status::Ok; 5]);
    let all = closed(&["s3", "dynamodb", "secretsmanager", "sqs"]);
    assert_eq!(statuses(&functions(), &all, false), [Status::Ok; 5]);
    let mut without_names = network();
    without_names.dns_hostnames = false;
    assert_eq!(dns(&functions(), &without_names).status, Status::Ok, "nothing needs them");
}

#[test]
fn what_a_deployment_will_make_is_no_fault_before_it_and_one_after() {
    let made = FunctionGroup { tables: own(&["rtb-1"]), made: vec!["secretsmanager", "sqs"], ..functions() };
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
    public.tables[0].default_route_target = Some("igw-1".to_owned());
    let check = routes(&functions(), &public, false);
    assert!(check.status == Status::Fail && check.detail.contains("no public address"), "{}", check.detail);
    assert_eq!(endpoints(&functions(), &public, false).status, Status::Fail);
}

#[test]
fn an_endpoint_has_to_admit_the_functions() {
    let mut shut = closed(&["s3", "dynamodb", "secretsmanager", "sqs"]);
    shut.groups[1].inwards[0].groups = own(&["sg-3"]);
    let check = endpoints(&functions(), &shut, false);
    assert!(check.status == Status::Fail && check.detail.contains("sqs (vpce-sqs)"), "{}", check.detail);
    assert_eq!(check.fix.as_deref(), Some("admit sg-1 there, on port 443"));
    shut.tables[0].default_route_target = Some("nat-1".to_owned());
    assert_eq!(endpoints(&functions(), &shut, false).status, Status::Fail, "names lead there all the same");
}

#[test]
fn endpoints_that_the_deployment_did_not_make_stand_in_its_way() {
    let made = FunctionGroup { tables: own(&["rtb-1"]), made: vec!["secretsmanager", "sqs"], ..functions() };
    let mut taken = closed(&["s3", "sqs"]);
    assert_eq!(statuses(&made, &taken, true), [Status::Ok; 5], "they are its own");
    taken.endpoints.iter_mut().for_each(|endpoint| endpoint.is_foreign = true);
    let checks = all(&made, &taken, true);
    assert!(checks[2].status == Status::Fail && checks[2].detail.contains("s3 (vpce-s3)"));
    assert!(checks[3].status == Status::Fail && checks[3].detail.contains("sqs (vpce-sqs)"));
    assert_eq!(routes(&functions(), &taken, true).status, Status::Fail, "DynamoDB has no way");
}

#[test]
fn endpoints_of_another_network_are_not_seen() {
    let mut hub = closed(&[]);
    hub.tables[0].leads_elsewhere = true;
    assert_eq!(routes(&functions(), &hub, false).status, Status::Warn);
    assert_eq!(endpoints(&functions(), &hub, false).status, Status::Warn);
    let mut by_interface = closed(&["s3", "dynamodb"]);
    by_interface.endpoints.iter_mut().for_each(|endpoint| endpoint.is_gateway = false);
    assert_eq!(routes(&functions(), &by_interface, false).status, Status::Ok);
}

#[test]
fn subnets_and_groups_belong_together() {
    let mut other = network();
    other.subnets[1].vpc = "vpc-2".to_owned();
    assert!(subnets(&functions(), &other).detail.contains("subnet-2 is in another VPC"));
    let mut gone = network();
    gone.groups.clear();
    assert!(subnets(&functions(), &gone).detail.contains("sg-1 does not exist"));
    let nothing = all(&functions(), &Network::default(), true);
    assert_eq!((nothing.len(), nothing[0].status), (1, Status::Fail));
    let named = FunctionGroup { vpc: "vpc-9".to_owned(), ..functions() };
    assert_eq!(subnets(&named, &network()).status, Status::Fail);
    let mut one_zone = network();
    one_zone.subnets[1].zone = "zone-1".to_owned();
    assert!(subnets(&functions(), &one_zone).detail.contains("needs two"));
}

#[test]
fn a_group_without_a_way_out_for_https_fails() {
    let mut bounded = network();
    let to_broker = Rule { protocol: "tcp".to_owned(), ports: Some((5671, 5671)), ..Rule::default() };
    bounded.groups[0].outwards = vec![to_broker.clone()];
    assert_eq!(egress(&functions(), &bounded).status, Status::Fail);
    let https = Rule { ports: Some((443, 443)), ..to_broker.clone() };
    bounded.groups[0].outwards = vec![to_broker, https];
    assert_eq!(egress(&functions(), &bounded).status, Status::Warn);
}
