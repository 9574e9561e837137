"""Alarms: each function is watched, what each reads is there, one notifies for all, and none is raised by a first deployment."""

import json
import re

import pytest
from cloudformation import ROOT, deploy, references, watched
from scenarios import EVERYTHING, EXISTING_DATABASE, GATEWAY, NEW_DATABASE, ORGANISATION, SCENARIOS

TOPIC = ORGANISATION["AlarmTopicArn"]
CATALOGUE = ROOT / "deploy/metrics.json"
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
RUNBOOKS = (ROOT / "docs/runbook-ingest.md").read_text() + RUNBOOK
# What each section of the two pages says, in this order.
PARTS = ["**Means.**", "**Look.**", "**Do.**", "**Over**"]


def alarms(parameters):
    return {name: alarm["Properties"] for name, alarm in deploy(parameters).of("AWS::CloudWatch::Alarm").items()}


def metrics(parameters):
    """(namespace, metric, dimensions) of what the alarms look at."""
    every = [metric for alarm in alarms(parameters).values() for metric in watched(alarm)]
    return {(m["Namespace"], m["MetricName"], tuple((d["Name"], d["Value"]) for d in m["Dimensions"])) for m in every}


def expressions(alarm):
    return {query["Id"]: query["Expression"] for query in alarm.get("Metrics", []) if "Expression" in query}


def is_sum(alarm):
    return list(expressions(alarm)) == ["sum"]


@pytest.mark.parametrize("name", ["Errors", "Throttles"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_function_has_alarms_on_errors_and_throttles(name, scenario):
    found = metrics(SCENARIOS[scenario])
    for function in deploy(SCENARIOS[scenario]).of("AWS::Lambda::Function"):
        assert ("AWS/Lambda", name, (("FunctionName", f"«{function}»"),)) in found, function


def test_an_alarm_on_several_metrics_is_one_that_cloudwatch_takes():
    for name, alarm in alarms(EVERYTHING).items():
        if "Metrics" not in alarm:
            continue
        assert not {"Namespace", "MetricName", "Dimensions", "Statistic", "Period"} & set(alarm), name
        queries = {query["Id"]: query for query in alarm["Metrics"]}
        assert len(queries) == len(alarm["Metrics"]), name
        assert all(re.fullmatch("[a-z][A-Za-z0-9_]*", id) for id in queries), name
        assert [id for id, query in queries.items() if query.get("ReturnData", True)] == [alarm["Metrics"][0]["Id"]], name
        assert 1 <= len(watched(alarm)) <= 10, name
        assert len({query["MetricStat"]["Period"] for query in queries.values() if "MetricStat" in query}) == 1, name
        for expression in expressions(alarm).values():
            named = set(re.findall("[a-z][A-Za-z0-9_]*", expression))
            assert named <= set(queries), f"{name}: {expression}"


def test_a_sum_has_a_value_where_one_of_its_metrics_has_none():
    summing = {name: alarm for name, alarm in alarms(EVERYTHING).items() if is_sum(alarm)}
    assert {"GatewayErrorsAlarm", "IngestThrottlesAlarm", "TableThrottlesAlarm", "StoreUnavailableAlarm", "KeyAbuseAlarm"} <= set(summing)
    for name, alarm in summing.items():
        # Not a sum by `+`, which has no value in a period in which one of the metrics has none.
        assert expressions(alarm) == {"sum": "SUM(METRICS())"}, name
        assert all(query["MetricStat"]["Stat"] == "Sum" for query in alarm["Metrics"][1:]), name


def test_few_requests_that_failed_are_no_rate():
    """One of one is all of them. Each expression asks for a least number of requests, and of failed ones."""
    for name, period in (("ApiErrorsAlarm", 300), ("ApiErrorsSlowAlarm", 3600)):
        alarm = alarms(GATEWAY)[name]
        assert expressions(alarm)["burn"] == "IF(requests >= 50 AND failed >= 5, failed / requests / 0.001, 0)"
        assert {query["MetricStat"]["Period"] for query in alarm["Metrics"] if "MetricStat" in query} == {period}
        assert int(alarm["DatapointsToAlarm"]) > 1, "one bad period is no outage"


def test_a_consume_that_waits_is_no_slow_request():
    for parameters in (GATEWAY, EVERYTHING):
        for namespace, name, dimensions in metrics(parameters):
            assert (namespace, name) != ("AWS/ApiGateway", "Latency")
            assert name != "Duration" or dimensions == (("FunctionName", "«ProduceFunction»"),)


def test_messages_that_wait_behind_others_raise_no_alarm():
    """A nightly load takes hours. Its messages are old, and some are processed all the time."""
    old = {name: alarm for name, alarm in alarms(EVERYTHING).items() if "ApproximateAgeOfOldestMessage" in json.dumps(alarm)}
    assert len(old) == 5
    for name, alarm in old.items():
        ((_, bound),) = re.findall(r"^IF\((processed) == 0 OR age >= (\d+), age, 0\)$", expressions(alarm)["waiting"])
        assert int(bound) >= 4 * int(alarm["Threshold"]), name
        assert expressions(alarm)["processed"] == "SUM([zero, deleted])", name
        assert {metric["MetricName"] for metric in watched(alarm)} == {"ApproximateAgeOfOldestMessage", "NumberOfMessagesDeleted"}
        assert len({json.dumps(metric["Dimensions"]) for metric in watched(alarm)}) == 1, name


def test_connections_that_upsert_concurrency_asks_for_raise_no_alarm():
    alarm = alarms({**NEW_DATABASE, "UpsertConcurrency": "256"})["DatabaseManyConnectionsAlarm"]
    assert expressions(alarm) == {"others": "connections - 2 * 256"} and int(alarm["Threshold"]) == 100
    assert [metric["MetricName"] for metric in watched(alarm)] == ["DatabaseConnections"]


def test_receipts_that_are_in_flight_under_a_steady_load_raise_no_alarm():
    alarm = alarms(EVERYTHING)["ReceiptsRetriedAlarm"]
    result, *metrics = alarm["Metrics"]
    # Whatever is in flight, none waits for another attempt while others are deleted.
    assert result == {"Id": "retried", "Expression": "IF(FILL(published, 0) == 0, waiting, 0)"}
    assert {metric["Id"]: (metric["MetricStat"]["Metric"]["MetricName"], metric["MetricStat"]["Stat"]) for metric in metrics} == {
        "waiting": ("ApproximateNumberOfMessagesNotVisible", "Minimum"),
        "published": ("NumberOfMessagesDeleted", "Sum"),
    }
    assert {metric["MetricStat"]["Period"] for metric in metrics} == {300} and int(alarm["EvaluationPeriods"]) == 3
    assert all(metric["ReturnData"] is False for metric in metrics)


def test_the_api_the_tables_the_database_and_the_schedule_are_watched():
    watched = {(namespace, name, dimensions[0][1]) for namespace, name, dimensions in metrics(EVERYTHING)}
    stack = deploy(EVERYTHING)
    assert {("AWS/ApiGateway", "5xx", "«Api»"), ("AWS/ApiGateway", "Count", "«Api»")} <= watched
    for table in stack.of("AWS::DynamoDB::Table"):
        assert ("AWS/DynamoDB", "WriteThrottleEvents", f"«{table}»") in watched
        # Nothing reads the table of limits by itself.
        assert ("AWS/DynamoDB", "ReadThrottleEvents", f"«{table}»") in watched or table == "LimitsTable"
    assert ("AWS/RDS", "ACUUtilization", "«DatabaseCluster»") in watched
    for rule in stack.of("AWS::Events::Rule"):
        assert ("AWS/Events", "FailedInvocations", f"«{rule}»") in watched


@pytest.mark.parametrize("parameters", [GATEWAY, EXISTING_DATABASE, EVERYTHING], ids=["gateway", "existing database", "everything"])
def test_missing_data_are_a_fault_where_a_schedule_guarantees_them_and_nowhere_else(parameters):
    breaching = {name for name, alarm in alarms(parameters).items() if alarm["TreatMissingData"] == "breaching"}
    assert breaching == {name for name in alarms(parameters) if name in ("ReconcileSilentAlarm", "UsageBehindAlarm")}
    assert "UsageBehindAlarm" in breaching


def test_a_function_on_a_schedule_that_is_silent_notifies_and_a_new_one_does_not():
    silent, ran = (alarms(EVERYTHING)[name] for name in ("ReconcileSilentAlarm", "ReconcileRanAlarm"))
    assert int(silent["Period"]) * int(silent["EvaluationPeriods"]) >= 2 * 5 * 60, "a run that comes late is no silence"
    # A new alarm has no data, and this one stays INSUFFICIENT_DATA until the first run, and OK ever
    # after.
    assert ran["TreatMissingData"] == "ignore" and ran["ComparisonOperator"] == "LessThanThreshold"
    assert watched(ran)[0]["Dimensions"] == watched(silent)[0]["Dimensions"] == [{"Name": "FunctionName", "Value": "«ReconcileFunction»"}]
    assert '(ALARM("«ReconcileSilentAlarm»") AND OK("«ReconcileRanAlarm»"))' in rule(EVERYTHING)
    counted = alarms(EVERYTHING)["UsageRanAlarm"]
    assert counted["TreatMissingData"] == "ignore" and watched(counted)[0]["Dimensions"] == [{"Name": "FunctionName", "Value": "«MeteringFunction»"}]
    assert '(ALARM("«UsageBehindAlarm»") AND OK("«UsageRanAlarm»"))' in rule(EVERYTHING)


def rule(parameters):
    (attention,) = deploy(parameters).of("AWS::CloudWatch::CompositeAlarm").values()
    return attention["Properties"]["AlarmRule"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_one_alarm_notifies_for_all_and_they_are_silent(scenario):
    parameters = {**SCENARIOS[scenario], "AlarmTopicArn": TOPIC}
    for name, alarm in alarms(parameters).items():
        assert not {"AlarmActions", "OKActions", "InsufficientDataActions"} & set(alarm), name
    attention = deploy(parameters).properties("AttentionAlarm")
    assert attention["AlarmActions"] == attention["OKActions"] == [TOPIC]
    # CodeDeploy looks at those of a rollout.
    causes = {name for name in alarms(parameters) if not name.endswith("RolloutAlarm")}
    assert references(rule(parameters)) == causes and len(causes) <= 100
    # A name has up to 255 characters, of which the stack's has up to 128.
    assert len(rule(parameters)) + 128 * rule(parameters).count("(") < 10_240
    assert "AttentionAlarm" not in deploy({**parameters, "AlarmTopicArn": ""}).resources


def test_what_an_alarm_reads_of_ours_is_emitted_by_that_function_under_that_name():
    emitted = {metric["emf"]["name"]: metric["emf"] for metric in json.loads(CATALOGUE.read_text()) if metric["emf"]}
    ours = [m for alarm in alarms({**EVERYTHING, **ORGANISATION}).values() for m in watched(alarm) if m["Namespace"] == "IntegraHub"]
    assert ours
    for metric in ours:
        stack, service = metric["Dimensions"]
        assert stack == {"Name": "stack", "Value": "integrahub"} and service["Name"] == "service"
        assert service["Value"] in emitted[metric["MetricName"]]["services"], metric


def test_an_alarm_on_a_metric_of_ours_watches_every_function_that_emits_it():
    emitting = {metric["emf"]["name"]: set(metric["emf"]["services"]) for metric in json.loads(CATALOGUE.read_text()) if metric["emf"]}
    for name, alarm in alarms({**EVERYTHING, **ORGANISATION}).items():
        found = {}
        for metric in watched(alarm):
            if metric["Namespace"] == "IntegraHub":
                found.setdefault(metric["MetricName"], set()).add(metric["Dimensions"][1]["Value"])
        assert found == {metric: emitting[metric] for metric in found}, name


def test_what_the_dashboard_shows_of_ours_is_emitted_by_that_function():
    emitted = {metric["emf"]["name"]: metric["emf"] for metric in json.loads(CATALOGUE.read_text()) if metric["emf"]}
    body = json.loads(deploy(EVERYTHING).properties("OperationsDashboard")["DashboardBody"])
    shown = [metric for widget in body["widgets"] for metric in widget["properties"].get("metrics", []) if metric[0] == "IntegraHub"]
    assert shown
    for _, name, *dimensions in shown:
        assert dimensions[:3] == ["stack", "integrahub", "service"]
        assert dimensions[3] in emitted[name]["services"], (name, dimensions)


def test_the_runbook_has_a_section_for_each_alarm_that_says_what_to_do():
    sections = re.findall(r"^###? (`.+?)$(.*?)(?=^##|\Z)", RUNBOOKS, re.MULTILINE | re.DOTALL)
    named = [name for title, _ in sections for name in re.findall(r"\w+", title)]
    assert len(named) == len(set(named))
    there = {name.removesuffix("Alarm") for parameters in SCENARIOS.values() for name in alarms({**parameters, "Rollout": "Linear10PercentEvery1Minute"})}
    of_rollouts = {name for name in there if name.endswith("Rollout")}
    assert set(named) == there - of_rollouts | {"Rollout"}
    for title, text in sections:
        places = [text.find(part) for part in PARTS]
        assert -1 not in places and places == sorted(places), title
        assert "`" in text.split("**Look.**")[1].split("**Do.**")[0], f"{title} has nothing to paste"


def test_the_runbook_searches_for_events_that_the_code_logs():
    searched = {event for query in re.findall("`logs '(.*?)'`", RUNBOOKS, re.DOTALL) for event in re.findall(r'"([a-z_]+\.[a-z_]+)"', query)}
    code = "".join(path.read_text() for folder in ("functions", "shared") for path in (ROOT / folder).rglob("src/**/*.rs"))
    assert searched
    assert {event for event in searched if f'"{event}"' not in code} == set()


def test_the_runbook_says_which_causes_were_tried():
    tried = RUNBOOK.split("## Tried and untried")[1]
    named = set(re.findall(r"`(\w+)`", tried))
    assert named <= {name.removesuffix("Alarm") for name in alarms({**EVERYTHING, **ORGANISATION})}
    assert "Untried are the causes of all others" in tried
