"""The AWS stand-in, with fair queues, a quicker HTTP server, a record of what each function calls, and
a file of what functions log.

SQS shares a standard queue out between message groups: a group that takes more than its share of the
consumers waits while messages of others are there. The stand-in delivers messages by their age
alone, so this module replaces its order. It is fairer than SQS, whose rules need many consumers: a
group waits as soon as it has more in flight than another one.

The stand-in's own HTTP server parses requests in Python. uvicorn parses them in C.

Each invocation has a log stream of its own, and FilterLogEvents looks at each stream of a group. So
`local`, which follows the logs of all functions, reads them from a file.

Each environment of a function has a server, and a thread that waits for its next event. Both would
look ten times a second whether they are to end, and a burst leaves hundreds of them. Here they wait
for longer.
"""

import json
import os
import queue
import resource
import signal
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from socketserver import BaseServer
from types import SimpleNamespace

import uvicorn
from aws_calls import Recorder
from ministack.app import app
from ministack.core import lambda_runtime
from ministack.services import cloudwatch_logs, sqs

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


def write_logs(path):
    """Adds each log event to a file, as a line of JSON."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    fan_out = cloudwatch_logs._fanout_to_subscription_filters

    def write(group, stream, events):
        lines = (
            json.dumps({"group": group, "stream": stream, "timestamp": event["timestamp"], "message": event["message"]})
            for event in events
        )
        os.write(file, "".join(f"{line}\n" for line in lines).encode())
        fan_out(group, stream, events)

    cloudwatch_logs._fanout_to_subscription_filters = write


def main():
    # uvicorn raises the signal that ended it again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # A burst of requests is many connections.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    record = os.environ.get("RECORDED_CALLS")
    if logs := os.environ.get("WRITTEN_LOGS"):
        write_logs(logs)
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
