"""Powertools for AWS Lambda: a handler that is `@idempotent`, validates the payload and has no local cache."""

import json
import sys
import time

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError

WORK_MILLIS = 24_000


class Context:
    """What Lambda says of an invocation: from it comes the expiry of one in progress."""

    def __init__(self):
        self.deadline = time.monotonic() + WORK_MILLIS / 1000

    def get_remaining_time_in_millis(self):
        return int((self.deadline - time.monotonic()) * 1000)


task = json.loads(sys.argv[1])
executions = 0


@idempotent(
    persistence_store=DynamoDBPersistenceLayer(table_name=task["table"], key_attr="pk"),
    config=IdempotencyConfig(
        event_key_jmespath="idempotencyKey",
        payload_validation_jmespath="body",
        raise_on_no_idempotency_key=True,
        expires_after_seconds=86_400,
        use_local_cache=False,
    ),
)
def handler(event, context):
    global executions
    executions += 1
    return task["response"]


def handle(request):
    before = executions
    try:
        response = handler(json.loads(request), Context())
    except IdempotencyValidationError:
        return "conflict"
    if response != task["response"]:
        sys.exit("a response is not the first one")
    return "new" if executions > before else "replay"


for line in sys.stdin:
    block = json.loads(line)
    job = block["job"]
    body = task["otherBody" if job == "conflict" else "body"]
    requests = [f'{{"idempotencyKey":"{key}","body":{body}}}' for key in block["keys"]]
    cpu, started = time.process_time(), time.perf_counter()
    for request in requests:
        became = handle(request)
        if became != job:
            sys.exit(f"a request was {became} and should be {job}")
    took = {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - started}
    print(json.dumps(took), flush=True)
