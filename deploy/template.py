"""Writes template.yaml, which everybody deploys, from the parts in deploy/template. `--check` compares instead.

A part has sections of CloudFormation as they are (Rules, Conditions, Resources, Outputs), parameters by the group that the
console shows them in, and entries of patterns.yaml (Functions, Queues, Alarms…), which become resources.

Anywhere in a part:
    !When [X, value]            value under the condition X, and AWS::NoValue otherwise
    {When: X, member: …}        the mapping under the condition X
    !Value X                    X of `Values` in patterns.yaml
    {Allow: a, For: Table}      a statement of a policy; also Deny. `Table` is the ARN of a resource of the template, and
                                `Bucket/folder/*` the ARN of what is in it. Sid, Principal and Condition are as in IAM.
                                `Through` names the services that a key is used through. A policy is a list of them.
    {Admit: Groups, Port: 443}  what lets a parameter's security groups in
    Outlives: stack             what is not deleted with the stack, or to be replaced
    !Json {…}                   the JSON text of a mapping
In rules and conditions:
    !Given X                    the parameter X has a value: a text, a member of a list, or anything but false where it is a flag.
                                A part that names the condition HasX does not declare it.
    Needs: {A: [B, C]}          the rule that A is given together with B and C
    Ordered: {…}                rules that one number is not above another
In parameters:
    Kind: flag                  one of `Kinds` in patterns.yaml, where the name does not end with it. A number is what has a
                                number as default.
    Value: {Default: 5, …}      members of the parameter that fit on one line
In functions:
    Uses: [keys, limits]        what functions have in common; the function's own members go on top
    Part: Ingest                what its conditions `Shifts…` and `Audits…` end with
    Knows: [BatchesTable]       variables: BATCHES_TABLE is `!Ref BatchesTable`
    Lists, Reads, Sends, Ends   prefixes of buckets, queues, queues, and what failed for good: see `Function` in patterns.yaml
    Runs: {Every: 5 minutes, …} a schedule, and the alarms Ran and Schedule behind the name in `Alarms`
    Routes: {Name: GET /path}   paths of both APIs, and $default one of the HTTP API alone
    Also: {Alarms: {…}}         entries of other sections that come with the function
In tables:
    Key: [pk, sk]               attributes that the key has, as has that of each of `Indexes`
    Expiry: ttl                 the attribute with the time at which an item goes
In alarms:
    Metric: Errors of DepthFunction
                                a metric of a resource by its namespace (`Namespaces`), or of a function's log lines:
                                `UsageLag of metering`
    Sum: [A and B of XTable]    the sum of metrics; `Emitted` is one of all functions
                                that emit it, `Functions` one of a product's
    Math: {id: expression, other: {Maximum: A of XQueue}}
                                metric math, whose first term is what the alarm is about
    Waiting: {Queue, What, Done}  messages that wait
    An alarm without a Condition has that of all that it watches; a queue's is that of the function that reads it.
In dashboards:
    Sum: {Errors: functions, Depth: [XQueue, reconcile]}
                                metrics by the statistic: of all functions, of resources, or of a function's log lines
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
# The functions that emit a metric in their log lines.
EMITTING = {emf["name"]: emf["services"] for metric in json.loads((ROOT / "deploy/metrics.json").read_text()) if (emf := metric["emf"])}
# In the order in which the console shows their parameters.
PARTS = "stack patterns gateway brokers api idempotency usage load-tests ingest drops events kafka database organisation dashboard".split()
SECTIONS = "AWSTemplateFormatVersion Transform Description Metadata Parameters Rules Conditions Mappings Globals Resources Outputs".split()
# Members of entries that are read here, besides those that the pattern has.
MEMBERS = {"Functions": "Product Part Uses Knows Lists Reads Sends Runs Ends Routes Also", "Alarms": "Sum Emitted Functions Math Waiting Cause", "Dashboards": "Rows"}
# Sections of parts that are read here, besides those and the patterns.
READ = "Patterns Namespaces Values Kinds Needs Ordered Uses".split()
TAGS = "And Condition Contains Equals FindInMap GetAtt Given If Join Not Or Ref Select Split Sub Value".split()
STATISTICS = "Average|Maximum|Minimum|SampleCount|Sum|p[0-9.]+"
HEADER = "# deploy/template.py makes this file of the parts in deploy/template. Change those.\n"


@dataclass(frozen=True)
class Tagged:
    """A short form of CloudFormation, such as `!Ref Api`."""

    tag: str
    value: object


NOTHING = Tagged("!Ref", "AWS::NoValue")


class Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor):
        """Refuses a name that a mapping has twice, of which YAML's loader would keep the last, and one that has no value on its line."""
        node = super().compose_mapping_node(anchor)
        names = [key.value for key, _ in node.value]
        twice = {name for name in names if names.count(name) > 1}
        assert not twice, f"{twice} are there twice{node.start_mark}"
        empty = [key.value for key, value in node.value if node.flow_style and value.value == "" and value.tag.endswith(":null")]
        assert not empty, f"{empty} have no value, as after a comma of a text without quotes{node.start_mark}"
        return node

    def tagged(self, suffix, node):
        assert suffix in TAGS, f"!{suffix} is no short form{node.start_mark}"
        if isinstance(node, yaml.ScalarNode):
            return Tagged(f"!{suffix}", self.construct_scalar(node))
        return Tagged(f"!{suffix}", getattr(self, f"construct_{node.id}")(node, deep=True))

    def when(self, node):
        """`!When [X, value]` is the value under the condition X, and nothing otherwise."""
        return Tagged("!If", [*self.construct_sequence(node, deep=True), NOTHING])

    def text(self, node):
        """`!Json` is the JSON text of a mapping, with the references that `!Sub` knows."""
        return Tagged("!Sub", json.dumps(self.construct_mapping(node, deep=True), indent=1) + "\n")


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True

    def increase_indent(self, flow=False, indentless=False):
        return super().increase_indent(flow, False)

    def serialize(self, node):
        for _, section in node.value:
            compact(section)
        super().serialize(node)

    def tagged(self, value):
        node = self.represent_data(value.value)
        node.tag = value.tag
        return node

    def choose_scalar_style(self):
        self.analysis = self.analysis or self.analyze_scalar(self.event.value)
        is_plain = self.analysis.allow_flow_plain if self.flow_level else self.analysis.allow_block_plain
        return "" if is_plain and (self.event.tag or "").startswith("!") else super().choose_scalar_style()

    def text(self, value):
        return self.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


Loader.add_constructor("!Json", Loader.text)
Loader.add_constructor("!When", Loader.when)
Loader.add_multi_constructor("!", Loader.tagged)
Dumper.add_representer(Tagged, Dumper.tagged)
Dumper.add_representer(str, Dumper.text)


def compact(node):
    """Puts short lists and mappings on one line, and returns the node's length there."""
    length = len(node.tag) if node.tag.startswith("!") else 0
    if isinstance(node, yaml.ScalarNode):
        return length + len(node.value) + 1000 * node.value.count("\n")
    parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
    length += sum([compact(part) + 2 for part in parts])
    node.flow_style = length < 90
    return length


def merge(one, other):
    """Both, where the other one wins. Lists are joined."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: merge(one[key], value) if key in one else value for key, value in other.items()}}
    return one + other if isinstance(one, list) and isinstance(other, list) else other


def checked(what, entry, members, *, needs_all=False):
    """An entry that has no other members than these, of which a misspelt one would be read by nothing."""
    members = set(members.split())
    assert entry.keys() <= members, f"{what} has no {entry.keys() - members}: {entry}"
    assert not needs_all or entry.keys() == members, f"{what} needs {members - entry.keys()}: {entry}"
    return entry


def arn(resource):
    """The ARN of a resource of the template, or of what is in it: `Bucket/folder/*`. Anything else is an ARN already."""
    match resource:
        case list():
            return [arn(each) for each in resource]
        case str() if re.match("[A-Z]", resource):
            name, slash, path = resource.partition("/")
            return Tagged("!Sub", f"${{{name}.Arn}}/{path}") if slash else Tagged("!GetAtt", f"{name}.Arn")
    return resource


def statement(effect, actions, resources, rest):
    """A statement of a policy, whose members are in the order in which AWS's documentation has them."""
    checked("A statement", rest, "Sid Principal Condition Through")
    members = {**rest, "Effect": effect, "Action": actions, "Resource": arn(resources)}
    if services := [Tagged("!Sub", f"{service}.${{AWS::Region}}.${{AWS::URLSuffix}}") for service in rest.get("Through", [])]:
        members["Condition"] = {"StringEquals": {"kms:ViaService": services if len(services) > 1 else services[0]}}
    return {member: members[member] for member in ("Sid", "Effect", "Principal", "Action", "Resource", "Condition") if member in members}


def spelt_out(key, value):
    """The members of a mapping that one of these parts stands for."""
    match key, value:
        case "Outlives", "stack":
            return {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
        case "PolicyDocument" | "AssumeRolePolicyDocument", list(statements):
            return {key: {"Version": "2012-10-17", "Statement": statements}}
    return {key: value}


def is_placeholder(node):
    return isinstance(node, str) and re.fullmatch("<[A-Z]\\w*>", node) is not None


def fill(node, values):
    """The node with the values of its placeholders. What has no value is left out, and `When` becomes a condition."""
    match node:
        case Tagged(tag, value):
            return Tagged(tag, fill(value, values))
        case list():
            filled = []
            for part in node:
                value = fill(part, values)
                filled += value if is_placeholder(part) and isinstance(value, list) else [value]
            return [value for value in filled if value is not None]
        case {"When": condition, **rest}:
            filled = fill(rest, values)
            return filled and Tagged("!If", [condition, filled, NOTHING])
        # Without actions it is left out.
        case {"Allow": actions, "For": resources, **rest}:
            actions = fill(actions, values)
            return actions and statement("Allow", actions, fill(resources, values), fill(rest, values))
        case {"Deny": actions, "For": resources, **rest}:
            return statement("Deny", *(fill(each, values) for each in (actions, resources, rest)))
        # What carries several groups is admitted by one of them.
        case {"Admit": groups, "Port": port, **rest}:
            source = Tagged("!Select", [0, Tagged("!Ref", groups)])
            return {**fill(rest, values), "IpProtocol": "tcp", "FromPort": port, "ToPort": port, "SourceSecurityGroupId": source}
        case dict():
            filled = {}
            for key, value in node.items():
                filled |= values.get(key[1:-1], {}) if is_placeholder(key) else spelt_out(fill(key, values), fill(value, values))
            return {key: value for key, value in filled.items() if value is not None}
        case str() if is_placeholder(node):
            return values.get(node[1:-1])
        case str():
            return re.sub("<(\\w+)>", lambda match: str(values[match[1]]), node)
    return node


def named(name, entry):
    """The entry with its name, and as a binary is named: ProductIngest is product-ingest."""
    return {**entry, "name": name, "binary": re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower()}


def parameter(name, entry, kinds):
    """A parameter with what its kind and its `Value` say. It is a number if its default is one."""
    entry = {**entry.pop("Value", {}), **entry}
    number = {"Type": "Number"} if isinstance(entry.get("Default"), int) else {}
    kind = entry.pop("Kind", next((end for end in kinds if name.endswith(end)), "text"))
    return {**kinds["text"], **kinds[kind], **number, **entry}


def given(name, parameters, section="Rules"):
    """Whether a parameter is given: of rules and conditions, each has functions for lists that the other has not."""
    value = Tagged("!Ref", name)
    if name.endswith("ReservedConcurrency"):
        return Tagged("!Not", [Tagged("!Or", [Tagged("!Equals", [value, ""]), Tagged("!Equals", [value, "0"])])])
    match parameters[name]:
        case {"Type": "CommaDelimitedList"} if section == "Rules":
            return Tagged("!Not", [{"Fn::EachMemberEquals": [value, ""]}])
        case {"Type": "CommaDelimitedList"}:
            value = Tagged("!Join", ["", value])
        case {"Default": "false" | "true"}:
            return Tagged("!Not", [Tagged("!Equals", [value, "false"])])
    return Tagged("!Not", [Tagged("!Equals", [value, ""])])


def resolved(node, tag, meaning):
    """The node with what each `!Tag X` in it means."""
    match node:
        case Tagged(found, value):
            return meaning(value) if found == tag else Tagged(found, resolved(value, tag, meaning))
        case list():
            return [resolved(each, tag, meaning) for each in node]
        case dict():
            return {key: resolved(value, tag, meaning) for key, value in node.items()}
    return node


def needs(name, others, parameters):
    """The rule that a parameter is given together with others."""
    said = [f"{other}=true" if parameters[other].get("Default") == "false" else other for other in others]
    says = f"{name} needs {' and '.join(', '.join(said).rsplit(', ', 1))}."
    assertions = [{"Assert": given(other, parameters), "AssertDescription": says} for other in others]
    return {"RuleCondition": given(name, parameters), "Assertions": assertions}


def ordered(name, entry, parameters):
    """Rules that a parameter is not above another. CloudFormation compares no numbers, so each value names those that fit it."""
    checked("An order", entry, "Least Most Says", needs_all=True)
    least, most = (parameters[entry[end]]["AllowedValues"] for end in ("Least", "Most"))
    for value in most:
        fitting = [str(other) for other in least if other <= value]
        if len(fitting) < len(least):
            assertion = {"Assert": Tagged("!Contains", [fitting, Tagged("!Ref", entry["Least"])]), "AssertDescription": entry["Says"]}
            yield f"{name}{value}", {"RuleCondition": Tagged("!Equals", [Tagged("!Ref", entry["Most"]), str(value)]), "Assertions": [assertion]}


def variable(name):
    """The variable of a parameter or resource: BATCHES_TABLE of BatchesTable, BATCHES_QUEUE_URL of BatchesReceivedQueue."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", re.sub("(Received|Ready)?Queue$", "QueueUrl", name)).upper()


def informed(entry):
    """An entry with a variable for each parameter and resource that its functions know, and each queue that they read or send to."""
    queues = entry.get("Sends", []) + [read["Queue"] for read in entry.get("Reads", {}).values()]
    known = {variable(name): Tagged("!Ref", name) for name in entry.get("Knows", []) + queues}
    return {**entry, "Variables": known | entry.get("Variables", {})}


def function(name, entry, parts):
    """A function's entry with all that it uses, knows, lists and reads."""
    values = {}
    for part in [*(parts["Uses"][used] for used in entry["Uses"]), entry]:
        values = merge(values, informed(part))
    values = fill(values, named(name, values))
    listing, reading, sending, running, ending = (parts["Patterns"]["Function"][part] for part in ("Lists", "Reads", "Sends", "Runs", "Ends"))
    for bucket, prefixes in values.get("Lists", {}).items():
        values = merge(values, fill(listing, {"Bucket": bucket, "Prefixes": prefixes}))
    for event, read in values.get("Reads", {}).items():
        checked("What a function reads", read, "Queue BatchSize Concurrency")
        values = merge(values, fill(reading, {"BatchSize": 1, **read, "event": event}))
    if "Sends" in values:
        values = merge(values, fill(sending, {"Queues": values["Sends"]}))
    if runs := values.get("Runs"):
        values = merge(values, fill(running, named(name, checked("What a function runs for", runs, "Every To Alarms", needs_all=True))))
    for failed, what in values.get("Ends", {}).items():
        values = merge(values, fill(ending, named(name, {"Failed": failed, "What": what})))
    return values


def keyed(names):
    """The schema of a key: what an item is found by, and what items of the same are sorted by."""
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]


def table(entry):
    """A table's entry with the attributes of its keys, all of which are texts."""
    indexes = entry.get("Indexes", {})
    names = [*entry["Key"], *(name for index in indexes.values() for name in index["Key"])]
    return {
        **entry,
        "Attributes": [{"AttributeName": name, "AttributeType": "S"} for name in names],
        "Key": keyed(entry["Key"]),
        "Indexes": [{"IndexName": name, "KeySchema": keyed(index["Key"]), "Projection": index["Projection"]} for name, index in indexes.items()] or None,
        "Expiry": {"AttributeName": entry["Expiry"], "Enabled": True} if "Expiry" in entry else None,
    }


def paths(functions, pattern, *, is_http):
    """The paths of an API, from the routes of all functions. A path is there where its function is."""
    found, conditions = {}, {}
    for name, values in functions.items():
        for answered in values.get("Routes", {}).values():
            method, _, path = answered.rpartition(" ")
            # No method: what no other route takes. A REST API has a response of its own for that.
            if not method and not is_http:
                continue
            segments = [{"name": segment, "in": "path", "required": True, "schema": {"type": "string"}} for segment in re.findall("{(\\w+)}", path)]
            given = {"Format": "2.0", "IsDefault": not method or None} if is_http else {}
            operation = fill(pattern, {"name": name, "Parameters": segments or None, **given})
            found.setdefault(path, {})[method.lower() or "x-amazon-apigateway-any-method"] = operation
            assert conditions.setdefault(path, values.get("Condition")) == values.get("Condition"), f"{path} is there under two conditions"
    return {path: {"When": conditions[path], **methods} if conditions[path] else methods for path, methods in found.items()}


def methods(routes):
    """The settings of a REST API's methods, from those of an HTTP API's routes."""
    for route, limits in routes.items():
        method, _, path = route.rpartition(" ")
        if method:
            yield {"HttpMethod": method, "ResourcePath": "/" + path.replace("/", "~1"), **limits}


def conditions_of(functions, resources):
    """The conditions of what has metrics: resources by their names, functions also by what their log lines call them."""
    conditions = {name: resource.get("Condition") for name, resource in resources.items()}
    for name, values in functions.items():
        sources = f"{name}Function", f"{name}FunctionSchedule", named(name, {})["binary"]
        conditions |= dict.fromkeys(sources, values.get("Condition"))
    return conditions


def measured(metric, source, namespaces):
    """A metric as a dashboard has it. One that is of no resource is of a function's log lines."""
    for end, (namespace, *dimensions) in namespaces.items():
        if source.endswith(end):
            return [namespace, metric, *fill(dimensions, {"name": source})]
    return ["IntegraHub", metric, "stack", "${AWS::StackName}", "service", source]


def watched(metric, namespaces):
    """A metric as an alarm has it, of `Errors of ProduceFunction`."""
    if isinstance(metric, dict):
        return metric
    namespace, name, *dimensions = measured(*metric.split(" of "), namespaces)
    pairs = zip(dimensions[::2], dimensions[1::2], strict=True)
    return {"Namespace": namespace, "MetricName": name, "Dimensions": [{"Name": dimension, "Value": reference(value)} for dimension, value in pairs]}


def reference(text):
    """A reference, of a text that is nothing but one."""
    name = text.removeprefix("${").removesuffix("}")
    return text if name == text else Tagged("!GetAtt" if "." in name else "!Ref", name)


def summed(entry, functions):
    """The metrics whose sum an alarm watches, by their ids."""
    metrics = {}
    for text in entry.get("Sum", []):
        names, _, source = text.partition(" of ")
        for name in names.split(" and "):
            metrics[f"metric{len(metrics)}"] = f"{name} of {source}"
    for metric in entry.get("Emitted", []):
        metrics |= {re.sub("-(.)", lambda match: match[1].upper(), service): f"{metric} of {service}" for service in EMITTING[metric]}
    for product, metric in entry.get("Functions", {}).items():
        metrics |= {name[0].lower() + name[1:]: f"{metric} of {name}Function" for name, values in functions.items() if values["Product"] == product}
    return metrics


def condition_of(source, conditions, namespaces):
    """The condition of what a metric is of: a resource, or a function by what its log lines call it."""
    assert source in conditions or source.endswith(tuple(namespaces)), f"there is no {source} that has metrics"
    return conditions.get(source)


def query(id, term, period, namespaces):
    """A term of an alarm's metric math: an expression, or a metric by its statistic."""
    if isinstance(term, (str, Tagged)):
        return {"Id": id, "Expression": term, "ReturnData": False}
    ((stat, metric),) = term.items()
    assert re.fullmatch(STATISTICS, stat), f"{stat} is no statistic"
    return {"Id": id, "ReturnData": False, "MetricStat": {"Metric": watched(metric, namespaces), "Period": period, "Stat": stat}}


def alarm(entry, functions, conditions, parts):
    """An alarm's entry with the metrics that it watches, under the condition that all of them have."""
    if "Waiting" in entry:
        waiting = {"Seconds": 900, "AtMost": 21600, **entry["Waiting"]}
        checked("An alarm on what waits", waiting, "Queue What Done Seconds AtMost", needs_all=True)
        entry = merge(fill(parts["Patterns"]["Alarm"]["Waiting"], waiting), entry)
    math = entry.get("Math", {})
    if metrics := summed(entry, functions):
        entry = {**parts["Patterns"]["Alarm"]["Sum"], **entry}
        # Not by `+`, which has no value where one of the metrics has none.
        math = {"sum": "SUM(METRICS())", **{id: {"Sum": metric} for id, metric in metrics.items()}}
    watches = {id: metric for id, term in math.items() if isinstance(term, dict) for metric in term.values()}
    if "Metric" in entry:
        watches["metric"] = entry["Metric"]
    # One that is written out has no condition.
    of = {id: condition_of(metric.split(" of ")[1], conditions, parts["Namespaces"]) if isinstance(metric, str) else None for id, metric in watches.items()}
    if "Metric" in entry:
        entry = {**entry, "Metric": watched(entry["Metric"], parts["Namespaces"])}
    entry = {"Condition": next(iter(of.values())) if len({*of.values()}) == 1 else None, **entry}
    if not math:
        return entry
    properties = {"Statistic": None, "Metrics": [], **entry.get("Properties", {})}
    period = properties.pop("Period", 60)
    for id, term in math.items():
        made = query(id, term, period, parts["Namespaces"])
        is_always_there = of.get(id) in (None, entry["Condition"])
        properties["Metrics"].append(made if is_always_there else {"When": of[id], **made})
    # The first term is what the alarm is about.
    del properties["Metrics"][0]["ReturnData"]
    return {**entry, "Properties": {**properties, "Period": None}}


def setting(name, value, parameters):
    """An entry of a version trigger, which takes no empty value."""
    match value:
        case Tagged("!Ref", "AWS::NoValue"):
            return value
        case Tagged("!If", [condition, *values]):
            return Tagged("!If", [condition, *(setting(name, each, parameters) for each in values)])
        case Tagged("!Ref", parameter) if parameters.get(parameter, {}).get("Default") == "":
            value = Tagged("!Sub", f"[${{{parameter}}}]")
    return {"Name": name, "Value": value}


def settings(trigger, functions, parameters):
    """What the versions of these functions keep, and a deployment may change. One value is there once."""
    found = dict(trigger["Settings"])
    for name, values in functions.items():
        condition = values.get("Condition")
        kept = {name: value for name, value in values["Variables"].items() if isinstance(value, Tagged)}
        of = named(name, {})["binary"].replace("-", "_").upper()
        kept |= {f"LOGS_OF_{of}": Tagged("!Ref", f"{name}Logs"), f"ROLE_OF_{of}": Tagged("!GetAtt", f"{name}Role.Arn")}
        for name, value in kept.items():
            if value not in found.values():
                found[name] = conditional(None if condition == trigger.get("Condition") else condition, value)
    return [setting(name, value, parameters) for name, value in sorted(found.items())]


def conditional(condition, value):
    """A member of a list that is there under a condition."""
    return Tagged("!If", [condition, value, NOTHING]) if condition else value


def causes(alarms):
    """The rule of the alarm that notifies: any of the others is raised. `Cause` of an entry says it otherwise, or is false."""
    raised = []
    for name, alarm in alarms.items():
        cause = alarm.get("Cause", f'ALARM("${{{name}Alarm}}")')
        if cause:
            raised.append(conditional(alarm.get("Condition"), Tagged("!Sub", cause)))
    return Tagged("!Join", [" OR ", raised])


def listed(shown, given=None):
    """The members of a list in JSON, with their conditions, where one condition is given."""
    by_condition = {}
    for condition, text in shown:
        by_condition.setdefault(None if condition == given else condition, []).append(text)
    if by_condition.keys() == {None}:
        return ", ".join(by_condition[None])
    return Tagged("!Join", [", ", [conditional(condition, Tagged("!Sub", ", ".join(texts))) for condition, texts in by_condition.items()]])


def panel(widget, width, given, functions, conditions, namespaces):
    """A widget, and the list of its metrics in JSON."""
    properties = {"title": widget["Title"], "region": "${AWS::Region}"}
    if "Query" in widget:
        checked("A widget", widget, "Title Query")
        return {"type": "log", "width": width, "height": 6, "properties": {**properties, "view": "table", "query": widget["Query"].strip()}}, ""
    ((stat, metrics),) = ((member, value) for member, value in widget.items() if member not in ("Title", "Period"))
    assert re.fullmatch(STATISTICS, stat), f"{stat} is no statistic"
    shown = []
    for metric, of in [pair for each in (metrics if isinstance(metrics, list) else [metrics]) for pair in each.items()]:
        for source in [f"{name}Function" for name in functions] if of == "functions" else of if isinstance(of, list) else [of]:
            condition, source = (source["When"], source["Of"]) if isinstance(source, dict) else (condition_of(source, conditions, namespaces), source)
            shown.append((condition, json.dumps(measured(metric, source, namespaces))))
    properties |= {"stat": stat, "period": widget.get("Period", 300), "metrics": ["<list>"]}
    return {"type": "metric", "width": width, "height": 6, "properties": properties}, listed(shown, given)


def dashboard(rows, alarms, *known):
    """The text of a dashboard: a row for each question, under a heading. CloudWatch places the widgets in their order."""
    arns = [(alarm.get("Condition"), f'"${{{name}Alarm.Arn}}"') for name, alarm in alarms.items()]
    texts = []
    for row in rows:
        checked("A row", row, "Question Condition Alarms Widgets")
        heading = {"type": "text", "width": 24, "height": 1, "properties": {"markdown": f"## {row['Question']}"}}
        widgets = [(heading, "")]
        if row.get("Alarms"):
            widgets.append(({"type": "alarm", "width": 24, "height": 5, "properties": {"title": "Alarms", "alarms": ["<list>"]}}, listed(arns)))
        panels = row.get("Widgets", [])
        widgets += [panel(widget, 24 // len(panels), row.get("Condition"), *known) for widget in panels]
        parts, lists = [], {}
        for number, (widget, members) in enumerate(widgets):
            if isinstance(members, Tagged):
                lists[f"List{number}"], members = members, f"${{List{number}}}"
            parts.append(json.dumps(widget).replace('"<list>"', members))
        text = ",\n".join(parts)
        texts.append(conditional(row.get("Condition"), Tagged("!Sub", [text, lists] if lists else text)))
    return Tagged("!Sub", ['{"widgets": [\n${Rows}\n]}\n', {"Rows": Tagged("!Join", [",\n", texts])}])


def collected():
    """The sections of all parts. No name is in two of them."""
    parts = {}
    for part in PARTS:
        for section, entries in yaml.load((ROOT / f"deploy/template/{part}.yaml").read_text(), Loader).items():
            twice = set(parts.get(section, ())) & set(entries)
            assert not twice, f"{twice} of {part}.yaml is in another part, too"
            parts[section] = {**parts.get(section, {}), **entries} if isinstance(entries, dict) else entries
    return parts


def generated():
    """The text of template.yaml."""
    parts = collected()
    checked("A part", dict.fromkeys(parts), " ".join([*SECTIONS, *READ, *parts["Patterns"]]))
    values = {}
    for name, value in parts.pop("Values").items():
        values[name] = resolved(value, "!Value", values.__getitem__)
    parts = resolved(parts, "!Value", values.__getitem__)
    groups = parts["Parameters"]
    parameters = {name: parameter(name, entry, parts["Kinds"]) for group in groups.values() for name, entry in group.items()}
    shown = [{"Label": {"default": label}, "Parameters": list(group)} for label, group in groups.items()]
    parts |= {"Parameters": parameters, "Metadata": {"AWS::CloudFormation::Interface": {"ParameterGroups": shown}}}
    for section in ("Rules", "Conditions"):
        parts[section] = resolved(parts[section], "!Given", lambda name, section=section: given(name, parameters, section))
    conditions = set(re.findall("Has\\w+", str(parts)))
    implied = {f"Has{name}": given(name, parameters, "Conditions") for name in parameters if f"Has{name}" in conditions}
    parts["Conditions"] = {**implied, **parts["Conditions"]}
    parts["Rules"] |= {f"{name}IsNotAlone": needs(name, others, parameters) for name, others in parts["Needs"].items()}
    for name, entry in parts["Ordered"].items():
        parts["Rules"] |= ordered(name, entry, parameters)
    # SAM decides by it what it generates, and reads no conditions.
    parts["Mappings"] = {"Shifts": {shift: {"Enabled": str(shift != "AllAtOnce").lower()} for shift in parameters["Rollout"]["AllowedValues"]}}

    functions = parts["Functions"] = {name: function(name, entry, parts) for name, entry in parts["Functions"].items()}
    for values in functions.values():
        for section, entries in values.get("Also", {}).items():
            parts[section] |= entries
    http, rest = (parts["Resources"][api]["Properties"] for api in ("Api", "RestApi"))
    for api in (http, rest):
        api["DefinitionBody"]["paths"] = paths(functions, parts["Patterns"]["Function"]["Routes"], is_http=api is http)
    rest["MethodSettings"] += methods(http["RouteSettings"])
    log = http["AccessLogSettings"]
    rest["AccessLogSetting"] = {**log, "Format": log["Format"].replace("$context.routeKey", "$context.resourcePath")}
    conditions = conditions_of(functions, parts["Resources"])
    readers = {read["Queue"]: values for values in functions.values() for read in values.get("Reads", {}).values()}
    parts["Queues"] = {name: fill(entry, named(name, {})) for name, entry in parts["Queues"].items()}
    for queue, reader in readers.items():
        parts["Queues"][queue.removesuffix("Queue")]["VisibilityTimeout"] = 6 * {**parts["Globals"]["Function"], **reader["Properties"]}["Timeout"]
    parts["Tables"] = {name: table(entry) for name, entry in parts["Tables"].items()}
    watched_under = conditions | {queue: reader.get("Condition") for queue, reader in readers.items()}
    parts["Alarms"] = {name: alarm(entry, functions, watched_under, parts) for name, entry in parts["Alarms"].items()}
    parts["Resources"]["AttentionAlarm"]["Properties"]["AlarmRule"] = causes(parts["Alarms"])
    for product, trigger in parts["VersionTriggers"].items():
        public = {name: values for name, values in functions.items() if values["Product"] == product and "public" in values["Uses"]}
        trigger["Settings"] = settings(trigger, public, parameters)
    for entry in parts["Dashboards"].values():
        entry["Body"] = dashboard(entry["Rows"], parts["Alarms"], functions, conditions, parts["Namespaces"])
    for kind, pattern in parts["Patterns"].items():
        members = {*re.findall("<([A-Z]\\w*)>", str(pattern)), *MEMBERS.get(kind, "").split()}
        for name, entry in parts.get(kind, {}).items():
            assert entry.keys() <= members, f"{kind} have no {entry.keys() - members}: {name}"
            for section, made in fill(pattern, named(name, entry)).items():
                parts[section] |= made
    template = fill({section: parts[section] for section in SECTIONS}, {})
    return HEADER + yaml.dump(template, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)


def main():
    target, text = ROOT / "template.yaml", generated()
    if "--check" not in sys.argv[1:]:
        target.write_text(text)
    elif target.read_text() != text:
        sys.exit("template.yaml is not what deploy/template makes it: run deploy/template.py.")


if __name__ == "__main__":
    main()
