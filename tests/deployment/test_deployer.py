"""The permissions that docs/deploy.md asks for are those of the resources that the template has."""

import json

import pytest
from cloudformation import ROOT, deploy
from deployer_policy import LIMIT, NOT_USED, OTHER_TOOLS, documented, documents, kinds, text
from scenarios import SCENARIOS
from schemas import permissions


@pytest.mark.parametrize("path", ["deploy/deployer-policy.json", "deploy/deployer-options-policy.json", "deploy/operator-policy.json"])
def test_the_deployer_s_policies_are_current_and_fit_into_one_each(path):
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
    assert {"dynamodb:PutItem", "s3:DeleteObject", "ecs:DeleteTaskDefinitions", "sqs:StartMessageMoveTask"} <= documented() | OTHER_TOOLS
    assert documented() <= granted


def test_only_functions_and_rollouts_get_roles():
    for policy in documents().values():
        for statement in policy["Statement"]:
            if "iam:PassRole" in statement["Action"]:
                assert statement["Condition"]["StringEquals"]["iam:PassedToService"] == ["lambda.amazonaws.com", "codedeploy.amazonaws.com"]


def test_what_is_left_out_exists_in_the_schemas():
    from fnmatch import fnmatchcase

    every = {f"{a.split(':')[0].lower()}:{a.split(':')[1]}" for kind in kinds(SCENARIOS.values()) for a in permissions(kind)}
    for pattern in NOT_USED:
        assert any(fnmatchcase(action, pattern) for action in every), f"{pattern} leaves nothing out"


def test_the_stack_names_no_role_outside_the_deployer_s_reach():
    for name, role in deploy(SCENARIOS["everything"]).of("AWS::IAM::Role", "AWS::IAM::ManagedPolicy").items():
        assert not {"RoleName", "ManagedPolicyName"} & set(role["Properties"]), name
