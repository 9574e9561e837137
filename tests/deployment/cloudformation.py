"""What CloudFormation makes of template.yaml: SAM's own translator, and an evaluator of parameters, rules, conditions and references."""

import copy
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest import mock

import yaml
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import intrinsics_multi_constructor

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"
ACCOUNT = "111122223333"
REGION = "us-east-1"


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Reads the short forms of CloudFormation as SAM does. The reader that is written in Python, which SAM takes, needs seconds for a template of this size."""


Loader.add_multi_constructor("!", intrinsics_multi_constructor)


class Absent:
    """What AWS::NoValue leaves."""


NO_VALUE = Absent()


class NotThere(Exception):
    """A reference to a resource whose condition is false."""


class Policies:
    def load(self):
        return {}


@cache
def source():
    return yaml.load(TEMPLATE.read_text(), Loader)


@cache
def behind_the_api(api="Api"):
    """The functions that an API calls."""
    body = source()["Resources"][api]["Properties"]["DefinitionBody"]
    return set(re.findall(r"\$\{(\w+)\.Alias\}", json.dumps(body)))


# The parameters that SAM itself reads. All others are references in its output too, so that one
# translation serves their values (test_translation.py holds that).
READ_BY_SAM = ("CorsOrigins", "Rollout")


def packaged(template, release):
    """A copy of the template with the code where a package would have it."""
    template = copy.deepcopy(template)
    template["Globals"]["Function"].pop("CodeUri", None)
    for resource in template["Resources"].values():
        binary = resource.get("Metadata", {}).get("BuildProperties", {}).get("Binary")
        if binary:
            resource["Properties"]["CodeUri"] = f"s3://artifacts/{binary}-{release}.zip"
    return template


def translate(template, parameters=None):
    """What SAM makes of a template whose code is in a bucket."""
    # It names the deployment of the REST API, which is a new one each time, by the clock.
    with mock.patch("samtranslator.model.apigateway.time") as clock:
        clock.time.return_value = 0
        return transform(copy.deepcopy(template), dict(parameters or {}), Policies())


@cache
def _translated(release, parameters):
    return translate(packaged(source(), release), parameters)


def translated(parameters=None, release="1"):
    """The template after SAM's transform. Not to be changed: others get the same one."""
    return _translated(release, _read_by_sam(parameters or {}))


def _read_by_sam(parameters):
    return tuple((name, value) for name, value in sorted(parameters.items()) if name in READ_BY_SAM)


def values(parameters, template=None):
    """Every parameter's value, lists as lists."""
    result = {}
    for name, parameter in (template or source())["Parameters"].items():
        value = str(parameters.get(name, parameter.get("Default")))
        result[name] = [part.strip() for part in value.split(",")] if parameter["Type"] == "CommaDelimitedList" else value
    unknown = set(parameters) - set(result)
    assert not unknown, f"template.yaml has no parameters {unknown}"
    return result


def allowed(name, value):
    """Whether the parameter's own constraints take the value."""
    parameter = source()["Parameters"][name]
    if "AllowedValues" in parameter:
        return str(value) in [str(option) for option in parameter["AllowedValues"]]
    if parameter["Type"] == "Number":
        number = float(value)
        return parameter.get("MinValue", number) <= number <= parameter.get("MaxValue", number)
    return re.fullmatch(parameter.get("AllowedPattern", ".*"), str(value)) is not None


def refusals(parameters):
    """The sentences of the rules that do not hold."""
    given = values(parameters)

    def holds(node):
        if not isinstance(node, dict):
            return [holds(part) for part in node] if isinstance(node, list) else node
        ((function, arguments),) = node.items()
        if function == "Ref":
            return given[arguments]
        arguments = [holds(argument) for argument in arguments]
        match function:
            case "Fn::Equals":
                return arguments[0] == arguments[1]
            case "Fn::Not":
                return not arguments[0]
            case "Fn::And":
                assert 2 <= len(arguments) <= 10
                return all(arguments)
            case "Fn::Or":
                assert 2 <= len(arguments) <= 10
                return any(arguments)
            case "Fn::Contains":
                return arguments[1] in arguments[0]
            case "Fn::EachMemberEquals":
                return all(member == arguments[1] for member in arguments[0])
            case "Fn::EachMemberIn":
                return all(member in arguments[1] for member in arguments[0])
        raise AssertionError(f"{function} is no function of rules")

    return [
        assertion["AssertDescription"].strip()
        for rule in source()["Rules"].values()
        if holds(rule.get("RuleCondition", True))
        for assertion in rule["Assertions"]
        if not holds(assertion["Assert"])
    ]


@dataclass
class Stack:
    """The resources that a deployment makes. References to other resources are kept as text: `Name` or `Name.Attribute` in guillemets."""

    name: str
    parameters: dict
    resources: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)

    def of(self, *kinds):
        return {name: resource for name, resource in self.resources.items() if resource["Type"] in kinds}

    def properties(self, name):
        return self.resources[name].get("Properties", {})


def words(node):
    """Every name that an expression has, those of conditions, parameters and resources among them."""
    return set(re.findall(r"\w+", json.dumps(node)))


class Needs:
    """The conditions and parameters that the value of an expression of a template may depend on."""

    def __init__(self, template):
        self.template = template
        self.conditions = template.get("Conditions", {})
        self.known = {}

    def of_condition(self, name):
        if name not in self.known:
            self.known[name] = {name} | self.of(self.conditions[name])
        return self.known[name]

    def of(self, node):
        named = words(node)
        # A resource that is not there cannot be referred to.
        named |= {self.template["Resources"][name]["Condition"] for name in named & self.template["Resources"].keys() if "Condition" in self.template["Resources"][name]}
        return (named & self.template["Parameters"].keys()).union(*(self.of_condition(name) for name in named & self.conditions.keys()))


class Evaluator:
    def __init__(self, template, parameters, name, number):
        self.template = template
        self.values = values(parameters, template)
        self.conditions = {}
        self.pseudo = {
            "AWS::StackName": name,
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/{number:08x}-0000-4000-8000-000000000000",
            "AWS::Region": REGION,
            "AWS::AccountId": ACCOUNT,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::NoValue": NO_VALUE,
        }

    def condition(self, node):
        if isinstance(node, str):
            if node not in self.conditions:
                self.conditions[node] = self.condition(self.template["Conditions"][node])
            return self.conditions[node]
        ((function, arguments),) = node.items()
        match function:
            case "Condition":
                return self.condition(arguments)
            case "Fn::Equals":
                return self.resolve(arguments[0]) == self.resolve(arguments[1])
            case "Fn::Not":
                return not self.condition(arguments[0])
            case "Fn::And":
                assert 2 <= len(arguments) <= 10
                return all([self.condition(argument) for argument in arguments])
            case "Fn::Or":
                assert 2 <= len(arguments) <= 10
                return any([self.condition(argument) for argument in arguments])
        raise AssertionError(f"{function} is no condition")

    def is_there(self, name):
        resource = self.template["Resources"].get(name)
        assert resource, f"{name} is neither a parameter nor a resource"
        return "Condition" not in resource or self.condition(resource["Condition"])

    @staticmethod
    def is_reference(value):
        return isinstance(value, str) and re.fullmatch("«[^»]+»", value) is not None

    def reference(self, name, attribute=None):
        if not self.is_there(name):
            raise NotThere(name)
        return f"«{name}»" if attribute is None else f"«{name}.{attribute}»"

    def substitute(self, text, local):
        def value(match):
            name = match.group(1)
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in local:
                return str(local[name])
            if "." in name:
                return self.reference(*name.split(".", 1))
            return str(self.resolve({"Ref": name}))

        return re.sub(r"\$\{([^}]+)\}", value, text)

    def resolve(self, node):
        if isinstance(node, list):
            return [value for value in (self.resolve(part) for part in node) if value is not NO_VALUE]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((function, arguments),) = node.items()
            match function:
                case "Ref":
                    if arguments in self.pseudo:
                        return self.pseudo[arguments]
                    return self.values[arguments] if arguments in self.values else self.reference(arguments)
                case "Fn::GetAtt":
                    return self.reference(*(arguments.split(".", 1) if isinstance(arguments, str) else arguments))
                case "Fn::If":
                    name, then, otherwise = arguments
                    return self.resolve(then if self.condition(name) else otherwise)
                case "Fn::Sub":
                    if isinstance(arguments, str):
                        return self.substitute(arguments, {})
                    return self.substitute(arguments[0], {key: self.resolve(value) for key, value in arguments[1].items()})
                case "Fn::Join":
                    return arguments[0].join(str(part) for part in self.resolve(arguments[1]))
                case "Fn::Select":
                    parts = self.resolve(arguments[1])
                    # What a reference will be is not known here, so a part of it stands for all of
                    # it.
                    return parts[0] if self.is_reference(parts[0]) else parts[int(arguments[0])]
                case "Fn::Split":
                    return self.resolve(arguments[1]).split(arguments[0])
                case "Fn::FindInMap":
                    first, second, third = (self.resolve(part) for part in arguments)
                    return self.template["Mappings"][first][second][third]
            assert not function.startswith("Fn::"), f"{function} is not evaluated"
        resolved = {key: self.resolve(value) for key, value in node.items()}
        return {key: value for key, value in resolved.items() if value is not NO_VALUE}


def deploy(parameters=None, name="integrahub", number=1, release="1"):
    """The stack that these parameters make. Fails on a parameter, rule or reference that CloudFormation would refuse. Not to be changed: others get the same one."""
    return _deployed(tuple(sorted((parameters or {}).items())), name, number, release)


# Resources as they were evaluated, by their template, which `_translated` keeps, and by the values
# that they depend on.
_evaluated = {}


@cache
def _needs(release, parameters):
    template = _translated(release, parameters)
    needs = Needs(template)
    return {name: sorted(needs.of(resource) & template["Parameters"].keys()) for name, resource in template["Resources"].items()}


@cache
def _deployed(parameters, name, number, release):
    parameters = dict(parameters)
    for key, value in parameters.items():
        assert allowed(key, value), f"{key} does not take {value!r}"
    assert not refusals(parameters), refusals(parameters)
    template = translated(parameters, release)
    evaluator = Evaluator(template, parameters, name, number)
    needs = _needs(release, _read_by_sam(parameters))
    stack = Stack(name, parameters)
    for logical, resource in template["Resources"].items():
        if not evaluator.is_there(logical):
            continue
        # Most parameters concern few resources. Of the others, each is evaluated once.
        key = (id(template), name, number, logical, *(str(evaluator.values[parameter]) for parameter in needs[logical]))
        if key not in _evaluated:
            _evaluated[key] = {
                **resource,
                "Properties": evaluator.resolve(resource.get("Properties", {})),
                "UpdatePolicy": evaluator.resolve(resource.get("UpdatePolicy", {})),
            }
        stack.resources[logical] = _evaluated[key]
        depends = resource.get("DependsOn", [])
        for dependency in [depends] if isinstance(depends, str) else depends:
            assert evaluator.is_there(dependency), f"{logical} depends on {dependency}, which is not there"
    for key, output in template.get("Outputs", {}).items():
        if "Condition" not in output or evaluator.condition(output["Condition"]):
            stack.outputs[key] = {part: evaluator.resolve(value) for part, value in output.items() if part != "Condition"}
    return stack


def watched(alarm):
    """The metrics of an alarm, of which the properties are given."""
    return [each["MetricStat"]["Metric"] for each in alarm["Metrics"] if "MetricStat" in each] if "Metrics" in alarm else [alarm]


def references(node):
    """The logical ids that a resolved value names."""
    if isinstance(node, dict):
        return set().union(*(references(value) for value in node.values()), set())
    if isinstance(node, list):
        return set().union(*(references(value) for value in node), set())
    return {name.split(".")[0] for name in re.findall(r"«([^»]+)»", node)} if isinstance(node, str) else set()
