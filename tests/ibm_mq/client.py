"""IBM's own client of the MQI, as another application at the queue manager of a test.

Reads one JSON command a line, and answers each with a JSON line.
"""

import json
import os
import sys

import ibmmq
from ibmmq import CMQC

manager = ibmmq.connect(
    os.environ["QUEUE_MANAGER"],
    os.environ["CHANNEL"],
    os.environ["CONN_NAME"],
    os.environ["MQ_USER"],
    os.environ["MQ_PASSWORD"],
)


def put(command):
    """Puts messages in one unit of work, each with a descriptor and properties."""
    queue = ibmmq.Queue(manager, command["queue"], CMQC.MQOO_OUTPUT)
    ids = []
    for message in command["messages"]:
        handle = ibmmq.MessageHandle(manager)
        for name, kind, value in message.get("properties", []):
            if kind == "BYTE_STRING":
                value = bytes.fromhex(value)
            length = {"STRING": CMQC.MQVL_NULL_TERMINATED, "BYTE_STRING": len(value)
                      if isinstance(value, bytes) else 0}.get(kind, 0)
            handle.properties.set(name, value, getattr(CMQC, "MQTYPE_" + kind), length)
        md = ibmmq.MD()
        for name, value in message.get("descriptor", {}).items():
            if name in ("MsgId", "CorrelId"):
                value = bytes.fromhex(value)
            elif isinstance(value, str):
                value = value.encode()
            setattr(md, name, value)
        pmo = ibmmq.PMO(Version=CMQC.MQPMO_VERSION_3, Options=CMQC.MQPMO_SYNCPOINT)
        pmo.OriginalMsgHandle = handle.get_handle()
        queue.put(bytes.fromhex(message["body"]), md, pmo)
        ids.append(md.MsgId.hex())
    end(command)
    queue.close()
    return {"ids": ids}


def get(command):
    """Gets or browses messages, all or that of an id, and commits or backs out."""
    browses = command.get("browse", False)
    opened = CMQC.MQOO_BROWSE if browses else CMQC.MQOO_INPUT_SHARED
    queue = ibmmq.Queue(manager, command["queue"], opened)
    messages = []
    while True:
        handle = ibmmq.MessageHandle(manager)
        how = CMQC.MQGMO_BROWSE_NEXT if browses else CMQC.MQGMO_SYNCPOINT
        gmo = ibmmq.GMO(Version=CMQC.MQGMO_VERSION_4, Options=how | CMQC.MQGMO_PROPERTIES_IN_HANDLE)
        gmo.MsgHandle = handle.get_handle()
        md = ibmmq.MD()
        if "id" in command:
            md.MsgId = bytes.fromhex(command["id"])
            gmo.MatchOptions = CMQC.MQMO_MATCH_MSG_ID
        try:
            body = queue.get(1 << 20, md, gmo)
        except ibmmq.MQMIError as error:
            if error.reason != CMQC.MQRC_NO_MSG_AVAILABLE:
                raise
            break
        messages.append(shown(body, md, handle))
    if not browses:
        end(command)
    queue.close()
    return {"messages": messages}


def end(command):
    if command.get("rollback"):
        manager.backout()
    else:
        manager.commit()


def shown(body, md, handle):
    texts = ("Format", "ReplyToQ", "UserIdentifier", "PutApplName")
    numbers = ("Persistence", "Priority", "Expiry", "MsgType", "CodedCharSetId", "BackoutCount")
    return {
        "body": body.hex(),
        "id": md.MsgId.hex(),
        "correlation": md.CorrelId.hex(),
        **{name: ibmmq.to_string(getattr(md, name)).rstrip(" \0") for name in texts},
        **{name: getattr(md, name) for name in numbers},
        "properties": dict(properties(handle)),
    }


def properties(handle):
    which = CMQC.MQIMPO_INQ_FIRST
    while True:
        try:
            value, name = handle.properties.get("%", impo_options=which | CMQC.MQIMPO_CONVERT_VALUE)
        except ibmmq.MQMIError as error:
            if error.reason != CMQC.MQRC_PROPERTY_NOT_AVAILABLE:
                raise
            return
        if isinstance(value, bytes):
            try:
                value = value.decode()
            except UnicodeDecodeError:
                value = value.hex()
        yield ibmmq.to_string(name), value
        which = CMQC.MQIMPO_INQ_NEXT


def depth(command):
    queue = ibmmq.Queue(manager, command["queue"], CMQC.MQOO_INQUIRE)
    found = {"depth": queue.inquire(CMQC.MQIA_CURRENT_Q_DEPTH)}
    queue.close()
    return found


for line in sys.stdin:
    command = json.loads(line)
    try:
        answer = {"put": put, "get": get, "depth": depth}[command["do"]](command)
    except ibmmq.MQMIError as error:
        manager.backout()
        answer = {"reason": error.reason}
    print(json.dumps(answer), flush=True)
manager.disconnect()
