"""A model of Step Functions: walks a definition, calls a function for each task, and writes down the history of the execution."""

import re

# A retry or a catcher of these tests names all errors.
ALL = ["States.ALL"]


class Failed(Exception):
    """A task, or a state that cannot go on."""


def states(definition):
    """Every state by its name, those of Maps included."""
    for name, state in definition["States"].items():
        yield name, state
        if "ItemProcessor" in state:
            yield from states(state["ItemProcessor"])


def successors(state):
    """The names that a state names as the next one."""
    following = [state.get("Next"), state.get("Default")]
    following += [rule["Next"] for rule in state.get("Choices", []) + state.get("Catch", [])]
    return {name for name in following if name}


def reached(definition):
    """The states on any way from the first one."""
    found, new = set(), {definition["StartAt"]}
    while new:
        found |= new
        new = set().union(*(successors(definition["States"][name]) for name in new)) - found
    return found


def delays(retry):
    """Seconds before each attempt after the first one."""
    every = [retry["IntervalSeconds"] * retry["BackoffRate"] ** number for number in range(retry["MaxAttempts"])]
    return [min(delay, retry["MaxDelaySeconds"]) for delay in every]


def found(path, data, context):
    """What a path names, or `Failed`."""
    value, path = (context, path[1:]) if path.startswith("$$") else (data, path)
    try:
        for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
            value = value[name] if name else value[int(index)]
    except (KeyError, IndexError):
        raise Failed(f"States.Runtime: nothing is at {path}") from None
    return value


def selected(template, data, context):
    """A payload template with the values of its paths."""
    return {key.removesuffix(".$"): found(value, data, context) if key.endswith(".$") else value for key, value in template.items()}


def holds(rule, data, context):
    if "And" in rule:
        return all(holds(part, data, context) for part in rule["And"])
    if "IsPresent" in rule:
        try:
            found(rule["Variable"], data, context)
        except Failed:
            return not rule["IsPresent"]
        return rule["IsPresent"]
    return found(rule["Variable"], data, context) is rule["BooleanEquals"]


class Execution:
    """An execution with its history, and those of the items of its Maps. `function` fails a task by `Failed`."""

    def __init__(self, definition, function):
        self.definition, self.function = definition, function
        self.events, self.children = [], []

    def run(self, data):
        self.events.append("ExecutionStarted")
        name = self.definition["StartAt"]
        try:
            while name:
                state = self.definition["States"][name]
                self.events.append(f"{state['Type']}StateEntered")
                data, name = getattr(self, state["Type"].lower())(state, data)
                self.events.append(f"{state['Type']}StateExited")
        except Failed:
            self.events.append("ExecutionFailed")
            raise
        self.events.append("ExecutionSucceeded")
        return data

    def choice(self, state, data):
        return data, next((rule["Next"] for rule in state["Choices"] if holds(rule, data, {})), state["Default"])

    def wait(self, state, data):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", found(state["TimestampPath"], data, {}))
        return data, state["Next"]

    def succeed(self, state, data):
        return data if state.get("OutputPath", "$") else {}, None

    def caught(self, state, data, failure):
        """What follows on a failure for good."""
        for catcher in state.get("Catch", []):
            assert catcher["ErrorEquals"] == ALL and catcher["ResultPath"] == "$.error"
            return {**data, "error": {"Error": str(failure)}}, catcher["Next"]
        raise failure

    def task(self, state, data):
        (retry,) = state["Retry"]
        assert retry["ErrorEquals"] == ALL
        for attempt in range(retry["MaxAttempts"] + 1):
            self.events += ["LambdaFunctionScheduled", "LambdaFunctionStarted"]
            try:
                result = self.function(selected(state["Parameters"], data, {"State": {"RetryCount": attempt}}))
            except Failed as failure:
                self.events.append("LambdaFunctionFailed")
                last = failure
            else:
                self.events.append("LambdaFunctionSucceeded")
                return result, state["Next"]
        return self.caught(state, data, last)

    def map(self, state, data):
        self.events.append("MapRunStarted")
        items = found(state["ItemsPath"], data, {})
        assert len(items) <= state["MaxConcurrency"]
        failed = 0
        for index, item in enumerate(items):
            child = Execution(state["ItemProcessor"], self.function)
            self.children.append(child)
            try:
                child.run(selected(state["ItemSelector"], data, {"Map": {"Item": {"Index": index, "Value": item}}}))
            except Failed:
                failed += 1
        if failed * 100 > state["ToleratedFailurePercentage"] * len(items):
            self.events.append("MapRunFailed")
            return self.caught(state, data, Failed("States.ExceedToleratedFailureThreshold"))
        self.events.append("MapRunSucceeded")
        assert state["ResultPath"] is None
        return data, state["Next"]
