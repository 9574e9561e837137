"""Lambda stops a function that its own messages invoke, after 16 times. Such loops are known here, and no others are there."""

import pytest
from cloudformation import deploy, references
from rights import allowed
from scenarios import SCENARIOS


def overlap(watched, prefix):
    written = prefix.removesuffix("*")
    return watched.startswith(written) or written.startswith(watched)


def notified(stack, resource):
    """The queues that S3 or a rule of EventBridge may tell of an object that is put there."""
    bucket, _, prefix = resource.partition("/")
    for name in references(bucket):
        for rule in stack.of("AWS::Events::Rule").values():
            detail = rule["Properties"].get("EventPattern", {}).get("detail", {})
            if name in references(detail.get("bucket", {})) and overlap(detail["object"]["key"][0]["prefix"], prefix):
                yield from references(rule["Properties"]["Targets"])
        for notification in stack.properties(name).get("NotificationConfiguration", {}).get("QueueConfigurations", []):
            if overlap(notification["Filter"]["S3Key"]["Rules"][0]["Value"], prefix):
                yield from references(notification["Queue"])


def edges(stack):
    """(from, to): what may lead to an invocation or a message, and where."""
    for name, resource in stack.of("AWS::Lambda::Function", "AWS::StepFunctions::StateMachine").items():
        (role,) = references(resource["Properties"].get("Role") or resource["Properties"]["RoleArn"])
        for action, resource in allowed(stack, role):
            if action in ("sqs:SendMessage", "lambda:InvokeFunction", "states:StartExecution"):
                yield from ((name, target) for target in references(resource))
            if action == "s3:PutObject":
                yield from ((name, queue) for queue in notified(stack, resource))
    for mapping in stack.of("AWS::Lambda::EventSourceMapping").values():
        properties = mapping["Properties"]
        yield from ((source, target) for source in references(properties.get("EventSourceArn", "")) for target in references(properties["FunctionName"]))
    for name, queue in stack.of("AWS::SQS::Queue").items():
        yield from ((name, target) for target in references(queue["Properties"].get("RedrivePolicy", {})))


def in_loops(stack):
    """The functions that may lead to their own invocation."""
    known = set(edges(stack))
    while longer := {(start, end) for start, middle in known for other, end in known if middle == other} - known:
        known |= longer
    return {name for name in stack.of("AWS::Lambda::Function") if (name, name) in known}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_function_that_may_lead_to_its_own_invocation_is_allowed_to_and_no_other(name):
    stack = deploy(SCENARIOS[name])
    let = {function for function, resource in stack.of("AWS::Lambda::Function").items() if resource["Properties"].get("RecursiveLoop") == "Allow"}
    assert in_loops(stack) == let
    # A loop that this finds needs an end of its own before it is allowed.
    assert let <= {"UpsertFunction", "DispatchFunction", "DropIntakeFunction"}


def test_the_ways_through_the_ingest_are_seen():
    seen = set(edges(deploy(SCENARIOS["everything"])))
    for way in [
        ("NotificationsQueue", "DispatchFunction"),
        ("DispatchFunction", "DropsReceivedQueue"),
        ("DropsReceivedQueue", "DropIntakeFunction"),
        ("DropIntakeFunction", "NotificationsQueue"),
        ("DropIntakeFunction", "ReceiptsQueue"),
        ("DispatchFunction", "BatchesReceivedQueue"),
        ("ReconcileFunction", "BatchesReceivedQueue"),
        ("BatchesReceivedQueue", "ChunkerFunction"),
        ("ReceiptsQueue", "ReceiptsFunction"),
        ("ChunkerFunction", "ChunksReadyQueue"),
        ("ChunksReadyQueue", "UpsertFunction"),
        ("ChunksReadyQueue", "ChunksFailedQueue"),
        ("ChunksFailedQueue", "DeadLetterFunction"),
        ("DeadLetterFunction", "UnhandledQueue"),
        ("ProduceFunction", "MqAccessFunction"),
        ("LoadTestsFunction", "LoadTestMachine"),
        ("LoadTestMachine", "LoadStepFunction"),
    ]:
        assert way in seen, way
