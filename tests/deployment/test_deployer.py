"""The permissions that docs/deploy.md asks for are those of the resources that the template has."""

import json
import tomllib
from fnmatch import fnmatchcase

import pytest
from cloudformation import ROOT, deploy
from deployer_policy import LIMIT, NOT_USED, OTHER_TOOLS, documented, documents, kinds, text
from scenarios import EVERYTHING, SCENARIOS
from schemas import permissions

BOUNDARY = "arn:aws:iam::111122223333:policy/integrahub-boundary"


def listed(value):
    return value if isinstance(value, list) else [value]


def permitted(action, resource):
    """Whether any of the policies lets the deployer do that to the resource."""
    statements = [statement for policy in documents().values() for statement in policy["Statement"]]
    return any(action in statement["Action"] and any(fnmatchcase(resource, arn) for arn in listed(statement["Resource"])) for statement in statements)


@pytest.mark.parametrize("name", ["deployer", "deployer-options", "operator", "access"])
def test_the_deployer_s_policies_are_current_and_fit_into_one_each(name):
    path = f"deploy/{name}-policy.json"
    policy = documents()[path]
    assert (ROOT / path).read_text() == text(policy), "run tests/deployment/deployer_policy.py"
    assert len(json.dumps(policy, separators=(",", ":"))) <= LIMIT


def test_every_resource_type_can_be_created_and_deleted_with_them():
    granted = {action.lower() for policy in documents().values() for statement in policy["Statement"] for action in statement["Action"]}
    for kind in kinds(SCENARIOS.values()):
        for step in ("Create", "Delete"):
            needed = {action.lower() for action in permissions(kind) if action.split(":")[1].startswith(step) and action.split(":")[0] in kind.lower()}
            assert not needed or needed & granted, f"{step} of {kind}"


def test_the_documents_commands_may_be_called_with_them():
    granted = {action for policy in documents().values() for statement in policy["Statement"] for action in statement["Action"]}
    assert {"s3:DeleteObject", "ecs:DeleteTaskDefinitions", "sqs:StartMessageMoveTask"} <= documented() | OTHER_TOOLS
    assert documented() <= granted


def test_only_functions_rollouts_and_the_state_machine_get_roles():
    passed = []
    for policy in documents().values():
        for statement in policy["Statement"]:
            if "iam:PassRole" in statement["Action"]:
                passed += listed(statement["Condition"]["StringEquals"]["iam:PassedToService"])
    assert passed == [f"{service}.amazonaws.com" for service in ("lambda", "codedeploy", "states")]


def test_what_is_left_out_exists_in_the_schemas():
    every = {f"{a.split(':')[0].lower()}:{a.split(':')[1]}" for kind in kinds(SCENARIOS.values()) for a in permissions(kind)}
    for pattern in NOT_USED:
        assert any(fnmatchcase(action, pattern) for action in every), f"{pattern} leaves nothing out"


def test_the_stack_names_no_role_outside_the_deployer_s_reach():
    for name, role in deploy(SCENARIOS["everything"]).of("AWS::IAM::Role", "AWS::IAM::ManagedPolicy").items():
        assert not {"RoleName", "ManagedPolicyName"} & set(role["Properties"]), name


@pytest.mark.parametrize(
    "action, arn",
    [
        ("lambda:UpdateFunctionCode", "arn:aws:lambda:sa-east-1:111122223333:function:{}-ProduceFunction-1"),
        ("lambda:UpdateFunctionConfiguration", "arn:aws:lambda:sa-east-1:111122223333:function:{}-ProduceFunction-1"),
        ("lambda:InvokeFunction", "arn:aws:lambda:sa-east-1:111122223333:function:{}-MigrateFunction-1"),
        ("dynamodb:DeleteTable", "arn:aws:dynamodb:sa-east-1:111122223333:table/{}-AccessTable-1"),
        ("dynamodb:PutItem", "arn:aws:dynamodb:sa-east-1:111122223333:table/{}-AccessTable-1"),
        ("sqs:DeleteQueue", "arn:aws:sqs:sa-east-1:111122223333:{}-UnhandledQueue-1"),
        ("sqs:ReceiveMessage", "arn:aws:sqs:sa-east-1:111122223333:{}-UnhandledQueue-1"),
        ("logs:DeleteLogGroup", "arn:aws:logs:sa-east-1:111122223333:log-group:/aws/lambda/{}-produce-1:*"),
        ("s3:GetObject", "arn:aws:s3:::{}-payloadbucket-1/incoming/1"),
        ("s3:PutBucketPolicy", "arn:aws:s3:::{}-payloadbucket-1"),
        ("iam:PassRole", "arn:aws:iam::111122223333:role/{}-ProduceRole-1"),
        ("iam:PutRolePolicy", "arn:aws:iam::111122223333:role/{}-ProduceRole-1"),
    ],
)
def test_code_data_and_messages_are_reached_by_the_stack_s_name_alone(action, arn):
    for stack in ("integrahub", "integrahub-dev"):
        assert permitted(action, arn.format(stack)), stack
    for other in ("payroll", "integra"):
        assert not permitted(action, arn.format(other)), other


def test_who_administers_access_reaches_its_table_and_records_and_one_function_alone():
    statements = documents()["deploy/access-policy.json"]["Statement"]

    def may(action, arn):
        return any(action in statement["Action"] and any(fnmatchcase(arn, known) for known in statement["Resource"]) for statement in statements)

    table, function = "arn:aws:dynamodb:sa-east-1:111122223333:table/{}-1", "arn:aws:lambda:sa-east-1:111122223333:function:{}-1"
    for action in ("DeleteItem", "GetItem", "PutItem", "Scan", "UpdateItem"):
        assert may(f"dynamodb:{action}", table.format("integrahub-dev-AccessTable")), action
        assert may(f"dynamodb:{action}", table.format("integrahub-dev-IdempotencyTable")) == (action == "GetItem"), action
        assert not may(f"dynamodb:{action}", table.format("integrahub-dev-BatchesTable")), action
        assert not may(f"dynamodb:{action}", table.format("payroll-AccessTable")), action
    assert may("dynamodb:GetItem", "arn:aws:dynamodb:sa-east-1:111122223333:table/mq-probe-idempotency")
    assert may("dynamodb:Query", "arn:aws:dynamodb:sa-east-1:111122223333:table/mq-probe-idempotency/index/target-index")
    group = "arn:aws:logs:sa-east-1:111122223333:log-group:{}-1:*"
    assert may("logs:FilterLogEvents", group.format("/audit/integrahub-dev"))
    assert not may("logs:FilterLogEvents", group.format("/aws/lambda/integrahub-dev-produce"))
    assert may("lambda:InvokeFunction", function.format("integrahub-dev-EstablishmentsFunction"))
    assert not may("lambda:InvokeFunction", function.format("integrahub-dev-MigrateFunction"))
    assert may("cloudformation:DescribeStacks", "arn:aws:cloudformation:sa-east-1:111122223333:stack/integrahub-dev/1")
    # Nobody who only operates or deploys changes access.
    for name in ("deployer", "deployer-options", "operator"):
        actions = {action for statement in documents()[f"deploy/{name}-policy.json"]["Statement"] for action in statement["Action"]}
        assert not {f"dynamodb:{action}" for action in ("DeleteItem", "PutItem", "Scan", "UpdateItem")} & actions, name


def test_what_the_template_names_itself_can_be_reached_with_them():
    for name, group in deploy(EVERYTHING).of("AWS::Logs::LogGroup").items():
        arn = f"arn:aws:logs:us-east-1:111122223333:log-group:{group['Properties']['LogGroupName']}:*"
        assert permitted("logs:CreateLogGroup", arn), name
    # Where SAM CLI puts code.
    assert permitted("s3:PutObject", "arn:aws:s3:::aws-sam-cli-managed-default-samclisourcebucket-1/integrahub-dev/1")


def test_the_table_of_records_of_production_can_be_made_with_them():
    given = tomllib.loads((ROOT / "samconfig.toml").read_text())["production"]["global"]["parameters"]["parameter_overrides"]
    (table,) = [entry.split("=")[1] for entry in given if entry.startswith("IdempotencyTableName=")]
    assert table == "mq-probe-idempotency", "the documents name it"
    for action in ("CreateTable", "DescribeTable", "UpdateContinuousBackups", "UpdateTimeToLive", "DeleteTable"):
        assert permitted(f"dynamodb:{action}", f"arn:aws:dynamodb:sa-east-1:111122223333:table/{table}"), action
        assert not permitted(f"dynamodb:{action}", "arn:aws:dynamodb:sa-east-1:111122223333:table/payroll"), action


def denied(action, resource, boundary):
    """Whether deploy/boundary-policy.json denies that, for a role or a policy with this boundary."""
    for statement in json.loads((ROOT / "deploy/boundary-policy.json").read_text())["Statement"]:
        assert statement["Effect"] == "Deny"
        others = statement.get("Condition", {}).get("StringNotEquals", {}).get("iam:PermissionsBoundary")
        # Without the key in a request, StringNotEquals holds.
        if action in listed(statement["Action"]) and fnmatchcase(resource, statement["Resource"]) and (others is None or boundary != others):
            return True
    return False


def test_a_boundary_that_is_set_is_enforced():
    role = "arn:aws:iam::111122223333:role/integrahub-ProduceRole-1"
    for action in ("iam:CreateRole", "iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:PutRolePermissionsBoundary"):
        assert permitted(action, role)
        assert not denied(action, role, BOUNDARY), action
        for boundary in (None, "arn:aws:iam::aws:policy/AdministratorAccess"):
            assert denied(action, role, boundary), action
    assert denied("iam:DeleteRolePermissionsBoundary", role, BOUNDARY)
    for action in ("iam:CreatePolicyVersion", "iam:DeletePolicyVersion", "iam:DeletePolicy"):
        assert permitted(action, BOUNDARY) and denied(action, BOUNDARY, None), action
    # Every role of the template takes it.
    for name, resource in deploy({**EVERYTHING, "PermissionsBoundaryArn": BOUNDARY}).of("AWS::IAM::Role").items():
        assert resource["Properties"]["PermissionsBoundary"] == BOUNDARY, name
