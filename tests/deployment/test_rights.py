"""Each function may do what it does, and no more: what the comparison of policies with calls finds, and what holds without it."""

import base64
import importlib.util
import json
import re
import subprocess

import pytest
import rights
from cloudformation import ROOT, deploy
from scenarios import EVERYTHING

spec = importlib.util.spec_from_file_location("aws_calls", ROOT / "local/aws_calls.py")
aws_calls = importlib.util.module_from_spec(spec)
spec.loader.exec_module(aws_calls)

# Their actions know no resource, or none that exists before the call.
WITHOUT_NAMES = {
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "ec2:UnassignPrivateIpAddresses",
}


def test_a_right_names_its_resource_where_its_service_has_names():
    stack = deploy({**EVERYTHING, "Tracing": "Active"})
    for role in stack.of("AWS::IAM::Role"):
        for action, resource in rights.allowed(stack, role):
            assert "*" not in action, (role, action)
            if resource.split(":")[-1].strip("/") == "*" and "execution:" not in resource:
                assert action in WITHOUT_NAMES, (role, action, resource)


def test_the_page_has_the_rights_of_the_template():
    how = "run .local/python/bin/python tests/deployment/rights.py write"
    assert rights.PAGE.read_text() == rights.page(rights.table()), how


def test_the_tests_that_the_page_names_are_there():
    rules = rights.PAGE.read_text().partition(rights.HEADING)[0]
    named = set(re.findall("`([a-z0-9]+(?:_[a-z0-9]+){3,})`", rules))
    found = subprocess.run(["git", "grep", "-ohE", "fn [a-z0-9_]+", "--", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(named) > 20
    assert named <= {line.removeprefix("fn ") for line in found.stdout.splitlines()}


FUNCTION = "ChunkerFunction"
HAS = {(FUNCTION, "sqs:SendMessage", "ChunksReadyQueue"), (FUNCTION, "s3:GetObject", "PayloadBucket/incoming/*")}
CALLS = {(FUNCTION, "sqs:SendMessage", "ChunksReadyQueue"), (FUNCTION, "s3:GetObject", "PayloadBucket/incoming/*/*")}


def group(kind, *rights, reason="because"):
    return {kind: [{"reason": reason, "rights": list(rights)}]}


def test_rights_that_are_used_and_calls_that_are_permitted_are_no_fault():
    assert rights.faults(HAS, CALLS, {}) == []


@pytest.mark.parametrize(
    "more",
    [
        (FUNCTION, "sqs:SendMessage", "UnhandledQueue"),
        (FUNCTION, "sqs:DeleteMessage", "ChunksReadyQueue"),
        (FUNCTION, "s3:GetObject", "PayloadBucket/chunks/*"),
        ("UpsertFunction", "sqs:SendMessage", "ChunksReadyQueue"),
    ],
)
def test_a_call_that_no_statement_of_the_function_permits_is_a_fault(more):
    [fault] = rights.faults(HAS, {*CALLS, more}, {})
    assert " ".join(more) in fault and "no statement" in fault
    assert rights.faults(HAS, {*CALLS, more}, group("beyond", " ".join(more))) == []
    [fault] = rights.faults(HAS, CALLS, group("beyond", " ".join(more)))
    assert "no call needs" in fault


def test_a_right_that_nothing_uses_needs_a_reason_and_the_list_only_shrinks():
    idle = f"{FUNCTION} sqs:SendMessage ChunksReadyQueue"
    calls = {call for call in CALLS if call[1] != "sqs:SendMessage"}
    [fault] = rights.faults(HAS, calls, {})
    assert f'"{idle}",' in fault
    assert rights.faults(HAS, calls, group("unused", idle)) == []
    [fault] = rights.faults(HAS, calls, group("unused", idle, reason=" "))
    assert "without a reason" in fault
    [fault] = rights.faults(HAS, CALLS, group("unused", idle))
    assert "a test uses now" in fault
    for kind in ("unused", "sometimes"):
        [fault] = rights.faults(HAS, CALLS, group(kind, f"{FUNCTION} sqs:SendMessage GoneQueue"))
        assert "no policy has" in fault


def test_a_right_that_some_runs_use_is_no_fault_either_way():
    some = group("sometimes", f"{FUNCTION} sqs:SendMessage ChunksReadyQueue")
    assert rights.faults(HAS, CALLS, some) == []
    assert rights.faults(HAS, {call for call in CALLS if call[1] != "sqs:SendMessage"}, some) == []


STREAM = "arn:aws:dynamodb:us-east-1:000000000000:table/integrahub-BatchesTable-1/stream/2026-11-27T02:00:00.000"
NAMES = {
    "BatchesTable": "integrahub-BatchesTable-1",
    "ChunksReadyQueue": "http://127.0.0.1:4566/000000000000/integrahub-ChunksReadyQueue-1",
    "PayloadBucket": "integrahub-payloads-1",
    "MqAccessFunction": "integrahub-MqAccessFunction-1",
    "AuditEventLogs": "/integrahub/audit-1",
    "LoadTestMachine": "arn:aws:states:us-east-1:000000000000:stateMachine:LoadTestMachine-1",
}


@pytest.mark.parametrize(
    "service, target, body, found",
    [
        ("dynamodb", "DynamoDB_20120810.Query", '{"TableName":"integrahub-BatchesTable-1","IndexName":"awaited-index"}', ["dynamodb:Query BatchesTable/index/awaited-index"]),
        ("dynamodb", "DynamoDB_20120810.PutItem", '{"Item":{"a":{"S":"{\\"TableName\\":\\"another\\"}"}},"TableName":"integrahub-BatchesTable-1"}', ["dynamodb:PutItem BatchesTable"]),
        (
            "dynamodb",
            "DynamoDB_20120810.TransactWriteItems",
            '{"TransactItems":[{"Put":{"TableName":"integrahub-BatchesTable-1"}},{"ConditionCheck":{"TableName":"other"}}]}',
            ["dynamodb:PutItem BatchesTable", "dynamodb:ConditionCheckItem other"],
        ),
        (
            "dynamodb",
            "DynamoDBStreams_20120810.GetRecords",
            json.dumps({"ShardIterator": base64.urlsafe_b64encode(json.dumps({"arn": STREAM}).encode()).decode()}),
            ["dynamodb:GetRecords BatchesTable.StreamArn"],
        ),
        ("sqs", "AmazonSQS.SendMessageBatch", json.dumps({"QueueUrl": NAMES["ChunksReadyQueue"]}), ["sqs:SendMessage ChunksReadyQueue"]),
        ("secretsmanager", "secretsmanager.GetSecretValue", '{"SecretId":"mq/app"}', ["secretsmanager:GetSecretValue secret:mq/app-??????"]),
        (
            "secretsmanager",
            "secretsmanager.GetSecretValue",
            '{"SecretId":"arn:aws:secretsmanager:us-east-1:000000000000:secret:local/database-AbCdEf"}',
            ["secretsmanager:GetSecretValue secret:local/database-??????"],
        ),
        ("states", "AWSStepFunctions.StartExecution", json.dumps({"stateMachineArn": NAMES["LoadTestMachine"]}), ["states:StartExecution LoadTestMachine"]),
        (
            "states",
            "AWSStepFunctions.StopExecution",
            '{"executionArn":"arn:aws:states:us-east-1:000000000000:execution:LoadTestMachine-1:7"}',
            ["states:StopExecution execution:LoadTestMachine.Name:7"],
        ),
        ("events", "AWSEvents.PutEvents", '{"Entries":[{"EventBusName":"news"}]}', ["events:PutEvents event-bus/news"]),
        ("sns", "", "Action=PublishBatch&TopicArn=arn%3Aaws%3Asns%3Aus-east-1%3A000000000000%3Anews", ["sns:Publish news"]),
        ("logs", "Logs_20140328.PutLogEvents", '{"logGroupName":"/integrahub/audit-1"}', ["logs:PutLogEvents AuditEventLogs"]),
        ("ssm", "AmazonSSM.GetParameter", '{"Name":"/mq/one"}', ["ssm:GetParameter parameter/mq/one"]),
        ("tagging", "ResourceGroupsTaggingAPI.GetResources", "{}", ["tagging:GetResources *"]),
    ],
)
def test_a_call_is_the_right_that_it_needs(service, target, body, found):
    assert recorded("POST", "/", "", {"x-amz-target": target}, service, body) == found


@pytest.mark.parametrize(
    "method, path, query, headers, found",
    [
        ("GET", "/integrahub-payloads-1/incoming/2026/a", "", {}, ["s3:GetObject PayloadBucket/incoming/*/a"]),
        ("HEAD", "/partner-files/drop/1/a.json", "versionId=7", {}, ["s3:GetObjectVersion partner-files/drop/*/a.json"]),
        ("GET", "/integrahub-payloads-1", "list-type=2&prefix=incoming", {}, ["s3:ListBucket PayloadBucket"]),
        ("PUT", "/integrahub-payloads-1/errors/1", "partNumber=1&uploadId=2", {}, ["s3:PutObject PayloadBucket/errors/*"]),
        ("DELETE", "/integrahub-payloads-1/errors/1", "uploadId=2", {}, ["s3:AbortMultipartUpload PayloadBucket/errors/*"]),
        ("PUT", "/integrahub-payloads-1/drop/1", "tagging=", {}, ["s3:PutObjectTagging PayloadBucket/drop/*"]),
        (
            "PUT",
            "/integrahub-payloads-1/incoming/1",
            "",
            {"x-amz-tagging": "a=b", "x-amz-copy-source": "partner-files/drop/1"},
            ["s3:PutObject PayloadBucket/incoming/*", "s3:PutObjectTagging PayloadBucket/incoming/*", "s3:GetObject partner-files/drop/*"],
        ),
        ("PUT", "/integrahub-payloads-1", "policy=", {}, ["s3:PUT policy PayloadBucket"]),
    ],
)
def test_a_call_of_s3_is_the_right_that_it_needs(method, path, query, headers, found):
    assert recorded(method, path, query, headers, "s3", "") == found


def test_an_invocation_of_an_alias_is_not_one_of_the_function():
    path = "/2015-03-31/functions/integrahub-MqAccessFunction-1/invocations"
    assert recorded("POST", path, "", {}, "lambda", "") == ["lambda:InvokeFunction MqAccessFunction"]
    assert recorded("POST", path, "Qualifier=live", {}, "lambda", "") == ["lambda:InvokeFunction MqAccessFunction:live"]


def recorded(method, path, query, headers, service, body):
    signature = f"AWS4-HMAC-SHA256 Credential=test/20261126/us-east-1/{service}/aws4_request, SignedHeaders=host"
    headers = {name.encode(): value.encode() for name, value in {**headers, "authorization": signature}.items() if value}
    scope = {"method": method, "path": path, "query_string": query.encode()}
    return [f"{right} {rights.place(NAMES, right, resource)}" for right, resource in aws_calls.calls(scope, headers, body.encode())]
