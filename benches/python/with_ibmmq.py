"""IBM's own client of the MQI: puts or gets messages, some to a unit of work.

with_ibmmq.py [bare|reopen] reads `put QUEUE UNIT` or `get QUEUE UNIT` from its input. With `bare`,
messages have no properties; with `reopen`, the queue is opened and closed for each unit of work.
"""

import json
import os
import sys
import time

import ibmmq
from ibmmq import CMQC

MESSAGES = int(os.environ["MESSAGES"])
BODY = b"\xa5" * 1024
KEY = "0190b5a8-0000-7000-8000-000000000001"

job, name, unit = input().split()
unit = int(unit)
bare, reopens = sys.argv[1:] == ["bare"], sys.argv[1:] == ["reopen"]

manager = ibmmq.connect(
    os.environ["QUEUE_MANAGER"],
    os.environ["CHANNEL"],
    os.environ["CONN_NAME"],
    os.environ["MQ_USER"],
    os.environ["MQ_PASSWORD"],
)


def opened(options):
    return ibmmq.Queue(manager, name, options | CMQC.MQOO_FAIL_IF_QUIESCING)


def end_unit(queue, options, index):
    """Commits with the last message of a unit of work. Returns the queue for the next message."""
    if (index + 1) % unit and index + 1 < MESSAGES:
        return queue
    if not reopens:
        manager.commit()
        return queue
    queue.close()
    manager.commit()
    return opened(options) if index + 1 < MESSAGES else None


def put():
    output = CMQC.MQOO_OUTPUT
    queue = opened(output)
    pmo = ibmmq.PMO(Version=CMQC.MQPMO_VERSION_3, Options=CMQC.MQPMO_SYNCPOINT | CMQC.MQPMO_FAIL_IF_QUIESCING)
    if not bare:
        handle = ibmmq.MessageHandle(manager)
        handle.properties.set("idempotencyKey", KEY, CMQC.MQTYPE_STRING, CMQC.MQVL_NULL_TERMINATED)
        pmo.OriginalMsgHandle = handle.get_handle()
    for index in range(MESSAGES):
        md = ibmmq.MD(
            MsgId=index.to_bytes(4, "big").ljust(24, b"\0"),
            Persistence=CMQC.MQPER_NOT_PERSISTENT,
            Priority=0,
        )
        if not bare:
            handle.properties.set("sequence", index, CMQC.MQTYPE_INT64, 0)
        queue.put(BODY, md, pmo)
        queue = end_unit(queue, output, index)


def get():
    shared = CMQC.MQOO_INPUT_SHARED
    queue = opened(shared)
    properties = CMQC.MQGMO_NO_PROPERTIES if bare else CMQC.MQGMO_PROPERTIES_IN_HANDLE
    options = CMQC.MQGMO_SYNCPOINT | CMQC.MQGMO_FAIL_IF_QUIESCING | properties
    gmo = ibmmq.GMO(Version=CMQC.MQGMO_VERSION_4, Options=options)
    if not bare:
        handle = ibmmq.MessageHandle(manager)
        gmo.MsgHandle = handle.get_handle()
    for index in range(MESSAGES):
        # A fresh descriptor, because an id in it would be matched.
        body = queue.get(65536, ibmmq.MD(), gmo)
        assert len(body) == 1024
        if not bare:
            assert read_properties(handle) == 2
        queue = end_unit(queue, shared, index)


def read_properties(handle):
    """Reads all properties, and returns how many there are."""
    count, which = 0, CMQC.MQIMPO_INQ_FIRST
    while True:
        try:
            handle.properties.get("%", impo_options=which | CMQC.MQIMPO_CONVERT_VALUE)
        except ibmmq.MQMIError as error:
            if error.reason != CMQC.MQRC_PROPERTY_NOT_AVAILABLE:
                raise
            return count
        count, which = count + 1, CMQC.MQIMPO_INQ_NEXT


started, cpu = time.perf_counter(), time.process_time()
{"put": put, "get": get}[job]()
report = {
    "seconds": time.perf_counter() - started,
    "cpu_seconds": time.process_time() - cpu,
}
manager.disconnect()
print(json.dumps(report))
