"""SAM CLI itself, against the AWS stand-in (ministack). The first tests walk one stack from its creation to its deletion, in their order.

The stand-in evaluates rules and conditions, makes change sets, creates, updates, rolls back and deletes, keeps what DeletionPolicy
keeps, and calls the functions. It has no IAM, so that no missing right is found; no networks, so that VPC settings, interfaces and
endpoints are only recorded; no CodeDeploy, CloudTrail or quotas; no sums of metrics, so that alarms on them are left out; and no Aurora: it knows no MasterUserSecret.SecretArn, so that
CreateDatabase is left to the computed change sets (test_transitions.py). Of conditions it evaluates no Fn::Join, and so takes an empty
list of subnets for a given one. The names that it chooses come again with a stack's name, so that it cannot show that a second try finds
nothing in its way but what it failed to remove (test_isolation.py shows the rest).
"""

import json
import re
import subprocess

import pytest
from cloudformation import ROOT, source
from standin import CREDENTIALS, PYTHON, Project

STACK = "integrahub-dev"
QUIET = ("--no-confirm-changeset", "--no-progressbar")
STORES = ("Table", "Bucket", "Queue", "Logs")


@pytest.fixture(scope="module")
def project(tmp_path_factory, standin):
    return Project(tmp_path_factory.mktemp("project"), standin)


@pytest.fixture(scope="module")
def secret(standin):
    value = json.dumps({"username": "u", "password": "p", "host": "h", "dbname": "d"})
    return standin.client("secretsmanager").create_secret(Name="catalogue", SecretString=value)["ARN"]


def deploy(project, **overrides):
    run = project.sam("deploy", *QUIET, "--parameter-overrides", *(f'{name}="{value}"' for name, value in overrides.items()))
    assert run.returncode == 0, run.stdout + run.stderr


def names(standin, stack=STACK):
    pages = standin.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    return {r["LogicalResourceId"]: r["PhysicalResourceId"] for page in pages for r in page["StackResourceSummaries"]}


def stores(resources):
    return {name: physical for name, physical in resources.items() if name.endswith(STORES)}


def status(standin, stack=STACK):
    return standin.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]


def delete(standin, stack):
    cloudformation = standin.client("cloudformation")
    cloudformation.delete_stack(StackName=stack)
    cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig={"Delay": 1, "MaxAttempts": 1200})


def put_data(standin, resources):
    dynamodb, s3, sqs = standin.client("dynamodb"), standin.client("s3"), standin.client("sqs")
    dynamodb.put_item(TableName=resources["AccessTable"], Item={"pk": {"S": "KEY#1"}})
    dynamodb.put_item(TableName=resources["BatchesTable"], Item={"tenantId": {"S": "t"}, "batchId": {"S": "b"}})
    s3.put_object(Bucket=resources["PayloadBucket"], Key="chunks/1", Body=b"1")
    sqs.send_message(QueueUrl=resources["UnhandledQueue"], MessageBody="somebody look")


def assert_data(standin, resources):
    dynamodb, s3 = standin.client("dynamodb"), standin.client("s3")
    assert dynamodb.get_item(TableName=resources["AccessTable"], Key={"pk": {"S": "KEY#1"}})["Item"]
    assert dynamodb.get_item(TableName=resources["BatchesTable"], Key={"tenantId": {"S": "t"}, "batchId": {"S": "b"}})["Item"]
    assert s3.get_object(Bucket=resources["PayloadBucket"], Key="chunks/1")["Body"].read() == b"1"


@pytest.mark.parametrize("page", ["README.md", "docs/deploy.md"])
def test_the_pages_show_one_command_for_a_first_deployment(page):
    assert first_deployment(page) == ["deploy"]


def first_deployment(page):
    (command,) = re.findall(r"^sam build && sam (deploy[^#\n]*)", (ROOT / page).read_text(), re.MULTILINE)
    return command.split()


def test_the_command_of_the_pages_deploys_the_gateway_and_asks_nothing(project, standin):
    config = (project.directory / "samconfig.toml").read_text()
    run = project.sam(*first_deployment("README.md"), "--no-progressbar")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Successfully created/updated stack - integrahub-dev" in run.stdout
    assert status(standin) == "CREATE_COMPLETE"
    assert "ChunkerFunction" not in names(standin)
    # Parameters keep their one home.
    assert (project.directory / "samconfig.toml").read_text() == config


def test_a_deployment_that_shows_its_changes_takes_enter_for_a_no(project, standin):
    put_data(standin, names(standin))
    before = names(standin)
    project.build("2")
    run = project.sam("deploy", "--confirm-changeset", "--no-progressbar", answers="\n")
    assert "Deploy this changeset? [y/N]" in run.stdout
    assert run.returncode == 0 and names(standin) == before and status(standin) == "CREATE_COMPLETE"


def in_force(standin, resources, name):
    """What the alias that the API calls runs with."""
    return standin.client("lambda").get_function_configuration(FunctionName=resources[name], Qualifier="live")


def test_a_parameter_alone_is_in_force_behind_the_alias_and_the_version_before_is_kept(project, standin):
    project.build("1")  # the code that is deployed
    before = names(standin)
    one, aws = in_force(standin, before, "ProduceFunction"), standin.client("lambda")
    for targets in ("rabbitmq://a.example.com:5671/A", ""):
        deploy(project, InlineTargets=targets)
        now = in_force(standin, before, "ProduceFunction")
        assert now["Environment"]["Variables"]["INLINE_TARGETS"] == targets
        assert now["CodeSha256"] == one["CodeSha256"] and now["Version"] != one["Version"]
        # Both name the revision of the settings.
        assert now["Description"] in aws.get_function_configuration(FunctionName=before["ProduceFunction"])["Description"]
        kept = aws.get_function_configuration(FunctionName=before["ProduceFunction"], Qualifier=one["Version"])
        assert kept["Environment"] == one["Environment"]
        one = now
    # Deployed once more, nothing is published.
    deploy(project, InlineTargets="")
    assert in_force(standin, before, "ProduceFunction")["Version"] == one["Version"]
    assert names(standin).keys() == before.keys()


def test_the_ingest_comes_goes_and_comes_again_and_finds_its_data(project, standin, secret):
    gateway = names(standin)
    for given, is_on in [(secret, True), ("", False), (secret, True)]:
        deploy(project, DatabaseSecretArn=given)
        now = names(standin)
        assert ("ChunkerFunction" in now and "Migration" in now) == is_on
        assert stores(now) == stores(gateway)
    assert_data(standin, now)
    assert standin.client("sqs").receive_message(QueueUrl=now["UnhandledQueue"])["Messages"][0]["Body"] == "somebody look"


def test_networks_keys_and_boundaries_come_and_go(project, standin, secret):
    before = names(standin)
    networks = {"MqAccessSubnetIds": "subnet-1,subnet-2", "MqAccessSecurityGroupIds": "sg-1", "DatabaseSubnetIds": "subnet-1", "DatabaseSecurityGroupIds": "sg-1"}
    key = standin.client("kms").create_key()["KeyMetadata"]["Arn"]
    rules = {"KmsKeyArn": key, "PermissionsBoundaryArn": "arn:aws:iam::000000000000:policy/boundary", "RolePath": "/apps/"}
    deploy(project, DatabaseSecretArn=secret, **networks, **rules)
    there = names(standin)
    # A parameter that is not said keeps its value, so each is taken back.
    deploy(project, **{**dict.fromkeys({**networks, **rules}, ""), "RolePath": "/"})
    back = names(standin)
    assert "KmsKeyAccess" in there and "KmsKeyAccess" not in back
    assert stores(there) == stores(back) == stores(before)
    assert_data(standin, back)


def test_a_deleted_stack_leaves_its_data_and_logs(standin):
    before = names(standin)
    delete(standin, STACK)
    assert_data(standin, before)
    kept = {group["logGroupName"] for page in standin.client("logs").get_paginator("describe_log_groups").paginate() for group in page["logGroups"]}
    assert {physical for name, physical in before.items() if name.endswith("Logs")} <= kept


def test_what_cannot_work_is_refused_before_anything_is_made(tmp_path, standin):
    tables = standin.client("dynamodb").list_tables()["TableNames"]
    config = tmp_path / "samconfig.toml"
    run = Project(tmp_path, standin).sam("deploy", *QUIET, "--stack-name", "refused", "--parameter-overrides", "CreateDatabase=true")
    assert config.exists() and run.returncode != 0
    assert "CreateDatabase needs DatabaseVpcId" in re.sub(r"\s+", " ", run.stdout + run.stderr)
    assert standin.client("dynamodb").list_tables()["TableNames"] == tables


def test_a_failed_first_deployment_leaves_nothing_and_can_be_repeated(tmp_path, standin, secret):
    project = Project(tmp_path, standin)
    migrate = project.directory / ".aws-sam/build/MigrateFunction/bootstrap"
    sound = migrate.read_text()
    migrate.write_text(sound.replace('"SUCCESS"', '"FAILED", "Reason": "no such host"'))
    first = ("deploy", *QUIET, "--stack-name", "failing", "--parameter-overrides", f"DatabaseSecretArn={secret}")
    run = project.sam(*first)
    assert run.returncode != 0 and "no such host" in re.sub(r"\s+", " ", run.stdout + run.stderr)
    assert status(standin, "failing") == "ROLLBACK_COMPLETE"
    left = set(standin.client("dynamodb").list_tables()["TableNames"])
    left |= {bucket["Name"] for bucket in standin.client("s3").list_buckets()["Buckets"]}
    left |= {queue.split("/")[-1] for queue in standin.client("sqs").list_queues().get("QueueUrls", [])}
    assert not [name for name in left if name.startswith("failing-")]
    migrate.write_text(sound)
    delete(standin, "failing")
    run = project.sam(*first)
    assert run.returncode == 0, run.stdout + run.stderr
    assert status(standin, "failing") == "CREATE_COMPLETE"


def test_the_local_stack_deploys_the_template_too_and_two_of_them_side_by_side(tmp_path, standin, secret):
    binaries = tmp_path / "binaries"
    binaries.mkdir()
    project = Project(tmp_path, standin)
    for name, function in source()["Resources"].items():
        if function["Type"] == "AWS::Serverless::Function":
            program = project.directory / ".aws-sam/build" / name / "bootstrap"
            (binaries / function["Metadata"]["BuildProperties"]["Binary"]).write_bytes(program.read_bytes())
    deployed = []
    for stack, table in [("integrahub", "mq-probe-idempotency"), ("another", "")]:
        parameters = {"DatabaseSecretArn": secret, "IdempotencyTableName": table, "Architecture": "x86_64", "AcceptDrops": "partner-files", "LoadTests": "true"}
        output = tmp_path / f"{stack}.json"
        run = subprocess.run(
            [PYTHON, ROOT / "local/deploy.py", "--template", ROOT / "template.yaml", "--binaries", binaries, "--endpoint", standin.endpoint]
            + ["--stack", stack, "--parameters", json.dumps(parameters), "--ibm-mq-library", "/stand-in/libmqm_r.so", "--output", output],
            env={**CREDENTIALS, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        deployed.append(json.loads(output.read_text()))
    one, other = (deployment["names"] for deployment in deployed)
    assert one["IdempotencyTable"] == "mq-probe-idempotency"
    variables = {name: standin.client("lambda").get_function_configuration(FunctionName=one[name])["Environment"]["Variables"] for name in ("MqAccessFunction", "ReconcileFunction")}
    assert variables["MqAccessFunction"]["IBM_MQ_LIBRARY"] == "/stand-in/libmqm_r.so"
    assert (variables["ReconcileFunction"]["DROP_BUCKET"], variables["ReconcileFunction"]["RECONCILE_MINUTES"]) == ("partner-files", "2")
    assert standin.client("events").describe_rule(Name=one["ReconcileFunctionSchedule"])["ScheduleExpression"] == "rate(2 minutes)"
    assert {"key": "$default", "function": "StatusFunction"} in deployed[0]["routes"]
    assert {"key": "DELETE /tests/{test_id}", "function": "LoadTestsFunction"} in deployed[0]["routes"]
    machine = standin.client("stepfunctions").describe_state_machine(stateMachineArn=one["LoadTestMachine"])
    assert f":function:{one['LoadStepFunction']}\"" in machine["definition"]
    assert len([name for name in one.values() if name.startswith("/aws/lambda/")]) == 23
    assert set(one) == set(other)
    # A custom resource names what its function manages, here a database of each stack.
    assert {name for name in one if one[name] == other[name]} <= {"ApiApiGatewayDefaultStage", "Migration"}
