"""What docs/deploy.md tells somebody to deploy can be deployed, and works."""

import re

from cloudformation import ROOT, deploy, source
from scenarios import EVENTS, EXISTING_DATABASE, MSK, NEW_DATABASE, SCENARIOS

DEPLOY = (ROOT / "docs/deploy.md").read_text()


def section(title):
    """The text from a heading to the next one."""
    (text,) = re.findall(rf"^#+ {title}$(.*?)(?=^#+ )", DEPLOY, re.MULTILINE | re.DOTALL)
    return text


def sample(title):
    """The parameters that a section shows, with numbers in place of the reader's own."""
    (block,) = re.findall(r"```toml\n(.*?)```", section(title), re.DOTALL)
    numbers = (f"{number:08d}" for number in range(1, 100))
    return dict(re.findall(r'"(\w+)=(.*)"', re.sub("…", lambda _: next(numbers), block)))


def test_migrate_can_answer_cloudformation_in_the_network_that_a_new_database_is_shown_with():
    """Its answer goes to S3. Without a way there, the deployment and its rollback wait for 16 minutes each, and the database stays."""
    stack = deploy(sample("A new one"))
    assert "VpcConfig" in stack.properties("MigrateFunction")
    endpoints = {endpoint["Properties"]["ServiceName"].split(".")[-1]: endpoint["Properties"] for endpoint in stack.of("AWS::EC2::VPCEndpoint").values()}
    assert {"s3", "dynamodb", "secretsmanager", "sqs"} == set(endpoints)
    assert endpoints["s3"]["RouteTableIds"] and endpoints["s3"]["VpcId"] == stack.parameters["DatabaseVpcId"]
    assert stack.properties("DatabaseCluster")


def test_a_vpc_is_said_to_need_what_private_names_need():
    endpoints = deploy(sample("A new one")).of("AWS::EC2::VPCEndpoint").values()
    assert any(endpoint["Properties"].get("PrivateDnsEnabled") for endpoint in endpoints)
    assert "--enable-dns-hostnames" in section("Its network")


def alarms(parameters):
    return len(deploy(parameters).of("AWS::CloudWatch::Alarm"))


def test_the_numbers_of_alarms_and_resources_are_those_of_the_template():
    bus, rollout, drops = {"EventBusArn": EVENTS["EventBusArn"]}, {"Rollout": "Canary10Percent5Minutes"}, {"AcceptDrops": "true"}
    gateway, ingest = alarms({}), alarms(EXISTING_DATABASE)

    def more(parameters):
        return alarms({**EXISTING_DATABASE, **parameters}) - ingest

    of_gateway = f"{gateway}, {alarms(rollout) - gateway} with `Rollout`, and {alarms(bus) - gateway} with events"
    assert more(bus) == alarms(bus) - gateway
    of_ingest = (
        f"{ingest - gateway} more, {more(rollout) - alarms(rollout) + gateway} with `Rollout`, {more(drops)} with `AcceptDrops`, {more(MSK)} with Kafka,"
        f" and {alarms(NEW_DATABASE) - ingest} with a new database"
    )
    assert f"| {of_gateway} | {of_ingest} |" in section("Idle, a month")
    resources = sorted(len(deploy(parameters).resources) for parameters in SCENARIOS.values())
    assert f"{resources[0]} resources for the gateway to {resources[-1]} with everything" in DEPLOY


def test_the_functions_that_share_the_reserved_concurrency_are_counted_right():
    def reserving(parameters):
        functions = deploy({**parameters, "PublicReservedConcurrency": "7"}).of("AWS::Lambda::Function").values()
        return len([function for function in functions if function["Properties"].get("ReservedConcurrentExecutions") == "7"])

    gateway = reserving({})
    said = f"There are {gateway} such functions, and {reserving(EXISTING_DATABASE) - gateway} more with the ingest."
    assert said in source()["Parameters"]["PublicReservedConcurrency"]["Description"]
