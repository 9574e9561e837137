"""What an update would do to each resource, as a change set says it, and whether the stack policy lets it."""

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase

from cloudformation import ROOT, references
from schemas import replacing

# What holds data or messages, or cannot go while such a thing is there.
STATEFUL = {
    "AWS::DynamoDB::Table",
    "AWS::Logs::LogGroup",
    "AWS::RDS::DBCluster",
    "AWS::RDS::DBSubnetGroup",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
}
STATEFUL_RESOURCES = {"DatabaseInstance"}


@dataclass(frozen=True)
class Change:
    action: str
    name: str
    kind: str

    def is_of_data(self):
        return self.kind in STATEFUL or self.name in STATEFUL_RESOURCES


def _at(properties, path):
    for part in path:
        properties = properties.get(part) if isinstance(properties, dict) else None
    return properties


def change_set(before, after):
    """Every change between two stacks. A resource that refers to a replaced one changes with it."""
    changes = {}
    for name, resource in before.resources.items():
        if name not in after.resources or after.resources[name]["Type"] != resource["Type"]:
            changes[name] = Change("Update:Delete", name, resource["Type"])
    for name, resource in after.resources.items():
        if name not in before.resources or changes.get(name):
            changes[name] = Change("Add", name, resource["Type"])
            continue
        if before.properties(name) != resource["Properties"]:
            new = any(_at(before.properties(name), path) != _at(resource["Properties"], path) for path in replacing(resource["Type"]))
            changes[name] = Change("Update:Replace" if new else "Update:Modify", name, resource["Type"])
    while True:
        replaced = {name for name, change in changes.items() if change.action == "Update:Replace"}
        if not replaced:
            return list(changes.values())
        further = {}
        for name, resource in after.resources.items():
            if name in replaced or name not in before.resources:
                continue
            if any(references(_at(resource["Properties"], path)) & replaced for path in replacing(resource["Type"])):
                further[name] = Change("Update:Replace", name, resource["Type"])
        if not further:
            return list(changes.values())
        changes |= further


def losses(before, after):
    """The changes that take data, or the way to it, out of the stack."""
    return [change for change in change_set(before, after) if change.is_of_data() and change.action in ("Update:Replace", "Update:Delete")]


def denied(change):
    """Whether deploy/stack-policy.json refuses the change."""
    policy = json.loads((ROOT / "deploy/stack-policy.json").read_text())

    def concerns(statement):
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        kinds = statement.get("Condition", {}).get("StringEquals", {}).get("ResourceType")
        return (
            any(fnmatchcase(change.action, action) for action in actions)
            and fnmatchcase(f"LogicalResourceId/{change.name}", statement["Resource"])
            and (kinds is None or change.kind in kinds)
        )

    effects = {statement["Effect"] for statement in policy["Statement"] if concerns(statement)}
    return "Deny" in effects or "Allow" not in effects
