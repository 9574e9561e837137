"""What SAM makes of template.yaml is whole, and within CloudFormation's limits."""

import json

import cloudformation
import pytest
from cloudformation import deploy, references, source, translated
from scenarios import EVERYTHING, REST, SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_deployment_refers_to_nothing_that_is_not_there(name):
    stack = deploy(SCENARIOS[name])
    for resource in stack.resources.values():
        assert references(resource["Properties"]) <= set(stack.resources)
    for output in stack.outputs.values():
        assert references(output) <= set(stack.resources)


def test_sam_reads_no_other_parameter():
    every = cloudformation._translated("1", tuple(sorted(EVERYTHING.items())))
    evaluator = cloudformation.Evaluator(every, EVERYTHING, "integrahub", 1)
    stack = deploy(EVERYTHING)
    assert {name for name in every["Resources"] if evaluator.is_there(name)} == set(stack.resources)
    for name in stack.resources:
        assert evaluator.resolve(every["Resources"][name].get("Properties", {})) == stack.properties(name), name


def test_the_translation_is_within_the_limits_of_cloudformation():
    template = translated(EVERYTHING)
    assert len(json.dumps(template, indent=2)) < 1_000_000
    assert len(template["Resources"]) < 500
    assert len(template["Parameters"]) < 200
    assert len(template["Outputs"]) < 200
    assert all(len(parameter["Description"]) <= 4000 for parameter in template["Parameters"].values())


def test_the_policies_and_variables_of_functions_are_within_their_limits():
    stack = deploy(EVERYTHING)
    for name, role in stack.of("AWS::IAM::Role").items():
        inline = sum(len(json.dumps(policy["PolicyDocument"])) for policy in role["Properties"].get("Policies", []))
        assert inline < 10_240, name
        assert len(role["Properties"].get("ManagedPolicyArns", [])) <= 10, name
    for name, policy in stack.of("AWS::IAM::ManagedPolicy").items():
        assert len(json.dumps(policy["Properties"]["PolicyDocument"])) < 6_144, name
    for name, function in stack.of("AWS::Lambda::Function").items():
        assert len(json.dumps(function["Properties"]["Environment"]["Variables"])) < 4_096, name


def test_the_console_shows_every_parameter_in_one_group():
    interface = source()["Metadata"]["AWS::CloudFormation::Interface"]
    shown = [parameter for group in interface["ParameterGroups"] for parameter in group["Parameters"]]
    assert sorted(shown) == sorted(source()["Parameters"])


def test_every_route_is_open_to_the_gateway_because_the_functions_check_the_key():
    # `sam deploy --guided` would ask about each event that is a route, and takes Enter for a No.
    events = [event["Type"] for r in source()["Resources"].values() for event in r.get("Properties", {}).get("Events", {}).values()]
    assert not {"Api", "HttpApi"} & set(events)
    for api, parameters in (("Api", EVERYTHING), ("RestApi", REST)):
        body = json.dumps(deploy(parameters).properties(api)["Body"])
        assert "securitySchemes" not in body and "x-amazon-apigateway-auth" not in body


def test_warnings_of_the_import_do_not_fail_the_api():
    assert "FailOnWarnings" not in deploy().properties("Api")
