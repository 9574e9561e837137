//! Checks of the networks of the functions. A function in a VPC reaches only what the routes,
//! endpoints and security groups there permit.

mod facts;
mod judge;

use super::kinds::SUBNETS;
use super::parameters::Parameters;
use super::report::{Check, Known};
use super::stack::Resource;
use crate::aws_query::AwsQuery;

pub(crate) use facts::Network;

/// Group of functions in the same subnets, with the AWS services that they must reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FunctionGroup {
    /// Name of the group of functions in reports: `brokers` or `database`.
    pub(crate) name: &'static str,
    /// Ids of the subnets in which the functions run; empty if they run outside any VPC.
    pub(crate) subnets: Vec<String>,
    /// Ids of the security groups of the functions.
    pub(crate) groups: Vec<String>,
    /// Id of the VPC in the parameters; empty if they name none.
    pub(crate) vpc: String,
    /// Ids of the route tables for which the template creates gateway endpoints.
    pub(crate) tables: Vec<String>,
    /// Name of the template parameter that has the ids of the route tables.
    pub(crate) tables_parameter: &'static str,
    /// Services that need an interface endpoint if the subnets have no route to the internet.
    pub(crate) services: Vec<&'static str>,
    /// Services for which the template creates interface endpoints.
    pub(crate) made: Vec<&'static str>,
    /// Minimum number of availability zones that the subnets must span.
    pub(crate) zones: usize,
}

/// Returns the groups of functions of a deployment: that for the brokers and, with the ingest, that
/// for the database. A group that runs outside any VPC has no subnets.
pub(crate) fn function_groups(parameters: &Parameters) -> Vec<FunctionGroup> {
    let get = |name: &str| parameters.get(name);
    let given = |name: &str, service: &'static str| (!get(name).is_empty()).then_some(service);
    // In one VPC, the endpoints of each list of route tables serve both groups.
    let is_one_vpc = !get("VpcId").is_empty() && get("VpcId") == get("DatabaseVpcId");
    let tables_of = |own: &str, other: &str| {
        let other = if is_one_vpc { parameters.list(other) } else { Vec::new() };
        [parameters.list(own), other].concat()
    };
    let database = parameters.has_ingest().then(|| {
        let kafka =
            ["lambda", "sts"].into_iter().filter_map(|service| given("KafkaBootstrapServers", service));
        let events = [given("EventBusArn", "events"), given("EventTopicArn", "sns")].into_iter().flatten();
        let ours: Vec<&'static str> = ["secretsmanager", "sqs"].into_iter().chain(events).collect();
        let tables = parameters.list("DatabaseRouteTableIds");
        FunctionGroup {
            name: "database",
            subnets: parameters.list("DatabaseSubnetIds"),
            groups: parameters.list("DatabaseSecurityGroupIds"),
            vpc: get("DatabaseVpcId").to_owned(),
            made: if tables.is_empty() { Vec::new() } else { ours.clone() },
            services: ours.into_iter().chain(kafka).collect(),
            tables: tables_of("DatabaseRouteTableIds", "RouteTableIds"),
            tables_parameter: "DatabaseRouteTableIds",
            zones: if ["", "false"].contains(&get("CreateDatabase")) { 1 } else { 2 },
        }
    });
    let tables = parameters.list("RouteTableIds");
    let is_shared = is_one_vpc && database.as_ref().is_some_and(|database| !database.made.is_empty());
    let brokers = FunctionGroup {
        name: "brokers",
        subnets: parameters.list("MqAccessSubnetIds"),
        groups: parameters.list("MqAccessSecurityGroupIds"),
        vpc: get("VpcId").to_owned(),
        services: vec!["secretsmanager"],
        made: if tables.is_empty() && !is_shared { Vec::new() } else { vec!["secretsmanager"] },
        tables: tables_of("RouteTableIds", "DatabaseRouteTableIds"),
        tables_parameter: "RouteTableIds",
        zones: 1,
    };
    std::iter::once(brokers).chain(database).collect()
}

/// Checks the networks of a deployment. `resources` are those of the stack. If `before` is true,
/// the deployment is still to come.
pub(crate) async fn checks(
    client: &AwsQuery,
    parameters: &Parameters,
    resources: &Known<Vec<Resource>>,
    before: bool,
) -> Vec<Check> {
    let mut checks = Vec::new();
    for functions in function_groups(parameters) {
        if functions.subnets.is_empty() {
            let detail = "the functions run outside any VPC, and reach what is public";
            checks.push(SUBNETS.ok(detail).about(functions.name));
            continue;
        }
        let mut network = facts::read(client, &functions).await;
        if let (Ok(network), Ok(resources)) = (&mut network, resources) {
            for endpoint in &mut network.endpoints {
                endpoint.is_foreign = resources.iter().all(|resource| resource.id != endpoint.id);
            }
        }
        checks.extend(judge_known(&functions, &network, before));
    }
    checks
}

fn judge_known(functions: &FunctionGroup, network: &Known<Network>, before: bool) -> Vec<Check> {
    match network {
        Ok(network) => judge::all(functions, network, before),
        Err(unknown) => vec![SUBNETS.skip(unknown).about(functions.name)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters::tests::parameters;
    use super::super::report::{Status, Unknown};
    use super::*;

    #[test]
    fn what_a_network_needs_follows_from_the_parameters() {
        let found =
            function_groups(&parameters(&[("MqAccessSubnetIds", "subnet-1,subnet-2"), ("VpcId", "vpc-1")]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].subnets.len(), found[0].made.len()), (2, 0));
        let given = [
            ("VpcId", "vpc-1"),
            ("DatabaseVpcId", "vpc-1"),
            ("CreateDatabase", "true"),
            ("DatabaseRouteTableIds", "rtb-1"),
            ("EventTopicArn", "arn"),
            ("KafkaBootstrapServers", "b:9098"),
        ];
        let found = function_groups(&parameters(&given));
        assert_eq!(found[0].made, ["secretsmanager"], "the database's endpoint serves both");
        assert_eq!((found[0].tables.as_slice(), found[1].tables.len()), (&["rtb-1".to_owned()][..], 1));
        assert_eq!(found[1].services, ["secretsmanager", "sqs", "sns", "lambda", "sts"]);
        assert_eq!((found[1].made.as_slice(), found[1].zones), (&["secretsmanager", "sqs", "sns"][..], 2));
    }

    #[test]
    fn a_network_that_may_not_be_read_is_skipped() {
        let functions = FunctionGroup { name: "brokers", ..FunctionGroup::default() };
        let denied = Err(Unknown::Denied("ec2:DescribeSubnets".to_owned()));
        let checks = judge_known(&functions, &denied, true);
        assert_eq!((checks.len(), checks[0].status), (1, Status::Skip));
    }
}
