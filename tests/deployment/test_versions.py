"""Versions and aliases of the functions behind the API: nothing stays in force that a deployment has changed, and requests go back from a version that fails."""

import copy
import importlib.util
import json
from functools import cache
from itertools import combinations

import pytest
from cloudformation import ROOT, behind_the_api, deploy, packaged, refusals, source, translate, translated
from scenarios import EVERYTHING, EXISTING_DATABASE, GATEWAY, LOAD_TESTS, REST, SCENARIOS
from test_transitions import BASES, others
from versions import Evaluated, faults, functions, opposite_of, published, references, versions

PUBLIC = behind_the_api()
VERSION_TRIGGERS = ["GatewayVersionTrigger", "IngestVersionTrigger"]


@cache
def scenario(name):
    return Evaluated(translated(), SCENARIOS[name])


@cache
def base(name):
    return Evaluated(translated(), BASES[name])


def entries(template, name):
    return template["Resources"][name]["Properties"]["ContainerDefinitions"][0]["Environment"]


def with_entries(name, entries):
    """The translated template with other settings of a version trigger. All else is the same, not a copy, which takes longer than what is asked."""
    template, trigger = translated(), translated()["Resources"][name]
    (container,) = trigger["Properties"]["ContainerDefinitions"]
    properties = {**trigger["Properties"], "ContainerDefinitions": [{**container, "Environment": entries}]}
    return {**template, "Resources": {**template["Resources"], name: {**trigger, "Properties": properties}}}


def names(node):
    """Parameters and resources that an expression names."""
    text = json.dumps(node)
    return {name for name in [*source()["Parameters"], *source()["Resources"]] if name in text}


def tried(template, parameter):
    """The faults of each other value of the parameter, and whether any function has it at all."""
    for name, parameters in BASES.items():
        stack = base(name) if template is translated() else Evaluated(template, parameters)
        one = published(stack)
        changes = ({**parameters, parameter: value} for value in others(parameter))
        for after in [after for after in changes if after != parameters and not refusals(after)][:3]:
            other = published(Evaluated(template, after, like=stack))
            yield faults(one, other), any(one[name] != other[name] for name in set(one) & set(other))


def faults_of(template, about):
    """The faults that another value of one of these parameters or resources has, one after the other: who looks for one needs no others."""
    for parameter in sorted(about & set(source()["Parameters"])):
        for found, _ in tried(template, parameter):
            yield from found
    for parameters in (EXISTING_DATABASE, EVERYTHING):
        stack = Evaluated(template, parameters)
        for reference in sorted(references(stack), key=str):
            if reference[0] in about:
                yield from faults(published(stack), published(Evaluated(template, parameters, like=stack, reference=reference)))


def test_the_api_calls_the_aliases_of_its_functions_and_nothing_else_has_one():
    for api, parameters in (("Api", GATEWAY), ("Api", EVERYTHING), ("RestApi", REST)):
        for path, methods in deploy(parameters).properties(api)["Body"]["paths"].items():
            for operation in methods.values():
                assert "Aliaslive»" in operation["x-amazon-apigateway-integration"]["uri"], path
    assert set(functions(translated())) == PUBLIC == behind_the_api("RestApi")


@pytest.mark.parametrize("parameter", source()["Parameters"])
def test_another_value_of_a_parameter_is_another_version_of_each_function_that_has_it(parameter):
    results = list(tried(translated(), parameter))
    assert [fault for found, _ in results for fault in found] == []
    assert any(matters for _, matters in results) or parameter not in names([entries(translated(), name) for name in VERSION_TRIGGERS]), "no case changes it"


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_name_or_attribute_of_a_resource_is_another_version(name):
    stack = scenario(name)
    before, found = published(stack), references(stack)
    assert {("AccessTable", None), ("ProduceRole", "Arn"), ("ProduceLogs", None), ("MqAccessFunction", None)} <= found
    for reference in found:
        after = published(Evaluated(stack.template, stack.parameters, like=stack, reference=reference))
        assert after != before and faults(before, after) == [], reference


@pytest.mark.parametrize("condition", source()["Conditions"])
def test_another_condition_for_the_same_value_is_another_version(condition):
    for name in SCENARIOS:
        stack = scenario(name)
        assert faults(published(stack), opposite_of(stack, condition)) == [], name


def test_new_code_and_another_text_of_a_function_are_another_version():
    # Without all else, which decides about no version and takes SAM seconds, each time.
    versioned = {name: source()["Resources"][name] for name in sorted({*PUBLIC, "MigrateFunction"})}
    alone = {**source(), "Resources": versioned, "Outputs": {}}

    def with_another(change, release="1"):
        template = packaged(alone, release)
        change(template)
        return functions(translate(template))

    one = with_another(lambda template: None)
    assert one == functions(translated())
    assert not set(one.values()) & set(with_another(lambda template: None, release="2").values())

    everywhere = [
        lambda template: template["Globals"]["Function"].update(Handler="other"),
        lambda template: template["Globals"]["Function"].update(Tracing="PassThrough"),
        lambda template: template["Globals"]["Function"]["LoggingConfig"].update(ApplicationLogLevel="INFO"),
        lambda template: template["Globals"]["Function"]["Environment"]["Variables"].update(CONSTANT="1"),
    ]
    for change in everywhere:
        assert not set(one.values()) & set(with_another(change).values())
    # Several functions at a time. Of any two, each is changed once without the other.
    turns = 7
    places = list(combinations(range(turns), 3))
    assert len(PUBLIC) <= len(places)
    for turn in range(turns):
        chosen = {name for name, place in zip(sorted(PUBLIC), places) if turn in place}

        def change(template):
            for name in chosen:
                template["Resources"][name]["Properties"].update(MemorySize=333)

        after = with_another(change)
        assert {other for other in PUBLIC if one[other] != after[other]} == chosen


@pytest.mark.parametrize("name", VERSION_TRIGGERS)
def test_a_value_that_is_not_among_the_settings_is_found(name):
    every = entries(translated(), name)
    assert len(every) > 20
    for number, entry in enumerate(every):
        # It says that the option is on, as others do that are there only then.
        if any(f'"{variable}"' in json.dumps(entry) for variable in ("CHUNK_TRANSPORT", "KAFKA_GROUP", "LOAD_TESTS", "PUBLISHES_EVENTS")):
            continue
        template = with_entries(name, every[:number] + every[number + 1 :])
        assert any("keeps what it had" in fault for fault in faults_of(template, names(entry))), entry


@pytest.mark.parametrize("value", [{"Ref": "HistoryDays"}, {"Fn::If": ["HasAlarmTopicArn", "1", {"Ref": "AWS::NoValue"}]}, {"Fn::GetAtt": ["UnhandledQueue", "Arn"]}])
def test_a_new_variable_that_is_not_among_the_settings_is_found(value):
    template = copy.deepcopy(translated())
    template["Resources"]["ProduceFunction"]["Properties"]["Environment"]["Variables"]["NEW"] = value
    about = names(value) | ({"AlarmTopicArn"} if "HasAlarmTopicArn" in json.dumps(value) else set())
    assert set(faults_of(template, about)) == {"ProduceFunction keeps what it had"}


def test_a_setting_is_new_to_lambda_too_which_publishes_no_version_without_a_change():
    template = copy.deepcopy(translated())
    function = template["Resources"]["StatusFunction"]["Properties"]
    assert list(faults_of(template, {"InlineTargets"})) == []
    function["Description"] = "Status"
    assert set(faults_of(template, {"InlineTargets"})) == {"StatusFunction is published without a change"}


def test_a_setting_is_one_text_whatever_its_neighbours_are():
    """Entries have names of their own, so that two changes at once cannot make the same revision."""
    for parameters in SCENARIOS.values():
        for name, definition in deploy(parameters).of("AWS::ECS::TaskDefinition").items():
            (container,) = definition["Properties"]["ContainerDefinitions"]
            every = container["Environment"]
            assert len({entry["Name"] for entry in every}) == len(every), name
            assert all(entry["Value"] for entry in every), name
            assert len(json.dumps(every)) < 64_000


def test_a_description_fits_with_the_longest_name_of_a_stack():
    stack = deploy(EVERYTHING)
    for name in versions(translated()):
        revision = 128 + len("-gateway:1000000")
        assert len(stack.properties(name)["Description"]) + revision <= 256, name


@cache
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts/release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return translate(module.packaged(copy.deepcopy(source()), "0.1.0"))


def test_a_release_that_was_rolled_back_can_be_deployed_again():
    """Its place is a setting, so each attempt has revisions of its own. The versions of the first attempt stay, and Lambda publishes no
    other one without a change."""
    base = {**EXISTING_DATABASE, **LOAD_TESTS, "ArtifactBucket": "artifacts", "ArtifactPrefix": "integrahub/0.1.0"}
    stack = Evaluated(release(), base)
    first = published(stack, of=versions)
    others = set()
    for settings in VERSION_TRIGGERS:
        assert {"Name": "ARTIFACTS", "Value": {"Fn::Sub": "${ArtifactBucket}/${ArtifactPrefix}"}} in entries(release(), settings)
        again = published(Evaluated(release(), base, like=stack, reference=(settings, None)), of=versions)
        assert faults(first, again) == []
        others |= {name for name in first if first[name] != again[name]}
    assert others == set(first) == PUBLIC | {"MigrateFunction"}


def test_a_release_elsewhere_in_the_bucket_is_another_version():
    template = release()
    base = {**EXISTING_DATABASE, **LOAD_TESTS, "ArtifactBucket": "artifacts", "ArtifactPrefix": "integrahub/0.1.0"}
    for change in ({"ArtifactBucket": "others"}, {"ArtifactPrefix": "integrahub/0.1.1"}, {"Architecture": "x86_64"}):
        before, after = published(Evaluated(template, base)), published(Evaluated(template, {**base, **change}))
        assert set(before) == PUBLIC
        assert all(before[name] != after[name] for name in PUBLIC) and faults(before, after) == [], change


def test_versions_are_kept_to_go_back_to():
    for name, version in deploy(EVERYTHING).of("AWS::Lambda::Version").items():
        assert version["DeletionPolicy"] == "Retain", name
        # Another setting replaces the version, and new code removes it from the template.
        assert name.startswith("Migrate") or version["UpdateReplacePolicy"] == "Retain", name


@pytest.mark.parametrize("parameters", [{**GATEWAY, "Rollout": "Canary10Percent5Minutes"}, EVERYTHING], ids=["gateway", "everything"])
def test_a_gradual_rollout_goes_back_when_the_new_version_fails(parameters):
    stack = deploy(parameters)
    public = {name for name in PUBLIC if name in stack.resources}
    groups = stack.of("AWS::CodeDeploy::DeploymentGroup")
    assert {name.removesuffix("DeploymentGroup") for name in groups} == public
    for function in public:
        group = stack.properties(f"{function}DeploymentGroup")
        alarm = f"{function.removesuffix('Function')}RolloutAlarm"
        assert group["AlarmConfiguration"] == {"Enabled": True, "Alarms": [{"Name": f"«{alarm}»"}]}
        assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
        assert group["DeploymentConfigName"] == f"CodeDeployDefault.Lambda{parameters['Rollout']}"
        assert group["ServiceRoleArn"] == "«RolloutRole.Arn»"
        assert stack.resources[f"{function}Aliaslive"]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"] == f"«{function}DeploymentGroup»"
        # Not the function's errors as a whole: those of the version before would refuse the one
        # that mends them.
        version = functions(translated(parameters))[function]
        dimensions = {dimension["Name"]: dimension["Value"] for dimension in stack.properties(alarm)["Dimensions"]}
        assert dimensions == {"FunctionName": f"«{function}»", "Resource": f"«{function}»:live", "ExecutedVersion": f"«{version}.Version»"}
        assert stack.properties(alarm)["MetricName"] == "Errors" and stack.properties(alarm)["TreatMissingData"] == "notBreaching"


def test_all_at_once_takes_no_codedeploy():
    for parameters in (GATEWAY, EXISTING_DATABASE):
        stack = deploy(parameters)
        assert not stack.of("AWS::CodeDeploy::DeploymentGroup", "AWS::CodeDeploy::Application")
        assert "RolloutRole" not in stack.resources and not [name for name in stack.resources if name.endswith("RolloutAlarm")]
        assert not any(alias["UpdatePolicy"] for alias in stack.of("AWS::Lambda::Alias").values())
