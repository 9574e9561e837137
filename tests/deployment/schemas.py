"""CloudFormation's resource schemas, as cfn-lint brings them."""

import json
from functools import cache
from pathlib import Path

import cfnlint

DATA = Path(cfnlint.__file__).parent / "data/schemas"


@cache
def _index():
    return json.loads((DATA / "providers/us-east-1.json").read_text())


@cache
def schema(kind):
    return json.loads((DATA / f"resources/{_index()[kind]}.json").read_text())


@cache
def replacing(kind):
    """The properties whose change makes a new resource, the ones included where that depends on the values."""
    if kind == "AWS::CloudFormation::CustomResource":
        return []
    found = schema(kind).get("createOnlyProperties", []) + schema(kind).get("conditionalCreateOnlyProperties", [])
    return [path.removeprefix("/properties/").split("/") for path in found]


def physical_name(kind):
    """The properties that name a resource, and that CloudFormation would choose where they are not given."""
    named = {path[0] for path in replacing(kind) if path[0].endswith(("Name", "Identifier"))}
    identifiers = {path.removeprefix("/properties/") for path in schema(kind).get("primaryIdentifier", [])}
    read_only = {path.removeprefix("/properties/") for path in schema(kind).get("readOnlyProperties", [])}
    return (named & identifiers) - read_only


def permissions(kind):
    """What CloudFormation does, with the deployer's rights, to create, read, change and delete such a resource."""
    handlers = schema(kind).get("handlers", {})
    return {action for step in ("create", "read", "update", "delete") for action in handlers.get(step, {}).get("permissions", [])}
