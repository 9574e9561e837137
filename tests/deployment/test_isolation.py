"""Two stacks in one account and region share nothing, and nothing blocks a second try."""

import json

import pytest
from cloudformation import deploy, watched
from scenarios import EVERYTHING, SCENARIOS
from schemas import physical_name

# Their names are those of a part of an API or a function, which has a name of its own.
WITHIN_ANOTHER = {"AWS::ApiGateway::Stage", "AWS::ApiGatewayV2::Stage", "AWS::Lambda::Alias"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_resource_is_named_but_log_groups_which_have_the_stack_s_id_in_their_names(name):
    one, other = deploy(SCENARIOS[name], name="integrahub", number=1), deploy(SCENARIOS[name], name="integrahub", number=2)
    for logical, resource in one.resources.items():
        if resource["Type"] == "AWS::CloudFormation::CustomResource":
            continue
        for key in physical_name(resource["Type"]) & set(resource["Properties"]):
            value = resource["Properties"][key]
            if "«" in str(value) or value in SCENARIOS[name].values():
                continue
            if resource["Type"] in WITHIN_ANOTHER:
                continue
            assert resource["Type"] == "AWS::Logs::LogGroup", f"{logical} is named {value}"
            # The next stack of the same name has another id.
            assert value != other.properties(logical)[key], f"{logical} is named {value}"


def test_of_the_access_table_functions_write_the_days_of_use_and_what_is_spent_alone():
    stack, found = deploy(EVERYTHING), 0
    for name, role in stack.of("AWS::IAM::Role").items():
        for policy in role["Properties"].get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                if "AccessTable" not in str(statement.get("Resource")):
                    continue
                action = statement["Action"]
                if action == "dynamodb:UpdateItem":
                    found += 1
                    assert statement["Condition"]["ForAllValues:StringLike"] == {"dynamodb:LeadingKeys": ["USED#*"]}, name
                elif name == "MeteringRole" and action == ["dynamodb:BatchGetItem", "dynamodb:GetItem"]:
                    assert "Condition" not in statement
                elif action == ["dynamodb:DeleteItem", "dynamodb:PutItem"]:
                    assert name == "MeteringRole"
                    assert statement["Condition"]["ForAllValues:StringLike"] == {"dynamodb:LeadingKeys": ["SPENT#*"]}
                else:
                    assert action in ("dynamodb:GetItem", "dynamodb:Scan"), f"{name}: {action}"
    assert found, "no function notes the use of a key"


def test_a_stack_exports_nothing():
    assert not [output for output in deploy(EVERYTHING).outputs.values() if "Export" in output]


def test_no_alarm_looks_at_another_stack_s_metrics():
    one, other = deploy(EVERYTHING, name="one", number=1), deploy(EVERYTHING, name="other", number=2)
    for name, alarm in one.of("AWS::CloudWatch::Alarm").items():
        for metric, another in zip(watched(alarm["Properties"]), watched(other.properties(name)), strict=True):
            is_of_a_resource = any("«" in dimension["Value"] for dimension in metric["Dimensions"])
            assert is_of_a_resource or metric["Dimensions"] != another["Dimensions"], name
            if metric["Namespace"] == "IntegraHub":
                assert [dimension["Name"] for dimension in metric["Dimensions"]] == ["stack", "service"], name
    for name, function in one.of("AWS::Lambda::Function").items():
        assert function["Properties"]["Environment"]["Variables"]["STACK_NAME"] == "one", name


def test_a_queue_s_policy_is_about_this_stack_s_queue_only():
    one, other = deploy(SCENARIOS["gateway"], name="one", number=1), deploy(SCENARIOS["gateway"], name="other", number=2)
    for name, policy in one.of("AWS::SQS::QueuePolicy").items():
        assert json.dumps(policy["Properties"]) == json.dumps(other.properties(name))
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            assert "«" in str(statement["Resource"]), name
