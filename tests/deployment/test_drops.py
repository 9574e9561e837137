"""Who may do what with a bucket for drops that the stack does not own."""

from fnmatch import fnmatchcase

import pytest
from cloudformation import deploy
from scenarios import EXISTING_DATABASE, GATEWAY, PARTNER, PARTNER_KEY, SCENARIOS

FUNCTIONS = {"ChunkerRole", "DropIntakeRole", "UpsertRole", "DeadLetterRole", "ReconcileRole"}
BUCKET = "arn:aws:s3:::partner-files"


def statements(stack, role):
    for policy in stack.properties(role)["Policies"]:
        yield from policy["PolicyDocument"]["Statement"]


def of_the_bucket(stack):
    """Statements about the bucket, by the resource that has them."""
    for name, policy in stack.of("AWS::IAM::ManagedPolicy").items():
        yield from ((name, each) for each in policy["Properties"]["PolicyDocument"]["Statement"] if BUCKET in str(each["Resource"]))
    for name in stack.of("AWS::IAM::Role"):
        yield from ((name, each) for each in statements(stack, name) if BUCKET in str(each["Resource"]))


def test_the_functions_of_drops_and_no_others_reach_the_bucket():
    stack = deploy({**EXISTING_DATABASE, **PARTNER})
    attached = {name for name, role in stack.of("AWS::IAM::Role").items() if "«DropBucketAccess»" in role["Properties"].get("ManagedPolicyArns", [])}
    assert attached == FUNCTIONS
    found = list(of_the_bucket(stack))
    assert {name for name, _ in found} == {"DropBucketAccess", "ReconcileRole"}
    for name, statement in found:
        assert statement["Condition"]["StringEquals"] == {"aws:ResourceAccount": "444455556666"}, name
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        assert set(resources) <= {BUCKET, f"{BUCKET}/drop/*", f"{BUCKET}/drop-results/*"}, name
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not [action for action in actions if "Delete" in action or "*" in action], name
        assert "s3:PutObject" not in actions or resources == [f"{BUCKET}/drop-results/*"], name


def test_the_key_of_the_bucket_is_used_where_there_is_one():
    policy = deploy({**EXISTING_DATABASE, **PARTNER}).properties("DropBucketAccess")
    [use] = [each for each in policy["PolicyDocument"]["Statement"] if "kms:Decrypt" in each["Action"]]
    assert PARTNER_KEY in use["Resource"]
    assert use["Condition"] == {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
    policy = deploy(SCENARIOS["drops into a bucket of this account"]).properties("DropBucketAccess")
    assert "kms" not in str(policy)


@pytest.mark.parametrize(
    "scenario, account, bucket",
    [("drops into a bucket of this account", "111122223333", "own-files"), ("drops into a bucket of another account", "444455556666", "partner-files")],
)
@pytest.mark.parametrize("queue", ["NotificationsQueuePolicy", "DropsReceivedQueuePolicy"])
def test_the_bucket_and_no_other_one_notifies_the_queue(scenario, account, bucket, queue):
    policy = deploy(SCENARIOS[scenario]).properties(queue)["PolicyDocument"]
    [tells] = [each for each in policy["Statement"] if each["Sid"] == "DropBucketTells"]
    assert tells["Principal"] == {"Service": "s3.amazonaws.com"} and tells["Action"] == "sqs:SendMessage"
    assert tells["Condition"] == {"StringEquals": {"aws:SourceAccount": account}, "ArnEquals": {"aws:SourceArn": f"arn:aws:s3:::{bucket}"}}
    without = deploy(SCENARIOS["drops"]).properties(queue)["PolicyDocument"]
    assert "DropBucketTells" not in str(without)


@pytest.mark.parametrize("function", ["DropIntakeFunction", "ReconcileFunction"])
def test_the_functions_that_look_at_the_bucket_know_its_name(function):
    variables = deploy(SCENARIOS["drops into a bucket of another account"]).properties(function)["Environment"]["Variables"]
    assert variables["DROP_BUCKET"] == "partner-files"
    assert "DROP_BUCKET" not in deploy(SCENARIOS["drops"]).properties(function)["Environment"]["Variables"]


def denies(stack, action, key):
    """Whether the payload bucket's policy denies everybody that, whoever has the right."""
    statements = stack.properties("PayloadBucketPolicy")["PolicyDocument"]["Statement"]
    return any(
        each["Effect"] == "Deny" and each["Principal"] == "*" and each["Action"] == action and "Condition" not in each and fnmatchcase(f"«PayloadBucket.Arn»/{key}", each["Resource"])
        for each in statements
    )


def test_a_sender_learns_at_once_that_drops_are_off():
    for scenario in (GATEWAY, EXISTING_DATABASE, {"AcceptDrops": "true"}):
        stack = deploy(scenario)
        assert denies(stack, "s3:PutObject", "drop/11111111-1111-4111-8111-111111111111/full/a.json")
        assert not denies(stack, "s3:PutObject", "incoming/2026/11/26/10/1")
        assert not denies(stack, "s3:GetObject", "drop/1")
    # While the ingest is switched off, notifications wait.
    for scenario in (SCENARIOS["drops"], {**SCENARIOS["drops"], "IngestEnabled": "false"}):
        assert not denies(deploy(scenario), "s3:PutObject", "drop/1")
