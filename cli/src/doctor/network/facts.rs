//! Network of a group of functions, as EC2 describes it.

use super::FunctionGroup;
use crate::aws_query::{AwsQuery, Node};
use crate::doctor::report::{Known, Unknown};

/// Maximum number of pages that are read of one EC2 list.
const MOST_PAGES: usize = 20;

/// Network that a group of functions runs in: the parts of it that decide which services they can
/// reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Network {
    /// Id of the VPC of the functions: the one that their first subnet is in.
    pub(crate) vpc: String,
    /// True if the VPC has DNS resolution (`enableDnsSupport`).
    pub(crate) dns_support: bool,
    /// True if the VPC has DNS host names (`enableDnsHostnames`), which private names of endpoints
    /// need.
    pub(crate) dns_hostnames: bool,
    pub(crate) subnets: Vec<Subnet>,
    pub(crate) tables: Vec<RouteTable>,
    pub(crate) endpoints: Vec<Endpoint>,
    /// Security groups of the functions and of the endpoints.
    pub(crate) groups: Vec<SecurityGroup>,
}

/// VPC subnet in which the functions run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subnet {
    pub(crate) id: String,
    pub(crate) vpc: String,
    pub(crate) zone: String,
}

/// Route table of the VPC that the functions run in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteTable {
    pub(crate) id: String,
    /// True for the VPC's main route table, which applies to subnets without a table of their own.
    pub(crate) is_main: bool,
    pub(crate) subnets: Vec<String>,
    /// Id of the gateway or other target of the default IPv4 route; `None` if there is no such
    /// route, or its target no longer exists.
    pub(crate) default_route_target: Option<String>,
    /// True if a route leads to another network, such as one through a transit gateway.
    pub(crate) leads_elsewhere: bool,
}

/// VPC endpoint for an AWS service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) id: String,
    /// Last part of the endpoint's service name, such as `s3`.
    pub(crate) service: String,
    pub(crate) is_gateway: bool,
    pub(crate) is_available: bool,
    pub(crate) has_private_name: bool,
    /// True if the endpoint does not belong to the stack; false if the stack's resources are
    /// unknown.
    pub(crate) is_foreign: bool,
    pub(crate) tables: Vec<String>,
    pub(crate) groups: Vec<String>,
}

/// VPC security group with its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecurityGroup {
    pub(crate) id: String,
    pub(crate) vpc: String,
    pub(crate) inwards: Vec<Rule>,
    pub(crate) outwards: Vec<Rule>,
}

/// Inbound or outbound rule of a security group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Protocol of the rule; `-1` is every protocol.
    pub(crate) protocol: String,
    /// First and last port of the rule; `None` if it is for all ports.
    pub(crate) ports: Option<(u16, u16)>,
    /// Security groups that the rule admits traffic from or to.
    pub(crate) groups: Vec<String>,
    /// Address ranges and prefix lists that the rule admits traffic from or to.
    pub(crate) addresses: Vec<String>,
}

impl Rule {
    /// Returns whether the security group's rule is for TCP connections to this port.
    pub(crate) fn is_for(&self, port: u16) -> bool {
        let fits = self.ports.is_none_or(|(first, last)| (first..=last).contains(&port));
        self.protocol == "-1" || (self.protocol == "tcp" && fits)
    }

    /// Returns whether the rule permits all traffic to or from every IPv4 address.
    pub(crate) fn is_open(&self) -> bool {
        self.protocol == "-1" && self.addresses.iter().any(|range| range == "0.0.0.0/0")
    }
}

/// Reads from EC2 the network that a group of functions runs in. If none of the group's subnets
/// exists, the network is empty.
pub(crate) async fn read(client: &AwsQuery, functions: &FunctionGroup) -> Known<Network> {
    let found = described(client, "DescribeSubnets", "subnetSet", ("subnet-id", &functions.subnets)).await?;
    let subnets: Vec<Subnet> = found.iter().map(subnet).collect();
    let Some(vpc) = subnets.first().map(|subnet| subnet.vpc.clone()) else {
        return Ok(Network::default());
    };
    let of_vpc = std::slice::from_ref(&vpc);
    let found = described(client, "DescribeRouteTables", "routeTableSet", ("vpc-id", of_vpc)).await?;
    let tables = found.iter().map(route_table).collect();
    let found = described(client, "DescribeVpcEndpoints", "vpcEndpointSet", ("vpc-id", of_vpc)).await?;
    let endpoints: Vec<Endpoint> = found.iter().map(endpoint).collect();
    // A filter takes 200 values, and a VPC may have more groups.
    let needed = endpoints.iter().filter(|endpoint| functions.services.contains(&endpoint.service.as_str()));
    let of_endpoints = needed.flat_map(|endpoint| &endpoint.groups);
    let mut ids: Vec<String> = functions.groups.iter().chain(of_endpoints).cloned().collect();
    ids.sort_unstable();
    ids.dedup();
    let found = described(client, "DescribeSecurityGroups", "securityGroupInfo", ("group-id", &ids)).await?;
    let groups = found.iter().map(security_group).collect();
    let dns_support = attribute(client, &vpc, "enableDnsSupport").await?;
    let dns_hostnames = attribute(client, &vpc, "enableDnsHostnames").await?;
    Ok(Network { vpc, dns_support, dns_hostnames, subnets, tables, endpoints, groups })
}

/// Calls an EC2 action with a filter, and returns the items of a list in its response. Ids that do
/// not exist have no item.
async fn described(
    client: &AwsQuery,
    action: &str,
    list: &str,
    (filter, values): (&str, &[String]),
) -> Known<Vec<Node>> {
    let names: Vec<String> = (1..=values.len()).map(|number| format!("Filter.1.Value.{number}")).collect();
    let values = names.iter().map(String::as_str).zip(values.iter().map(String::as_str));
    let filters: Vec<(&str, &str)> = std::iter::once(("Filter.1.Name", filter)).chain(values).collect();
    match client.pages("ec2", action, &filters, list, MOST_PAGES).await? {
        (found, true) => Ok(found),
        (_, false) => Err(Unknown::Failed(format!("ec2:{action} answers more than {MOST_PAGES} pages"))),
    }
}

async fn attribute(client: &AwsQuery, vpc: &str, name: &str) -> Known<bool> {
    let params = [("VpcId", vpc), ("Attribute", name)];
    let answer = client.query("ec2", "DescribeVpcAttribute", &params).await?;
    Ok(answer.find(name).is_some_and(|found| found.text_of("value") == "true"))
}

fn subnet(node: &Node) -> Subnet {
    let text = |name| node.text_of(name).to_owned();
    Subnet { id: text("subnetId"), vpc: text("vpcId"), zone: text("availabilityZone") }
}

fn route_table(node: &Node) -> RouteTable {
    let associations: Vec<&Node> = node.list("associationSet").collect();
    let routes = || node.list("routeSet").filter(|route| route.text_of("state") != "blackhole");
    let is_out = |route: &&Node| route.text_of("destinationCidrBlock") == "0.0.0.0/0";
    let targets = [
        "natGatewayId",
        "gatewayId",
        "transitGatewayId",
        "networkInterfaceId",
        "instanceId",
        "vpcPeeringConnectionId",
        "egressOnlyInternetGatewayId",
    ];
    let target = |route: &Node| {
        let mut found = targets.iter().map(|&name| route.text_of(name)).filter(|id| !id.is_empty());
        found.next().unwrap_or("another target").to_owned()
    };
    // Neither the VPC itself, nor an internet gateway, nor a gateway endpoint.
    let is_other_network = |target: &str| {
        target != "local" && !["igw-", "eigw-", "vpce-"].iter().any(|prefix| target.starts_with(prefix))
    };
    let subnets = associations.iter().map(|association| association.text_of("subnetId").to_owned());
    RouteTable {
        id: node.text_of("routeTableId").to_owned(),
        is_main: associations.iter().any(|association| association.text_of("main") == "true"),
        subnets: subnets.filter(|id| !id.is_empty()).collect(),
        default_route_target: routes().find(is_out).map(target),
        leads_elsewhere: routes().map(target).any(|target| is_other_network(&target)),
    }
}

fn endpoint(node: &Node) -> Endpoint {
    let service = node.text_of("serviceName");
    Endpoint {
        id: node.text_of("vpcEndpointId").to_owned(),
        service: service.rsplit('.').next().unwrap_or_default().to_owned(),
        is_gateway: node.text_of("vpcEndpointType") == "Gateway",
        is_available: node.text_of("state").eq_ignore_ascii_case("available"),
        has_private_name: node.text_of("privateDnsEnabled") == "true",
        is_foreign: false,
        tables: node.list("routeTableIdSet").map(|item| item.text.clone()).collect(),
        groups: node.list("groupSet").map(|item| item.text_of("groupId").to_owned()).collect(),
    }
}

fn security_group(node: &Node) -> SecurityGroup {
    SecurityGroup {
        id: node.text_of("groupId").to_owned(),
        vpc: node.text_of("vpcId").to_owned(),
        inwards: node.list("ipPermissions").map(rule).collect(),
        outwards: node.list("ipPermissionsEgress").map(rule).collect(),
    }
}

fn rule(node: &Node) -> Rule {
    let port = |name| node.text_of(name).parse::<u16>().ok();
    let all = |list: &str, name: &str| -> Vec<String> {
        node.list(list).map(|item| item.text_of(name).to_owned()).collect()
    };
    Rule {
        protocol: node.text_of("ipProtocol").to_owned(),
        ports: port("fromPort").zip(port("toPort")),
        groups: all("groups", "groupId"),
        addresses: [
            all("ipRanges", "cidrIp"),
            all("ipv6Ranges", "cidrIpv6"),
            all("prefixListIds", "prefixListId"),
        ]
        .concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_ec2_are_read() {
        let table = "<item><routeTableId>rtb-1</routeTableId><routeSet>\
<item><destinationCidrBlock>10.0.0.0/16</destinationCidrBlock><gatewayId>local</gatewayId><state>active</state></item>\
<item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><natGatewayId>nat-1</natGatewayId><state>active</state></item>\
</routeSet><associationSet><item><routeTableId>rtb-1</routeTableId><main>true</main></item>\
<item><subnetId>subnet-1</subnetId><main>false</main></item></associationSet></item>";
        let read = route_table(&Node::parse(table).unwrap());
        assert_eq!((read.default_route_target.as_deref(), read.is_main), (Some("nat-1"), true));
        let to_office = table.replace("0.0.0.0/0", "10.9.0.0/16").replace("natGatewayId", "transitGatewayId");
        let office = route_table(&Node::parse(&to_office).unwrap());
        assert_eq!((office.default_route_target, office.leads_elsewhere), (None, true));
        let public = table.replace("natGatewayId", "gatewayId").replace("nat-1", "igw-1");
        assert!(!route_table(&Node::parse(&public).unwrap()).leads_elsewhere);
        assert_eq!(read.subnets, ["subnet-1"]);
        let gone = table
            .replace("<state>active</state></item></routeSet>", "<state>blackhole</state></item></routeSet>");
        assert_eq!(route_table(&Node::parse(&gone).unwrap()).default_route_target, None);

        let text = "<item><vpcEndpointId>vpce-1</vpcEndpointId><vpcEndpointType>Interface</vpcEndpointType>\
<serviceName>com.amazonaws.sa-east-1.sqs</serviceName><state>available</state><routeTableIdSet/>\
<groupSet><item><groupId>sg-2</groupId></item></groupSet><privateDnsEnabled>true</privateDnsEnabled></item>";
        let read = endpoint(&Node::parse(text).unwrap());
        assert_eq!((read.service.as_str(), read.is_gateway, read.groups.len()), ("sqs", false, 1));

        let text = "<item><groupId>sg-1</groupId><vpcId>vpc-1</vpcId><ipPermissions><item><ipProtocol>tcp</ipProtocol>\
<fromPort>443</fromPort><toPort>443</toPort><groups><item><groupId>sg-9</groupId></item></groups><ipRanges/></item>\
</ipPermissions><ipPermissionsEgress><item><ipProtocol>-1</ipProtocol><groups/><ipRanges><item>\
<cidrIp>0.0.0.0/0</cidrIp></item></ipRanges></item></ipPermissionsEgress></item>";
        let read = security_group(&Node::parse(text).unwrap());
        assert_eq!((read.id.as_str(), read.inwards[0].groups.as_slice()), ("sg-1", &["sg-9".to_owned()][..]));
        assert!(read.inwards[0].is_for(443) && !read.inwards[0].is_for(5672));
        assert!(read.outwards[0].is_open() && read.outwards[0].is_for(5672));
    }
}
