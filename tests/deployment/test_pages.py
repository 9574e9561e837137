"""What docs/deploy.md tells somebody to deploy can be deployed, and works."""

import re

from cloudformation import ROOT, deploy

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
