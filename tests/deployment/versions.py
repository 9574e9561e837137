"""What the published versions of the functions behind the API keep, and whether another value of it publishes new ones."""

import json
import re

from cloudformation import Evaluator, NotThere
from schemas import replacing

# What Lambda applies to the function as a whole, whichever version is called.
OF_THE_FUNCTION = {"ReservedConcurrentExecutions", "Tags"}


class Changed(Evaluator):
    """Evaluates as if one condition were the opposite, or one reference's value another."""

    def __init__(self, template, parameters, condition=None, reference=None):
        super().__init__(template, parameters, "integrahub", 1)
        self.opposite, self.another = condition, reference
        self.identities = {}

    def condition(self, node):
        return super().condition(node) != (isinstance(node, str) and node == self.opposite)

    def reference(self, name, attribute=None):
        found = super().reference(name, attribute)
        return found.replace("«", "«another ") if (name, attribute) == self.another else found

    def replaced_with(self, value):
        """The value with each reference to a resource followed by the properties whose change replaces that resource."""
        if isinstance(value, dict):
            return {key: self.replaced_with(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.replaced_with(part) for part in value]
        if not isinstance(value, str):
            return value
        return re.sub("«(?:another )?([A-Za-z0-9]+)(?:\\.[A-Za-z0-9.]+)?»", lambda match: match.group() + self.identity(match.group(1)), value)

    def identity(self, name):
        if name not in self.identities:
            self.identities[name] = json.dumps(self.replaced_with(self.create_only(name)), sort_keys=True, ensure_ascii=False)
        return self.identities[name]

    def create_only(self, name):
        resource = self.template["Resources"][name]
        if resource["Type"] == "AWS::CloudFormation::CustomResource":
            return {}
        properties = self.resolve(resource.get("Properties", {}))
        names = {path[0] for path in replacing(resource["Type"])}
        return {key: value for key, value in properties.items() if key in names}


def versions(template):
    """The version that a function's alias calls, by the function's name."""
    aliases = [resource["Properties"] for resource in template["Resources"].values() if resource["Type"] == "AWS::Lambda::Alias"]
    return {alias["FunctionName"]["Ref"]: alias["FunctionVersion"]["Fn::GetAtt"][0] for alias in aliases}


def functions(template):
    """The same of the functions behind the API."""
    every = versions(template)
    # Its version only tells the custom resource that there is new code; the function itself is
    # called.
    every.pop("MigrateFunction")
    return every


def published(template, parameters, of=functions, **changed):
    """Of each function that is there: what a version keeps, and what makes CloudFormation publish one."""
    evaluator = Changed(template, parameters, **changed)
    result = {}
    for function, version in of(template).items():
        if evaluator.is_there(function):
            properties = {key: value for key, value in template["Resources"][function]["Properties"].items() if key not in OF_THE_FUNCTION}
            kept = evaluator.replaced_with(evaluator.resolve(properties))
            # A new function has no version yet that the next one could be like.
            kept["itself"] = evaluator.reference(function)
            result[function] = kept, (version, evaluator.replaced_with(evaluator.create_only(version)))
    return result


def faults(before, after):
    """Functions whose version would keep what is no longer said, or would be published without anything new, which Lambda refuses."""
    found = []
    for function in set(before) & set(after):
        (kept, version), (newly_kept, new_version) = before[function], after[function]
        if kept != newly_kept and version == new_version:
            found.append(f"{function} keeps what it had")
        if kept == newly_kept and version != new_version:
            found.append(f"{function} is published without a change")
    return found


def references(published):
    """(name, attribute) of each resource that a function's properties name."""
    text = json.dumps([kept for kept, _ in published.values()], ensure_ascii=False)
    return {(name, attribute or None) for name, attribute in re.findall(r"«([A-Za-z0-9]+)(?:\.([A-Za-z0-9.]+))?»", text)}


def opposite_of(template, parameters, condition):
    """Nothing where the template has no such combination."""
    try:
        return published(template, parameters, condition=condition)
    except NotThere:
        return {}
