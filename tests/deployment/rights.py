"""The rights of each function: as a table of docs/security.md, and against what the functions called in the tests.

    .local/python/bin/python tests/deployment/rights.py write             writes the table
    .local/python/bin/python tests/deployment/rights.py used DIRECTORY    compares the record below a stack's data directory
"""

import json
import re
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

from cloudformation import ROOT, Evaluator, Stack, references, source

PAGE = ROOT / "docs/security.md"
HEADING = "## Rights of each function"
LISTS = Path(__file__).parent / "rights.toml"
# SAM leaves roles and policies as they are, and the role of a function.
FUNCTION, ROLE, POLICY = "AWS::Serverless::Function", "AWS::IAM::Role", "AWS::IAM::ManagedPolicy"
# What the calls of functions name.
NAMED = {FUNCTION, "AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::StepFunctions::StateMachine"}
# Of the value of this parameter, the policies use a part.
PARTS = {"AcceptDrops": "<AcceptDrops>/<account>"}


def listed(value):
    return value if isinstance(value, list) else [value]


def attached(stack, role):
    """The managed policies of a role."""
    found = references(stack.properties(role).get("ManagedPolicyArns", []))
    return found | {name for name, policy in stack.of(POLICY).items() if role in references(policy["Properties"].get("Roles", []))}


def statements(documents):
    """(action, resource) of everything that policies allow."""
    for statement in (each for document in documents for each in document["Statement"] if each["Effect"] == "Allow"):
        for action in listed(statement["Action"]):
            yield from ((action, resource) for resource in listed(statement["Resource"]))


def own(stack, role):
    return statements(policy["PolicyDocument"] for policy in stack.properties(role).get("Policies", []))


def allowed(stack, role):
    """(action, resource) of everything that a role may do."""
    yield from own(stack, role)
    yield from statements(stack.properties(name)["PolicyDocument"] for name in attached(stack, role))


def stack_of(parameters, evaluator=None):
    """Functions, roles and policies, without SAM's transform."""
    evaluator = evaluator or Evaluator(source(), parameters, "integrahub", 1)
    stack = Stack("integrahub", parameters)
    for name, resource in source()["Resources"].items():
        if resource["Type"] in (FUNCTION, ROLE, POLICY) and evaluator.is_there(name):
            properties = resource["Properties"]
            kept = {"Role": properties["Role"]} if resource["Type"] == FUNCTION else properties
            stack.resources[name] = {**resource, "Properties": evaluator.resolve(kept)}
    return stack


def role_of(stack, function):
    (role,) = references(stack.properties(function)["Role"])
    return role


def readable(resource):
    """Logical ids, and of an ARN what follows the account."""
    text = re.sub("«([A-Za-z0-9]+)(?:[.]Arn)?»", r"\1", resource).replace("«", "").replace("»", "")
    return without_account(text) if text.startswith("arn:") else text


def without_account(arn):
    """What follows the account in an ARN, without the six characters that Secrets Manager appends to a name."""
    return re.sub("^(secret:.*)-[A-Za-z0-9]{6}$", r"\1-??????", arn.split(":", 5)[5])


# The page


def with_placeholders(parameters):
    """A deployment with these parameters, where each stands for itself in the policies."""
    evaluator = Evaluator(source(), parameters, "integrahub", 1)
    for condition in source()["Conditions"]:
        evaluator.condition(condition)
    for name, value in evaluator.values.items():
        placeholder = PARTS.get(name, f"<{name}>")
        evaluator.values[name] = [placeholder] if isinstance(value, list) else placeholder
    return stack_of(parameters, evaluator)


def cell(rights):
    """Rights by resource: the actions of one service are named once."""
    by_resource = {}
    for action, resource in sorted(set(rights)):
        by_resource.setdefault(readable(resource), {}).setdefault(action.split(":")[0], []).append(action.split(":")[1])
    parts = []
    for resource, services in sorted(by_resource.items()):
        actions = ", ".join(f"{service}:{' '.join(names)}" for service, names in services.items())
        parts.append(f"{actions} on `{resource}`" if resource != "*" else actions)
    return "; ".join(parts)


def table():
    from scenarios import EVERYTHING

    stack = with_placeholders(EVERYTHING)
    lines = ["| function | its own policy | further policies |", "|---|---|---|"]
    for function in sorted(stack.of(FUNCTION)):
        role = role_of(stack, function)
        # Every function has these.
        common = {("xray", "*"), ("logs", f"«{function.removesuffix('Function')}Logs.Arn»")}
        rights = [(action, resource) for action, resource in own(stack, role) if (action.split(":")[0], resource) not in common]
        lines.append(f"| {function.removesuffix('Function')} | {cell(rights)} | {', '.join(sorted(attached(stack, role)))} |")
    lines += ["", "| further policy | rights |", "|---|---|"]
    for name, policy in sorted(stack.of(POLICY).items()):
        lines.append(f"| {name} | {cell(statements([policy['Properties']['PolicyDocument']]))} |")
    return lines


def page(lines):
    """The page with these lines in place of its tables."""
    before, _, rest = PAGE.read_text().partition(f"\n{HEADING}\n")
    section, separator, after = rest.partition("\n## ")
    introduction = section.partition("\n|")[0]
    return f"{before}\n{HEADING}\n{introduction}\n" + "\n".join(lines) + f"\n{separator}{after}"


# The record


def place(names, right, resource):
    """The resource of a recorded call, as policies name it."""
    service = right.split(":")[0]
    logical = {re.split("[/:]", physical)[-1]: name for name, physical in names.items() if source()["Resources"].get(name, {}).get("Type") in NAMED}
    if service == "logs":
        return next((name for name, physical in names.items() if physical == resource), resource)
    if service == "sqs":
        resource = resource.rsplit("/", 1)[-1]
    if service == "lambda" and resource.startswith("arn:"):
        resource = resource.split(":", 6)[6]
    if service == "states" and ":stateMachine:" in resource:
        resource = resource.rsplit(":", 1)[-1]
    if service == "states" and ":execution:" in resource:
        machine, _, execution = resource.split(":execution:")[1].partition(":")
        return f"execution:{logical.get(machine, machine)}.Name:{execution}"
    if resource.startswith("arn:"):
        return without_account(resource)
    if service == "secretsmanager":
        return f"secret:{resource}-??????"
    if service == "events":
        return f"event-bus/{resource}"
    if service == "ssm":
        return "parameter/" + resource.lstrip("/")
    first, rest = re.match("([^/:]*)(.*)", resource).groups()
    return logical.get(first, first) + (".StreamArn" if rest == "/stream" else rest)


def matches(call, right):
    return all(fnmatchcase(given, pattern) for given, pattern in zip(call, right))


def text(*parts):
    return " ".join(parts)


def entries(lists, kind):
    return {entry: group["reason"] for group in lists.get(kind, []) for entry in group["rights"]}


def faults(rights, calls, lists):
    """What is wrong with rights and calls, both of (function, action, resource), as paragraphs."""
    unused, sometimes, beyond = (entries(lists, kind) for kind in ("unused", "sometimes", "beyond"))
    used, foreign, excused = set(), set(), set()
    for function, *call in calls:
        having = {right for right in rights if right[0] == function and matches(call, right[1:])}
        used |= having
        if not having:
            excuses = {entry for entry in beyond if matches((function, *call), entry.split(" ", 2))}
            excused |= excuses
            if not excuses:
                foreign.add(text(function, *call))
    idle = {text(*right) for right in rights - used}
    known = {text(*right) for right in rights}
    found = {
        "Calls of functions that no statement of their policies permits": foreign,
        "Rights that no test used. Take them out of deploy/template, or give their reason in tests/deployment/rights.toml": idle - set(unused) - set(sometimes),
        "Entries of tests/deployment/rights.toml that a test uses now. Take them out": {entry for entry in unused if entry in known - idle},
        "Entries of tests/deployment/rights.toml that no policy has. Take them out": (set(unused) | set(sometimes)) - known,
        "Exceptions of tests/deployment/rights.toml that no call needs. Take them out": set(beyond) - excused,
        "Entries without a reason": {entry for entry, reason in {**unused, **sometimes, **beyond}.items() if not reason.strip()},
    }
    return ["\n".join([f"{what}:", *(f'  "{entry}",' for entry in sorted(entries))]) for what, entries in found.items() if entries]


def compare(directory):
    deployment = json.loads((directory / "deploy/deployment.json").read_text())
    parameters = deployment["parameters"]
    if "KafkaBootstrapServers" in parameters:
        print("SKIPPED: the rights that were used, because the stack has Kafka in place of queues")
        return []
    stack = stack_of(parameters)
    rights = {(function, action, readable(resource)) for function in stack.of(FUNCTION) for action, resource in allowed(stack, role_of(stack, function))}
    lines = [json.loads(line) for line in (directory / "ministack/calls").read_text().splitlines()]
    calls = {(function, right, place(deployment["names"], right, resource)) for function, right, resource in lines}
    print(f"{len(calls)} different calls of {len({function for function, *_ in calls})} functions, {len(rights)} rights")
    return faults(rights, calls, tomllib.loads(LISTS.read_text()))


def main():
    match sys.argv[1:]:
        case ["write"]:
            PAGE.write_text(page(table()))
        case ["used", directory]:
            found = compare(Path(directory))
            sys.exit("\n\n".join(found) or None)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
