"""Chooses a key for each generated request, keeps the request short, and points some at a queue and a batch that exist."""

import hashlib
import json
import os
import random
import uuid

import schemathesis

# Of all requests one in ten has no key; the others share these.
KEYS = ["local-dev-key-a", "local-readonly-key", "local-pharmacy-key"]
QUEUES = ["DEV.QUEUE.1", "DEV.QUEUE.2", "DEV.QUEUE.3"]
BATCHES = os.environ["SCHEMATHESIS_BATCHES"].split()
MOST_MESSAGES = 20
MOST_BYTES = 2048


def choices(case):
    """A request's own choices follow from what it is, so that a seed makes the same ones again in any order."""
    what = (os.environ["SCHEMATHESIS_SEED"], case.operation.label, case.path_parameters, case.query, case.body)
    return random.Random(hashlib.sha256(repr(what).encode("utf-8", "replace")).digest())


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def bound(members, name, allowed, most):
    if is_number(members.get(name)) and most < members[name] <= allowed:
        members[name] = most


@schemathesis.hook
def before_call(context, case, kwargs):
    choice = choices(case)
    if choice.random() < 0.9:
        case.headers["X-Api-Key"] = choice.choice(KEYS)
    if is_positive(case) and choice.random() < 0.5:
        lead(case, choice)
    shorten(case)


def lead(case, choice):
    """A place that exists: random names lead nowhere."""
    if "batch_id" in (case.path_parameters or {}):
        case.path_parameters["batch_id"] = choice.choice(BATCHES)
    if "Idempotency-Key" in (case.headers or {}):
        # An example's key is the same for all bodies.
        case.headers["Idempotency-Key"] = str(uuid.UUID(int=choice.getrandbits(128), version=4))
    if isinstance(case.body, dict) and ("target" in case.body or "targetRef" in case.body):
        case.body["targetRef"] = "local-rabbit"
        case.body["target"] = {"queue": choice.choice(QUEUES)}
    if isinstance(case.body, dict) and "from" in case.body:
        case.body["from"] = {"targetRef": "local-rabbit", "target": {"queue": choice.choice(QUEUES)}}


def shorten(case):
    """Waits, pauses and large batches are valid, and their time shows nothing. What breaks the bounds stays."""
    # The page of a load test is described in `x-content-by-accept`, which is not looked at here.
    if (case.query or {}).get("format") == "html":
        case.query["format"] = "json"
    body = case.body
    if not isinstance(body, dict):
        return
    if case.operation.path == "/tests":
        shorten_test(body)
    if case.operation.path == "/messages/consume":
        if is_positive(case):
            body.setdefault("waitSeconds", 0)
    bound(body, "waitSeconds", 60, 0)
    batch = body.get("batch")
    if isinstance(batch, dict):
        bound(batch, "count", 100_000, MOST_MESSAGES)
        bound(batch, "messageSizeBytes", 4_194_304, MOST_BYTES)
        if is_number(batch.get("rateLimitPerSec")) and batch["rateLimitPerSec"] > 0:
            batch["rateLimitPerSec"] = max(batch["rateLimitPerSec"], 1000)


def shorten_test(body):
    """A load test goes on after its response, and the next request finds no room for its workers."""
    bound(body, "durationSeconds", 604_800, 1)
    bound(body, "messages", 10**12, MOST_MESSAGES)
    stages = body.get("stages")
    for stage in stages if isinstance(stages, list) else []:
        if isinstance(stage, dict):
            bound(stage, "seconds", 604_800, 1)
            bound(stage, "ratePerSec", 1_000_000, MOST_MESSAGES)
    for workers in (body.get("producers"), body.get("consumers")):
        if isinstance(workers, dict):
            bound(workers, "count", 10_000, 1)
            bound(workers, "messageSizeBytes", 4_194_304, MOST_BYTES)
    if body.get("mode") == "search":
        body["mode"] = "run"


def is_positive(case):
    meta = case.meta
    return meta is None or meta.generation.mode.is_positive


def problem(response):
    try:
        return json.loads(response.content)
    except ValueError:
        return {}


# What a broker says to a valid request whose generated target cannot work.
OF_THE_TARGET = {
    "AUTHENTICATION_FAILED",
    "BROKER_REJECTED",
    "BROKER_TIMEOUT",
    "BROKER_UNREACHABLE",
}


PRODUCTS = "/v1/inovafarma/products"


@schemathesis.hook
def filter_failure(context, failure, case, response):
    name = type(failure).__name__
    # A trace id of another form is no fault: the request gets a new one.
    if name == "AcceptedNegativeData" and "X-Trace-Id" in str(failure.message):
        return False
    # Products are stored unread: what is wrong with them is found in the batch, never in the
    # answer.
    if name == "AcceptedNegativeData" and case.operation.path == PRODUCTS and "in body" in str(failure.message):
        return False
    if name == "ServerError":
        body = problem(response)
        return not (isinstance(body, dict) and body.get("reason") in OF_THE_TARGET)
    return True


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.check
def without_a_key_it_is_401(context, response, case):
    is_open = case.operation.definition.raw.get("security") == []
    if not is_open and "X-Api-Key" not in response.request.headers and response.status_code not in (401, 405):
        raise AssertionError(f"{response.status_code} without a key")
