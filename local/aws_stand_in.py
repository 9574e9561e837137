"""The AWS stand-in, with fair queues, a quicker HTTP server, a record of what each function calls, and
a file of what functions log.

SQS shares a standard queue out between message groups: a group that takes more than its share of the
consumers waits while messages of others are there. The stand-in delivers messages by their age
alone, so this module replaces its order. It is fairer than SQS, whose rules need many consumers: a
group waits as soon as it has more in flight than another one.

The stand-in's own HTTP server parses requests in Python. uvicorn parses them in C.

Each invocation has a log stream of its own, and FilterLogEvents looks at each stream of a group. So
what functions log is also added to one file, as they wrote it.

The stand-in has subscription filters, but knows no pattern of JSON, and would invoke the function
`audit` for each request. This module finds the lines of the template's pattern, and delivers them
every ten seconds.

Each environment of a function has a server, and a thread that waits for its next event. Both would
look ten times a second whether they are to end, and a burst leaves hundreds of them. Here they wait
for longer. After each response, it would also look a thousand times a second for what the function
logged, for 50 ms if that is nothing. Here a line ends the wait, and an empty pipe shortens it.

Most of what the stand-in computes is the same again: the tokens of the functions' few expressions,
copies of items, headers that a parser of mail reads. Here that costs less.
"""

import base64
import copy
import fcntl
import gc
import gzip
import http.client
import json
import os
import queue
import resource
import signal
import socket
import sys
import termios
import threading
import time
import traceback
import uuid
from collections import Counter, defaultdict
from contextlib import suppress
from functools import lru_cache
from socketserver import BaseServer, StreamRequestHandler
from types import SimpleNamespace

import uvicorn
from aws_calls import Recorder
from ministack.app import app
from ministack.core import lambda_runtime
from ministack.services import cloudwatch_logs, dynamodb, lambda_svc, sqs

take_oldest = sqs._collect_msgs


def take_fairly(queue, most, visibility_timeout):
    """Takes messages one by one: each time the oldest of the group with the fewest in flight.

    A message without a group is a group of its own.
    """
    taken = []
    while len(taken) < most:
        now = time.time()
        in_flight = Counter(m.get("group_id") for m in queue["messages"] if m["visible_at"] > now and m["receive_count"])
        # A message with a visibility timeout of 0 is visible again.
        waiting = [m for m in queue["messages"] if m["visible_at"] <= now and m not in taken]
        if queue["is_fifo"] or not any(m.get("group_id") for m in waiting):
            rest = {**queue, "messages": waiting} if taken else queue
            return taken + take_oldest(rest, most - len(taken), visibility_timeout)
        chosen = min(waiting, key=lambda m: in_flight[m["group_id"]] if m.get("group_id") else 0)
        taken += take_oldest({**queue, "messages": [chosen]}, 1, visibility_timeout)
    return taken


sqs._collect_msgs = take_fairly

# Seconds between two looks whether an environment is to end.
PAUSE = 5


class PatientQueue(queue.Queue):
    def get(self, block=True, timeout=None):
        return super().get(block, timeout if timeout is None else max(timeout, PAUSE))


serve_forever, shutdown = BaseServer.serve_forever, BaseServer.shutdown


def serve_patiently(server, poll_interval=0.5):
    serve_forever(server, max(poll_interval, PAUSE))


def shut_down_at_once(server):
    """Ends a server, which a connection wakes."""
    server._BaseServer__shutdown_request = True
    with suppress(OSError):
        socket.create_connection(server.server_address, timeout=1).close()
    shutdown(server)


lambda_runtime.queue = SimpleNamespace(Queue=PatientQueue, Empty=queue.Empty, Full=queue.Full)
BaseServer.serve_forever, BaseServer.shutdown = serve_patiently, shut_down_at_once
# Seconds between two looks whether a function that works has ended.
lambda_runtime._PROVIDED_POLL = 0.2

# Seconds that a line takes from a function's pipe to the queue of its worker, the first one and the
# next ones, and the most that all of them may take.
FIRST_LINE, NEXT_LINE, ALL_LINES = 0.05, 0.005, 0.25


def read_log(worker, first_line_wait=FIRST_LINE):
    """What a function logged. It wrote that before its response, so nothing is still to come.

    A line is in the pipe, on its way, or here.
    """
    lines, end = [], time.monotonic() + ALL_LINES
    while time.monotonic() < end:
        try:
            wait = NEXT_LINE if lines else first_line_wait
            # The worker's queue is a patient one.
            lines.append(queue.Queue.get(worker._stderr_queue, timeout=wait))
        except queue.Empty:
            if not has_unread(worker):
                break
    return "\n".join(lines)


def has_unread(worker):
    # The pipe may be gone with its process.
    with suppress(AttributeError, OSError, ValueError):
        unread = fcntl.ioctl(worker._proc.stdout, termios.FIONREAD, bytes(4))
        return int.from_bytes(unread, sys.byteorder) > 0
    return False


lambda_runtime.ProvidedWorker._drain_stderr_bounded = read_log


def copied(value):
    """A copy of what JSON can say; `copy.deepcopy` needs three times as long for it."""
    kind = type(value)
    if kind is str:
        return value
    if kind is dict:
        return {name: copied(member) for name, member in value.items()}
    if kind is list:
        return [copied(member) for member in value]
    return copy.deepcopy(value)


tokens_of = lru_cache(maxsize=4096)(dynamodb._tokenize)
dynamodb.copy = SimpleNamespace(deepcopy=copied)
# A list of its own for each caller.
dynamodb._tokenize = lambda expression: list(tokens_of(expression))
dynamodb._condition_syntax_error = lru_cache(maxsize=4096)(dynamodb._condition_syntax_error)


def parse_headers(stream, _class=http.client.HTTPMessage):
    """Headers of a request for the next event, or with a response to one. No client folds them."""
    message = _class()
    for line in http.client._read_headers(stream):
        name, colon, value = line.decode("iso-8859-1").partition(":")
        if colon:
            message[name] = value.strip()
    return message


http.client.parse_headers = parse_headers
# The head of a response goes with its body, not before it in a packet of its own.
StreamRequestHandler.wbufsize = -1

# The template has no mapping of a Kinesis stream, and each message and each change of a record sets
# off a look at all mappings.
lambda_svc._poll_kinesis = lambda: False


# Lambda's own lines around each invocation.
PLATFORM = ("START RequestId: ", "END RequestId: ", "REPORT RequestId: ")
# Seconds between two deliveries of audit events. Each may invoke the function `audit` once for each
# other function.
DELIVERY = 10
# Most events of a delivery: the function's event has a limit, as all invocations have.
MOST_DELIVERED = 1000


def is_audit(line):
    """Whether the pattern of the template's subscription filters finds a line."""
    return '"event_type":"request.completed"' in line and ('"tenant":"' in line or '"outcome":"done"' not in line)


class Logs:
    """Adds the lines of functions to a file, and delivers those of audit events as subscription filters do."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.audit_events = queue.SimpleQueue()
        threading.Thread(target=self.deliver, daemon=True).start()

    def write(self, group, stream, events):
        if not group.startswith("/aws/lambda/"):
            return
        lines = [(event["timestamp"], event["message"].rstrip()) for event in events]
        lines = [(timestamp, line) for timestamp, line in lines if line and not line.startswith(PLATFORM)]
        os.write(self.file, "".join(f"{line}\n" for _, line in lines).encode(errors="replace"))
        for timestamp, line in lines:
            if is_audit(line):
                self.audit_events.put((group, timestamp, line))

    def deliver(self):
        while True:
            time.sleep(DELIVERY)
            groups = defaultdict(list)
            while not self.audit_events.empty():
                group, timestamp, line = self.audit_events.get()
                groups[group].append({"id": str(uuid.uuid4()), "timestamp": timestamp, "message": line})
            for group, events in groups.items():
                for first in range(0, len(events), MOST_DELIVERED):
                    try:
                        deliver(group, events[first : first + MOST_DELIVERED])
                    except Exception:
                        traceback.print_exc()


def deliver(group, events):
    """Invokes the functions that a log group's filters name. An invocation that fails is repeated."""
    delivery = {"messageType": "DATA_MESSAGE", "owner": "000000000000", "logGroup": group, "logStream": "", "logEvents": events}
    for name, subscription in cloudwatch_logs._log_groups[group]["subscriptionFilters"].items():
        data = gzip.compress(json.dumps(delivery | {"subscriptionFilters": [name]}).encode(), compresslevel=1)
        function = lambda_svc._functions[subscription["destinationArn"].split(":function:")[1].split(":")[0]]
        lambda_svc.invoke_async_with_retry(function, {"awslogs": {"data": base64.b64encode(data).decode()}})


def main():
    # Python looks for garbage in circles after each 700 objects, and there is little of it.
    gc.set_threshold(50_000, 20, 20)
    # uvicorn raises the signal that ended it again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # A burst of requests is many connections.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    record = os.environ.get("RECORDED_CALLS")
    if logs := os.environ.get("WRITTEN_LOGS"):
        cloudwatch_logs._fanout_to_subscription_filters = Logs(logs).write
    uvicorn.run(
        Recorder(app, record) if record else app,
        host=os.environ["BIND_HOST"],
        port=int(os.environ["GATEWAY_PORT"]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        # The stand-in sets both where AWS does.
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main()
