"""Who publishes events, where to, and by which way out of a VPC."""

import json

import pytest
from cloudformation import ROOT, allowed, deploy
from scenarios import DATABASE_ENDPOINTS, EVENTS, EXISTING_DATABASE, GATEWAY, SCENARIOS

OF_BATCHES = {"Chunker", "Upsert", "DeadLetter", "Receipts", "Reconcile"}
PUBLISHERS = {*OF_BATCHES, "Doubts", "Metering"}
BOTH = {**EXISTING_DATABASE, **EVENTS}


def variables(stack):
    """The variables about events, by the function that has them."""
    found = {}
    for name, function in stack.of("AWS::Lambda::Function").items():
        given = function["Properties"].get("Environment", {}).get("Variables", {})
        of_events = {variable: value for variable, value in given.items() if variable.startswith("EVENT_")}
        if of_events:
            found[name.removesuffix("Function")] = of_events
    return found


def attached(stack):
    return {name.removesuffix("Role") for name, role in stack.of("AWS::IAM::Role").items() if "«EventAccess»" in role["Properties"].get("ManagedPolicyArns", [])}


def statements(stack):
    return [(each["Action"], each["Resource"]) for each in stack.properties("EventAccess")["PolicyDocument"]["Statement"]]


def test_the_functions_that_end_batches_or_find_doubts_publish_and_no_others():
    stack = deploy(BOTH)
    assert attached(stack) == PUBLISHERS
    assert variables(stack) == {name: {"EVENT_BUS": EVENTS["EventBusArn"], "EVENT_TOPIC_ARN": EVENTS["EventTopicArn"]} for name in PUBLISHERS}
    assert statements(stack) == [
        ("events:PutEvents", EVENTS["EventBusArn"]),
        ("sns:Publish", EVENTS["EventTopicArn"]),
        (["kms:Decrypt", "kms:GenerateDataKey"], EVENTS["FurtherKmsKeyArns"].split(",")),
    ]
    for name, role in stack.of("AWS::IAM::Role").items():
        assert "PutEvents" not in str(role) and "sns:Publish" not in str(role), name


def test_the_function_that_refuses_dropped_files_publishes_too():
    stack = deploy({**BOTH, "AcceptDrops": "true"})
    assert attached(stack) == set(variables(stack)) == {*PUBLISHERS, "DropIntake"}
    assert "VpcConfig" not in stack.properties("DropIntakeFunction")


@pytest.mark.parametrize("name", ["events on a bus", "MSK"])
def test_the_bucket_tells_of_payloads_by_a_rule_where_events_have_a_destination(name):
    stack = deploy(SCENARIOS[name])
    assert stack.properties("PayloadBucket")["NotificationConfiguration"]["EventBridgeConfiguration"] == {"EventBridgeEnabled": True}
    rule = stack.properties("ReceiptsRule")
    assert rule["EventPattern"]["detail"] == {"bucket": {"name": ["«PayloadBucket»"]}, "object": {"key": [{"prefix": "incoming/"}]}}
    assert rule["Targets"] == [{"Id": "receipts", "Arn": "«ReceiptsQueue.Arn»"}]
    tells = stack.properties("ReceiptsQueuePolicy")["PolicyDocument"]["Statement"][0]
    assert tells["Principal"] == {"Service": "events.amazonaws.com"} and tells["Condition"] == {"ArnEquals": {"aws:SourceArn": "«ReceiptsRule.Arn»"}}
    assert stack.properties("ReceiptsUndeliveredAlarm")["Dimensions"] == [{"Name": "RuleName", "Value": "«ReceiptsRule»"}]


@pytest.mark.parametrize("name", ["existing database", "MSK, ingest switched off", "events, ingest switched off"])
def test_nothing_tells_of_payloads_where_no_event_of_a_batch_is_published(name):
    stack = deploy(SCENARIOS[name])
    assert not {"ReceiptsFunction", "ReceiptsRole", "ReceiptsRule", "ReceiptsAgeAlarm"} & set(stack.resources)
    assert "EventBridgeConfiguration" not in stack.properties("PayloadBucket")["NotificationConfiguration"]
    assert [each["Sid"] for each in stack.properties("ReceiptsQueuePolicy")["PolicyDocument"]["Statement"]] == ["TlsOnly"]


def test_a_right_is_given_for_what_is_there():
    on_a_bus = deploy(SCENARIOS["events on a bus"])
    assert statements(on_a_bus) == [("events:PutEvents", EVENTS["EventBusArn"])]
    assert variables(on_a_bus)["Upsert"] == {"EVENT_BUS": EVENTS["EventBusArn"]}
    on_a_topic = deploy(SCENARIOS["events on a topic, in a VPC with endpoints"])
    assert statements(on_a_topic) == [("sns:Publish", EVENTS["EventTopicArn"])]
    assert variables(on_a_topic)["Upsert"] == {"EVENT_TOPIC_ARN": EVENTS["EventTopicArn"]}


def test_nothing_is_made_or_paid_where_no_event_is_published():
    stack = deploy(EXISTING_DATABASE)
    made = {"EventAccess", "EventsBehindAlarm", "DoubtsFunction", "DoubtsRole", "DoubtsBehindAlarm", "DatabaseEventBusEndpoint", "DatabaseEventTopicEndpoint"}
    assert not made & set(stack.resources)
    assert variables(stack) == {} and attached(stack) == set()


def test_without_the_ingest_the_doubts_of_the_gateway_are_published_alone():
    stack = deploy(SCENARIOS["events, ingest switched off"])
    assert attached(stack) == set(variables(stack)) == {"Doubts", "Metering"}
    assert not {"EventsBehindAlarm", "DatabaseEventBusEndpoint", "DatabaseEventTopicEndpoint"} & set(stack.resources)


def test_the_stream_of_records_comes_again_until_it_is_published():
    stack = deploy(BOTH)
    assert stack.properties("IdempotencyTable")["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    [mapping] = [each["Properties"] for each in stack.of("AWS::Lambda::EventSourceMapping").values() if each["Properties"]["FunctionName"] == "«DoubtsFunction»"]
    assert mapping["EventSourceArn"] == "«IdempotencyTable.StreamArn»"
    assert (mapping["StartingPosition"], mapping["MaximumRetryAttempts"]) == ("TRIM_HORIZON", -1)
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert "MaximumRecordAgeInSeconds" not in mapping, "the stream alone decides when a change is forgotten"


def matches(pattern, value):
    """Whether a filter of Lambda matches, of those forms that the template uses."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(matches(each, value.get(name)) for name, each in pattern.items())

    def one(wanted):
        if not isinstance(wanted, dict):
            return wanted == value
        if "exists" in wanted:
            return wanted["exists"] is (value is not None)
        return value is not None and value not in wanted["anything-but"]

    return any(one(wanted) for wanted in pattern)


def changes(sample):
    return json.loads((ROOT / f"events/gateway/doubts/{sample}.json").read_text())["Records"]


def filters():
    [mapping] = [each["Properties"] for each in deploy(BOTH).of("AWS::Lambda::EventSourceMapping").values() if each["Properties"]["FunctionName"] == "«DoubtsFunction»"]
    return [json.loads(each["Pattern"]) for each in mapping["FilterCriteria"]["Filters"]]


@pytest.mark.parametrize("sample", ["failed-in-doubt", "commit-in-doubt", "taken-over", "expired", "key-used-again"])
def test_each_change_that_brings_a_doubt_starts_an_invocation(sample):
    assert all(any(matches(pattern, change) for pattern in filters()) for change in changes(sample))


def test_the_changes_of_a_request_that_succeeds_start_none():
    assert len(filters()) <= 5, "AWS allows no more"
    claimed = next(change for change in changes("no-doubt") if change["eventName"] == "INSERT")
    image = claimed["dynamodb"]["NewImage"]
    states = [image, {**image, "checkpoint": {"N": "100"}}, {**image, "checkpoint": {"N": "200"}}, {**image, "checkpoint": {"N": "200"}, "status": {"S": "COMPLETED"}}]
    later = [{**claimed, "eventName": "MODIFY", "dynamodb": {"OldImage": old, "NewImage": new}} for old, new in zip(states, states[1:])]
    again = {**claimed, "eventName": "MODIFY", "dynamodb": {"OldImage": states[-1], "NewImage": image}}
    gone = {**claimed, "eventName": "REMOVE", "dynamodb": {"OldImage": states[-1]}}
    for change in [claimed, *later, again, gone]:
        assert not any(matches(pattern, change) for pattern in filters()), change


def test_events_that_cannot_be_published_are_in_a_queue_with_an_alarm_also_without_the_ingest():
    stack = deploy(SCENARIOS["events, ingest switched off"])
    assert stack.properties("DoubtsFunction")["Environment"]["Variables"]["UNHANDLED_QUEUE_URL"] == "«UnhandledQueue»"
    assert "«UnhandledQueue.Arn»" in json.dumps(stack.properties("DoubtsRole")["Policies"], ensure_ascii=False)
    assert "UnhandledDepthAlarm" in stack.resources
    assert "UnhandledDepthAlarm" not in deploy(GATEWAY).resources


def test_an_alarm_watches_changes_that_wait():
    alarm = deploy(BOTH).properties("DoubtsBehindAlarm")
    assert (alarm["MetricName"], int(alarm["Threshold"]), int(alarm["Period"])) == ("IteratorAge", 900_000, 900)


@pytest.mark.parametrize(
    "parameters, services",
    [
        (EXISTING_DATABASE, {"sqs", "secretsmanager"}),
        ({**EXISTING_DATABASE, "EventBusArn": EVENTS["EventBusArn"]}, {"sqs", "secretsmanager", "events"}),
        ({**EXISTING_DATABASE, "EventTopicArn": EVENTS["EventTopicArn"]}, {"sqs", "secretsmanager", "sns"}),
        (BOTH, {"sqs", "secretsmanager", "events", "sns"}),
    ],
    ids=["none", "bus", "topic", "both"],
)
def test_a_vpc_with_endpoints_has_one_for_each_destination(parameters, services):
    stack = deploy({**parameters, **DATABASE_ENDPOINTS})
    endpoints = [endpoint["Properties"] for endpoint in stack.of("AWS::EC2::VPCEndpoint").values()]
    interfaces = [endpoint for endpoint in endpoints if endpoint["VpcEndpointType"] == "Interface"]
    assert {endpoint["ServiceName"].rsplit(".", 1)[1] for endpoint in interfaces} == services
    for endpoint in interfaces:
        assert endpoint["PrivateDnsEnabled"] is True
        assert endpoint["SecurityGroupIds"] == ["«DatabaseEndpointsSecurityGroup.GroupId»"] or endpoint["SecurityGroupIds"] == ["«DatabaseEndpointsSecurityGroup»"]


def test_an_alarm_watches_events_that_stay():
    alarm = deploy(BOTH).properties("EventsBehindAlarm")
    assert (alarm["MetricName"], int(alarm["Threshold"])) == ("EventsBehindMinutes", 15)
    assert {each["Name"]: each["Value"] for each in alarm["Dimensions"]}["service"] == "reconcile"


@pytest.mark.parametrize(
    "parameter, value, is_allowed",
    [
        ("EventBusArn", EVENTS["EventBusArn"], True),
        ("EventBusArn", "arn:aws-cn:events:cn-north-1:111122223333:event-bus/a/b.c_d-e", True),
        ("EventBusArn", "news", False),
        ("EventBusArn", EVENTS["EventTopicArn"], False),
        ("EventTopicArn", EVENTS["EventTopicArn"], True),
        ("EventTopicArn", f"{EVENTS['EventTopicArn']}.fifo", True),
        ("EventTopicArn", f"{EVENTS['EventTopicArn']}.other", False),
        ("EventTopicArn", "arn:aws:sqs:us-east-1:111122223333:news", False),
    ],
)
def test_values_that_name_nothing_are_refused(parameter, value, is_allowed):
    assert allowed(parameter, value) is is_allowed
