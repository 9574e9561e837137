"""The state machine of load tests: its definition, what it may do, and the quotas of Step Functions at the largest test.

Step Functions itself is not here. The definition is held to cfn-lint's schema and to the rules below, a model of it (asl.py) counts
the events of the longest histories, and the AWS stand-in runs it with a small program in place of load-step.
"""

import io
import json
import re
import sys
import time
import zipfile
from collections import Counter

import jsonschema
import pytest
from asl import ALL, Execution, Failed, delays, reached, states
from cloudformation import ROOT, deploy, source
from scenarios import BROKERS_ENDPOINTS, EVERYTHING, GATEWAY, IBM_MQ, LOAD_TESTS, ORGANISATION
from schemas import DATA
from standin import StandIn

# Quotas of Step Functions: events of one execution, bytes of an input, and executions of a Map at
# once.
EVENTS, BYTES, AT_ONCE = 25_000, 256 * 1024, 10_000
PLAN = "".join((ROOT / f"shared/gateway/load-test/src/{name}.rs").read_text() for name in ("plan/mod", "plan/window", "search/mod"))


def constant(pattern):
    """A number of the plan, in Rust."""
    (number,) = re.findall(pattern, PLAN)
    return int(number)


WINDOW = constant(r"LENGTH: Micros = Micros::from_seconds\((\d+)\)")
LEAD = constant(r"LEAD: Duration = Duration::from_secs\((\d+)\)")
DRAIN = constant(r"DRAIN: Micros = Micros::from_seconds\((\d+)\)")
PROBES = constant(r"MOST_PROBES: u32 = (\d+)")
WORKERS, HOURS = (source()["Parameters"][name]["MaxValue"] for name in ("LoadTestWorkers", "LoadTestHours"))
WINDOWS = -(-(HOURS * 3600 + DRAIN) // WINDOW)
TEST = {"tenant": "11111111000111", "testId": "01939b7e-1111-7000-8000-000000000001"}


def definition(parameters=LOAD_TESTS):
    return json.loads(deploy(parameters).properties("LoadTestMachine")["DefinitionString"])


STATES = dict(states(definition()))
STEP = STATES["Step"]


class LoadStep:
    """Plays load-step in the model: a test of so many workers and windows, of which each step fails so often."""

    def __init__(self, workers=1, windows=WINDOWS, failures=0, probes=1):
        self.workers, self.windows, self.failures, self.probes = workers, windows, failures, probes
        self.seen = []

    def __call__(self, event):
        self.seen.append(event)
        return getattr(self, event["action"])(event)

    def at(self, window):
        """As long as a time can be."""
        return {"window": window, "at": "2026-11-26T10:00:00.123456789Z"}

    def prepare(self, event):
        lanes = [{"lane": f"p{worker}{half}", **self.at(first)} for worker in range(self.workers) for first, half in enumerate("ab")]
        return {"tenant": event["tenant"], "testId": event["testId"], "run": event["run"], "lanes": lanes}

    def step(self, event):
        if event["attempt"] < self.failures:
            raise Failed("Lambda.TooManyRequestsException")
        following = event["window"] + 2
        lane = {name: event[name] for name in ("tenant", "testId", "run", "lane")}
        return {**lane, **self.at(following)} if following < self.windows else lane

    def close(self, event):
        following = event["run"] + 1
        return {"tenant": event["tenant"], "testId": event["testId"], "run": following, "more": following < self.probes}


def executed(function, **more):
    execution = Execution(definition(), function)
    execution.run({**TEST, "run": 0, **more})
    return execution


def actions(function):
    return [event["action"] for event in function.seen]


def test_the_definition_is_one_that_step_functions_takes():
    schema = json.loads((DATA / "other/step_functions/statemachine.json").read_text())
    jsonschema.Draft7Validator(schema).validate(definition())
    names = Counter(name for name, _ in states(definition()))
    assert set(names.values()) == {1}, "a name is one state's in the whole definition"
    assert all(len(name) <= 80 for name in names)
    assert len(STATES["Lanes"]["Label"]) <= 40
    assert STATES["Lanes"]["MaxConcurrency"] <= AT_ONCE
    # It is written for paths.
    assert "QueryLanguage" not in json.dumps(definition()) and "{%" not in json.dumps(definition())


def test_every_state_is_reached_and_every_way_ends():
    for part in (definition(), STATES["Lanes"]["ItemProcessor"]):
        assert reached(part) == set(part["States"])
        assert [state for state in part["States"].values() if state["Type"] in ("Succeed", "Fail")]
        for name, state in part["States"].items():
            assert ("Default" in state) == (state["Type"] == "Choice"), name


def test_every_task_is_tried_again_and_given_up_before_its_function_is_cut_off():
    cut_off = deploy(LOAD_TESTS).properties("LoadStepFunction")["Timeout"]
    tasks = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
    assert set(tasks) == {"Prepare", "Step", "Close", "CloseOnly"}
    for name, task in tasks.items():
        assert [retry["ErrorEquals"] for retry in task["Retry"]] == [ALL], name
        assert LEAD + WINDOW < task["TimeoutSeconds"] < cut_off, name
        assert task["Resource"] == "«LoadStepFunction.Arn»", name
        assert task["Parameters"]["action"] == name.removesuffix("Only").lower()
    # A test ends in order whatever failed: a lane that does is a hole in the report.
    for name in ("Prepare", "Lanes"):
        assert STATES[name]["Catch"] == [{"ErrorEquals": ALL, "ResultPath": "$.error", "Next": "Close"}], name
    assert STATES["Lanes"]["ToleratedFailurePercentage"] == 100
    assert {sum(delays(STATES[name]["Retry"][0])) for name in ("Step", "Close", "CloseOnly")} == {3362}, "seconds that a failure of Lambda may last"


def test_the_steps_of_a_test_are_each_lane_s_windows_once_and_in_their_order():
    function = LoadStep(workers=2, windows=5)
    execution = executed(function)
    assert actions(function) == ["prepare", *["step"] * 10, "close"]
    by_lane = {lane: [event["window"] for event in function.seen if event.get("lane") == lane] for lane in ("p0a", "p0b", "p1a", "p1b")}
    assert by_lane == {"p0a": [0, 2, 4], "p0b": [1, 3], "p1a": [0, 2, 4], "p1b": [1, 3]}
    assert all(event.items() >= {**TEST, "run": 0}.items() for event in function.seen)
    assert len(execution.children) == 4 and execution.events[-1] == "ExecutionSucceeded"


def test_each_attempt_says_which_it_is():
    function = LoadStep(windows=1, failures=3)
    executed(function)
    assert [event["attempt"] for event in function.seen if event.get("lane") == "p0a"] == [0, 1, 2, 3]


def test_a_lane_that_fails_for_good_does_not_end_the_others_nor_the_test():
    class Dead(LoadStep):
        def step(self, event):
            if event["lane"] == "p0b":
                raise Failed("Lambda.Unknown")
            return super().step(event)

    function = Dead(windows=6)
    execution = executed(function)
    assert Counter(child.events[-1] for child in execution.children) == {"ExecutionSucceeded": 1, "ExecutionFailed": 1}
    assert [event["window"] for event in function.seen if event.get("lane") == "p0a"] == [0, 2, 4]
    assert function.seen[-1] == {**TEST, "action": "close", "run": 0, "close": False}


def test_a_lane_goes_on_after_a_failure_of_most_of_an_hour():
    function = LoadStep(windows=6, failures=60)
    execution = executed(function)
    assert {child.events[-1] for child in execution.children} == {"ExecutionSucceeded"}
    assert [event["window"] for event in function.seen if event.get("lane") == "p0a" and event["attempt"] == 60] == [0, 2, 4]


def test_a_test_that_cannot_be_prepared_and_one_without_work_are_closed():
    class Refused(LoadStep):
        def prepare(self, event):
            raise Failed("Lambda.Unknown")

    class Empty(LoadStep):
        def prepare(self, event):
            return {**super().prepare(event), "lanes": []}

    refused, empty = Refused(), Empty()
    executed(refused), executed(empty)
    assert actions(refused) == ["prepare"] * 6 + ["close"]
    assert actions(empty) == ["prepare", "close"]
    assert refused.seen[-1] == empty.seen[-1] == {**TEST, "action": "close", "run": 0, "close": False}


def test_a_search_has_a_run_for_each_probe_and_one_that_only_closes_has_none():
    search, closing = LoadStep(windows=1, probes=3), LoadStep(probes=3)
    executed(search), executed(closing, close=True)
    assert [event["run"] for event in search.seen if event["action"] == "prepare"] == [0, 1, 2]
    assert closing.seen == [{**TEST, "action": "close", "run": 0, "close": True}], "whatever it answers"


def test_the_longest_lane_fits_into_the_history_of_an_execution():
    steps = -(-WINDOWS // 2)
    lane, _ = executed(LoadStep()).children
    once = len(executed(LoadStep(windows=1)).children[0].events)
    again = len(executed(LoadStep(windows=3)).children[0].events)
    assert again - once == 9, "events of a step"
    assert len(lane.events) == steps * 9 + 4 < 7_000
    failed = len(executed(LoadStep(windows=1, failures=1)).children[0].events)
    assert failed - once == 3, "events of an attempt that fails"
    # At worst each step fails as often as the time of an execution allows, which is soonest spent
    # by failures with short pauses after them.
    failures, left = 0, definition()["TimeoutSeconds"]
    for delay in sorted(delays(STEP["Retry"][0]) * steps):
        left -= delay
        failures += left >= 0
    assert len(lane.events) + 3 * failures == 20_512 < EVENTS


def test_the_longest_search_fits_into_the_history_of_an_execution():
    class Failing(LoadStep):
        """Each call but the last one of its kind fails."""

        def __call__(self, event):
            key = event["action"], event["run"]
            self.calls = getattr(self, "calls", Counter()) + Counter([key])
            if event["action"] != "step" and self.calls[key] <= STATES[event["action"].capitalize()]["Retry"][0]["MaxAttempts"]:
                raise Failed("Lambda.Unknown")
            return super().__call__(event)

    search = executed(Failing(windows=1, probes=PROBES))
    assert len(search.children) == 2 * PROBES and len(search.events) < EVENTS


def test_the_input_and_the_result_of_the_map_are_within_their_limit():
    function = LoadStep(workers=WORKERS)
    prepared = function.prepare({**TEST, "run": PROBES})
    assert len(prepared["lanes"]) == 2 * WORKERS == STATES["Lanes"]["MaxConcurrency"]
    assert len(json.dumps(prepared)) < BYTES / 2
    # Before ResultPath drops it, the Map's result is a list of what its executions return.
    assert STATES["Done"]["OutputPath"] is None
    assert len(json.dumps([{}] * len(prepared["lanes"]))) < BYTES


def test_the_longest_test_is_over_before_its_execution_times_out():
    assert HOURS * 3600 + PROBES * (DRAIN + WINDOW) < definition()["TimeoutSeconds"]


def test_without_the_parameter_there_is_nothing_to_pay_for():
    more = set(deploy(LOAD_TESTS).resources) - set(deploy(GATEWAY).resources)
    assert {"LoadTestsFunction", "LoadStepFunction", "LoadTestMachine", "LoadTestsBrokenAlarm", "LoadTestThrottlesAlarm"} <= more
    left = {name: resource["Type"] for name, resource in deploy(GATEWAY).resources.items() if re.match("LoadTest|LoadStep|Tests", name)}
    # Empty, and deleting a table would lose what it holds.
    assert left == {"TestsTable": "AWS::DynamoDB::Table", "LoadTestsLogs": "AWS::Logs::LogGroup", "LoadStepLogs": "AWS::Logs::LogGroup"}
    assert not [path for path in deploy(GATEWAY).properties("Api")["Body"]["paths"] if path.startswith("/tests")]


def test_load_step_reaches_brokers_as_mq_access_does():
    for parameters in (LOAD_TESTS, {**LOAD_TESTS, **BROKERS_ENDPOINTS, **IBM_MQ}, EVERYTHING):
        stack = deploy(parameters)
        step, access = stack.properties("LoadStepFunction"), stack.properties("MqAccessFunction")
        for name in ("Architectures", "Layers", "MemorySize", "VpcConfig"):
            assert step.get(name) == access.get(name), name
        same = {"HOME", "LD_LIBRARY_PATH", "MQCLNTCF", "MQTCPTIMEOUT", "MQ_OVERRIDE_DATA_PATH", "RESULTS_BUCKET"}
        ours, theirs = step["Environment"]["Variables"], access["Environment"]["Variables"]
        assert {name: ours.get(name) for name in same} == {name: theirs.get(name) for name in same}
        one, other = (set(stack.properties(f"{name}Role")["ManagedPolicyArns"]) for name in ("LoadStep", "MqAccess"))
        assert one == other
        # The cost of a test is computed elsewhere.
        variables = stack.properties("LoadTestsFunction")["Environment"]["Variables"]
        assert variables["LOAD_STEP_MEMORY_MB"] == str(step["MemorySize"])


def test_the_share_of_the_connections_is_reserved_where_it_is_said():
    for said, reserved in [("0", None), ("", None), ("20", "20")]:
        stack = deploy({**LOAD_TESTS, "LoadTestReservedConcurrency": said})
        assert stack.properties("LoadStepFunction").get("ReservedConcurrentExecutions") == reserved


def rights(statements, service):
    return {(action, str(resource)) for s in statements for action in listed(s["Action"]) if action.startswith(service) for resource in listed(s["Resource"])}


def listed(value):
    return value if isinstance(value, list) else [value]


def test_the_functions_and_the_machine_may_do_what_they_do_and_no_more():
    stack = deploy(LOAD_TESTS)
    executions = "arn:aws:states:us-east-1:111122223333:execution:«LoadTestMachine.Name»"
    (policy,) = stack.properties("LoadTestsRole")["Policies"]
    assert rights(policy["PolicyDocument"]["Statement"], "states:") == {
        ("states:StartExecution", "«LoadTestMachine»"),
        ("states:DescribeExecution", f"{executions}:*"),
        ("states:StopExecution", f"{executions}:*"),
    }
    assert stack.properties("LoadTestMachinePolicy")["Roles"] == ["«LoadTestMachineRole»"]
    statements = stack.properties("LoadTestMachinePolicy")["PolicyDocument"]["Statement"]
    assert rights(statements, "lambda:") == {("lambda:InvokeFunction", "«LoadStepFunction.Arn»")}
    # A Map starts and watches the executions of its items, which have the label in their names.
    assert rights(statements, "states:") == {
        ("states:StartExecution", "«LoadTestMachine»"),
        *((f"states:{action}Execution", f"{executions}{rest}") for action in ("Describe", "Stop") for rest in (":*", "/*")),
    }
    assert {action.split(":")[0] for action, _ in rights(statements, "")} == {"lambda", "states"}
    (trust,) = stack.properties("LoadTestMachineRole")["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "states.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}
    (policy,) = stack.properties("LoadStepRole")["Policies"]
    assert not rights(policy["PolicyDocument"]["Statement"], "states:") | rights(policy["PolicyDocument"]["Statement"], "lambda:")


def test_traces_of_the_machine_follow_those_of_the_functions():
    for tracing, traces in [("Active", True), ("PassThrough", False)]:
        stack = deploy({**LOAD_TESTS, "Tracing": tracing})
        assert stack.properties("LoadTestMachine")["TracingConfiguration"] == {"Enabled": traces}
        statements = stack.properties("LoadTestMachinePolicy")["PolicyDocument"]["Statement"]
        assert bool(rights(statements, "xray:")) == traces


def test_tests_and_reports_go_after_the_days_that_they_are_kept():
    """tests/template.rs compares the days with those of the functions."""
    stack = deploy(LOAD_TESTS)
    (rule,) = [rule for rule in stack.properties("ResultsBucket")["LifecycleConfiguration"]["Rules"] if rule.get("Prefix") == "tests/"]
    assert rule["ExpirationInDays"] == 30
    assert stack.properties("TestsTable")["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}


def test_a_broken_execution_is_noticed():
    stack = deploy({**LOAD_TESTS, **ORGANISATION})
    metrics = [each["MetricStat"]["Metric"] for each in stack.properties("LoadTestsBrokenAlarm")["Metrics"] if "MetricStat" in each]
    assert {metric["MetricName"] for metric in metrics} == {"ExecutionsFailed", "ExecutionsTimedOut"}
    assert all(metric["Dimensions"] == [{"Name": "StateMachineArn", "Value": "«LoadTestMachine»"}] for metric in metrics)
    assert "«LoadTestMachine»" in stack.properties("OperationsDashboard")["DashboardBody"]


# Plays load-step, and tells the log of each call when it began and ended. The test's id says what
# happens.
PLAYER = """#!{python}
import json, os, time, urllib.request
runtime = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/invocation/"
def answer(event):
    test, run = event["testId"], event["run"]
    if event["action"] == "prepare":
        assert test != "refused"
        at = time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime(time.time() + 1))
        lanes = [{{"lane": lane, "window": number % 2, "at": at}} for number, lane in enumerate(os.environ["LANES"].split())]
        return {{"tenant": event["tenant"], "testId": test, "run": run, "lanes": [] if test == "empty" else lanes}}
    if event["action"] == "close":
        return {{"tenant": event["tenant"], "testId": test, "run": run + 1, "more": test == "search" and run < 1}}
    assert event["lane"] != "p1b"
    assert event["lane"] != "p0a" or event["window"] or event["attempt"] > 1
    time.sleep(0.5)
    rest = {{name: event[name] for name in ("tenant", "testId", "run", "lane")}}
    return {{**rest, "window": event["window"] + 2, "at": "2026-01-01T00:00:00Z"}} if event["window"] < 2 else rest
while True:
    with urllib.request.urlopen(runtime + "next") as request:
        id, event, began = request.headers["Lambda-Runtime-Aws-Request-Id"], json.load(request), time.time()
    try:
        kind, body = "/response", answer(event)
    except AssertionError:
        kind, body = "/error", {{"errorMessage": "refused", "errorType": "Refused"}}
    with open(os.environ["CALLS"], "a") as log:
        log.write(json.dumps({{**event, "began": began, "ended": time.time(), "kind": kind}}) + "\\n")
    urllib.request.urlopen(urllib.request.Request(runtime + id + kind, json.dumps(body).encode(), method="POST")).read()
"""
LANES = "p0a p0b p1a p1b c0a c0b c1a c1b"


class Machine:
    """The machine in the stand-in, which waits for a thousandth of the time."""

    def __init__(self, standin, directory):
        self.calls, self.client = directory / "calls", standin.client("stepfunctions")
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            entry = zipfile.ZipInfo("bootstrap")
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, PLAYER.format(python=sys.executable))
        function = standin.client("lambda").create_function(
            FunctionName="load-step",
            Runtime="provided.al2023",
            Handler="bootstrap",
            Role="arn:aws:iam::000000000000:role/load-step",
            Timeout=120,
            Code={"ZipFile": code.getvalue()},
            Environment={"Variables": {"CALLS": str(self.calls), "LANES": LANES}},
        )
        text = json.dumps(definition()).replace("\\u00abLoadStepFunction.Arn\\u00bb", function["FunctionArn"])
        role = "arn:aws:iam::000000000000:role/load-tests"
        self.arn = self.client.create_state_machine(name="load-tests", definition=text, roleArn=role)["stateMachineArn"]

    def run(self, test, **more):
        """The calls of an execution, in the order in which they ended."""
        given = {"tenant": "t", "testId": test, "run": 0, **more}
        execution = self.client.start_execution(stateMachineArn=self.arn, name=f"{test}-{len(more)}", input=json.dumps(given))["executionArn"]
        end = time.monotonic() + 600
        while (found := self.client.describe_execution(executionArn=execution))["status"] == "RUNNING" and time.monotonic() < end:
            time.sleep(0.1)
        assert found["status"] == "SUCCEEDED", found
        return [call for call in map(json.loads, self.calls.read_text().splitlines()) if call["testId"] == test and call["began"] >= found["startDate"].timestamp()]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    directory = tmp_path_factory.mktemp("standin")
    standin = StandIn(directory, SFN_WAIT_SCALE="0.001")
    yield Machine(standin, directory)
    standin.stop()


def test_the_stand_in_runs_the_lanes_of_a_test_side_by_side(machine):
    calls = machine.run("whole")
    assert (calls[0]["action"], calls[-1]["action"]) == ("prepare", "close")
    steps = [call for call in calls if call["action"] == "step"]
    done = {lane: [call["window"] for call in steps if call["lane"] == lane and call["kind"] == "/response"] for lane in LANES.split()}
    assert done == {lane: [] if lane == "p1b" else [0, 2] if lane.endswith("a") else [1, 3] for lane in LANES.split()}
    attempts = {lane: [call["attempt"] for call in steps if call["lane"] == lane] for lane in ("p0a", "p1b")}
    assert attempts == {"p0a": [0, 1, 2, 0], "p1b": [*range(61)]}, "one goes on at its third attempt, one is given up"
    assert max(sum(other["began"] <= call["began"] < other["ended"] for other in steps) for call in steps) >= 5
    assert all(set(call) - {"began", "ended", "kind"} == {"action", "tenant", "testId", "run", "lane", "window", "attempt"} for call in steps)


def test_the_stand_in_closes_what_has_nothing_to_run_and_goes_on_with_a_search(machine):
    assert [call["action"] for call in machine.run("refused")] == ["prepare"] * 6 + ["close"]
    assert [call["action"] for call in machine.run("empty")] == ["prepare", "close"]
    assert [(call["action"], call["close"]) for call in machine.run("gone", close=True)] == [("close", True)]
    search = [(call["action"], call["run"], call.get("close")) for call in machine.run("search") if call["action"] != "step"]
    assert search == [("prepare", 0, None), ("close", 0, False), ("prepare", 1, None), ("close", 1, False)]
