"""What the published versions of the functions behind the API keep, and whether another value of it publishes new ones."""

import hashlib
import json
import re

from cloudformation import Evaluator, Needs, NotThere
from schemas import replacing

# What Lambda applies to the function as a whole, whichever version is called.
OF_THE_FUNCTION = {"ReservedConcurrentExecutions", "Tags"}


REFERENCE = re.compile("«(?:another )?([A-Za-z0-9]+)((?:\\.[A-Za-z0-9.]+)?)»")


def labels(text):
    """Every reference of a text."""
    return {f"«{name}{attribute}»" for name, attribute in REFERENCE.findall(text)}


class Evaluated(Evaluator):
    """Evaluates each property once, as text.

    With `like`, another stack of the same template, only what may differ from that one is evaluated: by its parameters, by one condition
    that is taken for the opposite, or by one reference whose value is another.
    """

    def __init__(self, template, parameters, like=None, condition=None, reference=None):
        super().__init__(template, parameters, "integrahub", 1)
        self.parameters, self.like, self.opposite, self.another = parameters, like, condition, reference
        self.needs = like.needs if like else Needs(template)
        self.texts, self.identities, self.entries, self.reached = {}, {}, {}, {}
        self.different = {condition, "«" + ".".join(part for part in reference or () if part) + "»"}
        if like:
            self.different |= {name for name, value in self.values.items() if value != like.values[name]}

    def condition(self, node):
        return super().condition(node) != (isinstance(node, str) and node == self.opposite)

    def reference(self, name, attribute=None):
        found = super().reference(name, attribute)
        return found.replace("«", "«another ") if (name, attribute) == self.another else found

    def properties(self, name):
        return self.template["Resources"][name].get("Properties", {})

    def is_like(self, decide, *arguments):
        """Whether nothing differs that decides about it in the other stack."""
        try:
            return self.like is not None and not self.different & decide(self.like, *arguments)
        except NotThere:
            return False

    def text(self, name, key):
        """A property, or nothing where it is left out."""
        if (name, key) not in self.texts:
            if self.is_like(Evaluated.decide_text, name, key):
                self.texts[name, key] = self.like.text(name, key)
            else:
                resolved = self.resolve({key: self.properties(name)[key]})
                self.texts[name, key] = json.dumps(resolved, sort_keys=True, ensure_ascii=False)
        return self.texts[name, key]

    def decide_text(self, name, key):
        """The parameters, conditions and references that decide about a property."""
        if (name, key) not in self.reached:
            self.reached[name, key] = self.needs.of(self.properties(name)[key]) | labels(self.text(name, key))
        return self.reached[name, key]

    def create_only(self, name):
        resource = self.template["Resources"][name]
        if resource["Type"] == "AWS::CloudFormation::CustomResource":
            return ""
        names = {path[0] for path in replacing(resource["Type"])}
        # All of them, or a reference to what is not there would not be noticed.
        texts = {key: self.text(name, key) for key in self.properties(name)}
        return "\n".join(text for key, text in texts.items() if key in names)

    def kept(self, function):
        parts = [self.text(function, key) for key in self.properties(function) if key not in OF_THE_FUNCTION]
        # A new function has no version yet that the next one could be like.
        return "\n".join([*parts, self.reference(function)])

    def replaced_with(self, text):
        """The text with each reference to a resource followed by what the properties are whose change replaces that resource."""
        return REFERENCE.sub(lambda match: match.group() + self.identity(match.group(1)), text)

    def identity(self, name):
        if name not in self.identities:
            text = self.replaced_with(self.create_only(name))
            self.identities[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.identities[name]

    def named(self, text):
        """Every reference of a text, and of the properties whose change replaces what it refers to."""
        found = labels(text)
        for name in {name for name, _ in REFERENCE.findall(text)}:
            if name not in self.reached:
                self.reached[name] = self.named(self.create_only(name))
            found |= self.reached[name]
        return found

    def entry(self, function, version):
        """What a version of the function keeps, and what makes CloudFormation publish one."""
        if function not in self.entries:
            if self.is_like(Evaluated.decide_entry, function, version):
                self.entries[function] = self.like.entry(function, version)
            else:
                self.entries[function] = self.replaced_with(self.kept(function)), (version, self.replaced_with(self.create_only(version)))
        return self.entries[function]

    def decide_entry(self, function, version):
        """The parameters, conditions and references that decide about an entry."""
        if ("entry", function) not in self.reached:
            found = self.named(self.kept(function)) | self.named(self.create_only(version))
            names = {name for each in found for name, _ in REFERENCE.findall(each)}
            keys = [(name, key) for name in names | {version} for key in self.properties(name)]
            self.reached["entry", function] = found.union(*(self.decide_text(*key) for key in keys))
        return self.reached["entry", function]


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


def published(stack, of=functions):
    """The entry of each function that is there."""
    return {function: stack.entry(function, version) for function, version in of(stack.template).items() if stack.is_there(function)}


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


def references(stack):
    """(name, attribute) of each resource that decides about what versions keep."""
    found = set().union(*(stack.named(stack.kept(function)) for function in functions(stack.template) if stack.is_there(function)))
    return {(name, attribute.removeprefix(".") or None) for each in found for name, attribute in REFERENCE.findall(each)}


def opposite_of(stack, condition):
    """Nothing where the template has no such combination."""
    try:
        return published(Evaluated(stack.template, stack.parameters, like=stack, condition=condition))
    except NotThere:
        return {}
