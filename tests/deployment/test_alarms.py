"""Alarms: each function is watched, none is raised by a first deployment, and each says when it is over."""

import re
from fnmatch import fnmatchcase

import pytest
from cloudformation import ROOT, deploy, watched
from scenarios import EVERYTHING, EXISTING_DATABASE, GATEWAY, ORGANISATION, SCENARIOS

TOPIC = ORGANISATION["AlarmTopicArn"]


def alarms(parameters):
    return {name: alarm["Properties"] for name, alarm in deploy(parameters).of("AWS::CloudWatch::Alarm").items()}


def metrics(parameters):
    """(namespace, metric, dimensions) of what the alarms look at."""
    every = [metric for alarm in alarms(parameters).values() for metric in watched(alarm)]
    return {(m["Namespace"], m["MetricName"], tuple((d["Name"], d["Value"]) for d in m["Dimensions"])) for m in every}


@pytest.mark.parametrize("name", ["Errors", "Throttles"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_function_has_alarms_on_errors_and_throttles(name, scenario):
    found = metrics(SCENARIOS[scenario])
    for function in deploy(SCENARIOS[scenario]).of("AWS::Lambda::Function"):
        assert ("AWS/Lambda", name, (("FunctionName", f"«{function}»"),)) in found, function


def test_an_alarm_on_several_metrics_is_one_that_cloudwatch_takes():
    summing = {name: alarm["Metrics"] for name, alarm in alarms(EVERYTHING).items() if "Metrics" in alarm and name != "ReceiptsRetriedAlarm"}
    assert {"GatewayErrorsAlarm", "IngestThrottlesAlarm", "TableThrottlesAlarm"} <= set(summing)
    for name, (result, *metrics) in summing.items():
        # Not a sum by `+`, which has no value in a period in which one of the metrics has none.
        assert result == {"Id": "sum", "Expression": "SUM(METRICS())"}, name
        assert 1 < len(metrics) <= 10, name
        assert all(metric["ReturnData"] is False and metric["MetricStat"]["Stat"] == "Sum" for metric in metrics), name
        assert len({metric["Id"] for metric in metrics}) == len(metrics), name
        assert all(re.fullmatch("[a-z][A-Za-z0-9_]*", metric["Id"]) for metric in metrics), name
        assert not {"Namespace", "MetricName", "Dimensions", "Statistic", "Period"} & set(alarms(EVERYTHING)[name]), name


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
    assert {("AWS/ApiGateway", "5xx", "«Api»"), ("AWS/ApiGateway", "Latency", "«Api»")} <= watched
    for table in stack.of("AWS::DynamoDB::Table"):
        assert {("AWS/DynamoDB", "ReadThrottleEvents", f"«{table}»"), ("AWS/DynamoDB", "WriteThrottleEvents", f"«{table}»")} <= watched
    assert ("AWS/RDS", "ACUUtilization", "«DatabaseCluster»") in watched
    for rule in stack.of("AWS::Events::Rule"):
        assert ("AWS/Events", "FailedInvocations", f"«{rule}»") in watched


@pytest.mark.parametrize("parameters", [GATEWAY, EXISTING_DATABASE, EVERYTHING], ids=["gateway", "existing database", "everything"])
def test_no_alarm_is_raised_before_there_are_data(parameters):
    for name, alarm in alarms(parameters).items():
        assert alarm["TreatMissingData"] != "breaching", name


def test_a_function_on_a_schedule_tells_when_it_is_no_longer_invoked():
    alarm = alarms(EVERYTHING)["ReconcileSilentAlarm"]
    # With `breaching` it would be raised by each first deployment.
    assert alarm["TreatMissingData"] == "missing"
    assert alarm["InsufficientDataActions"] == [TOPIC]
    assert int(alarm["Period"]) >= 2 * 5 * 60, "a run that comes late is no silence"


def test_an_alarm_notifies_when_it_is_raised_and_when_it_is_over():
    for name, alarm in alarms(EVERYTHING).items():
        assert alarm["AlarmActions"] == [TOPIC], name
        assert alarm["OKActions"] == [TOPIC], name
    for name, alarm in alarms(GATEWAY).items():
        assert not {"AlarmActions", "OKActions", "InsufficientDataActions"} & set(alarm), name


def test_the_page_for_operators_has_a_row_for_each_alarm():
    table = (ROOT / "docs/operate.md").read_text().split("## Alarms")[1].split("\n\n")[1]
    rows = [name for line in table.splitlines() for name in re.findall(r"`([\w*]+)`", line.split(" | ")[0])]
    for alarm in alarms({**EVERYTHING, **ORGANISATION}):
        assert any(fnmatchcase(alarm.removesuffix("Alarm"), row) for row in rows), alarm
