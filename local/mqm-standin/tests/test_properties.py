"""Message properties: by handle, and as what messages are selected by."""

import ibmmq
import pytest
from conftest import Refused, depth, get, open_queue, put
from ibmmq import CMQC

VALUES = [
    ("text", CMQC.MQTYPE_STRING, "some text"),
    ("number", CMQC.MQTYPE_INT32, -7),
    ("long", CMQC.MQTYPE_INT64, 2**40),
    ("short", CMQC.MQTYPE_INT16, 300),
    ("small", CMQC.MQTYPE_INT8, -1),
    ("half", CMQC.MQTYPE_FLOAT64, 0.5),
    ("yes", CMQC.MQTYPE_BOOLEAN, True),
    ("raw", CMQC.MQTYPE_BYTE_STRING, b"\x00\xff\x01"),
    ("shop.order.id", CMQC.MQTYPE_STRING, "A1"),
]


def handle_with(qm, properties):
    handle = ibmmq.MessageHandle(qm)
    for name, kind, value in properties:
        length = {CMQC.MQTYPE_STRING: CMQC.MQVL_NULL_TERMINATED, CMQC.MQTYPE_BYTE_STRING: len(value)
                  if isinstance(value, bytes) else 0}.get(kind, 0)
        handle.properties.set(name, value, kind, length)
    return handle


def put_with(qm, queue, body, properties):
    handle = handle_with(qm, properties)
    pmo = ibmmq.PMO(Version=CMQC.MQPMO_VERSION_3, OriginalMsgHandle=handle.get_handle())
    put(qm, queue, body, pmo=pmo, Format=CMQC.MQFMT_STRING)
    handle.dlt()


def get_with(qm, queue, options=CMQC.MQGMO_PROPERTIES_IN_HANDLE):
    handle = ibmmq.MessageHandle(qm)
    body, md = get(queue, options, Version=CMQC.MQGMO_VERSION_4, MsgHandle=handle.get_handle())
    return body, md, handle


def test_properties_come_back_as_they_were_set(qm):
    put_with(qm, "DEV.QUEUE.1", b"data", VALUES)
    body, md, handle = get_with(qm, open_queue(qm, "DEV.QUEUE.1"))
    assert (body, md.Format) == (b"data", CMQC.MQFMT_STRING)
    for name, kind, value in VALUES:
        got = handle.properties.get(name, property_type=kind)
        assert got == value or got == str(value).encode(), name
    # All of them by a wildcard, in their order, by their names.
    names, options = [], CMQC.MQIMPO_INQ_FIRST
    while True:
        try:
            _, name = handle.properties.get("%", impo_options=options)
        except ibmmq.MQMIError as error:
            assert error.reason == CMQC.MQRC_PROPERTY_NOT_AVAILABLE
            break
        names.append(ibmmq.to_string(name))
        options = CMQC.MQIMPO_INQ_NEXT
    assert names == [name for name, _, _ in VALUES]
    handle.dlt()
    with Refused(CMQC.MQRC_HMSG_ERROR):
        ibmmq.MessageHandle(qm, dup_handle=10**6).properties.get("x")


def test_what_is_wrong_with_a_property_has_a_reason(qm):
    handle = handle_with(qm, [("text", CMQC.MQTYPE_STRING, "x" * 200)])
    with Refused(CMQC.MQRC_PROPERTY_VALUE_TOO_BIG) as failed:
        handle.properties.get("text")
    assert failed.error.data_length == 200
    assert len(handle.properties.get("text", max_value_length=300)) == 200
    with Refused(CMQC.MQRC_PROPERTY_NAME_ERROR):
        handle.properties.set("1st", "x")
    with Refused(CMQC.MQRC_PROP_CONV_NOT_SUPPORTED):
        handle.properties.get("text", property_type=CMQC.MQTYPE_INT32, impo_options=CMQC.MQIMPO_CONVERT_TYPE)
    with Refused(CMQC.MQRC_HMSG_ERROR):
        get(open_queue(qm, "DEV.QUEUE.1"), CMQC.MQGMO_PROPERTIES_IN_HANDLE)


@pytest.mark.parametrize("selection, expected", [
    ("colour = 'red'", [b"red 1", b"red 2"]),
    ("size > 1 AND colour <> 'blue'", [b"red 2"]),
    ("colour IN ('blue', 'green') OR size = 1", [b"red 1", b"blue 3"]),
    ("colour LIKE 'b%'", [b"blue 3"]),
    ("missing IS NULL", [b"red 1", b"red 2", b"blue 3"]),
    ("Root.MQMD.Priority = 9", []),
])
def test_a_selection_string_chooses_messages(qm, selection, expected):
    for colour, size in (("red", 1), ("red", 2), ("blue", 3)):
        properties = [("colour", CMQC.MQTYPE_STRING, colour), ("size", CMQC.MQTYPE_INT32, size)]
        put_with(qm, "DEV.QUEUE.1", f"{colour} {size}".encode(), properties)
    od = ibmmq.OD(Version=CMQC.MQOD_VERSION_4, ObjectName="DEV.QUEUE.1")
    od.set_vs("SelectionString", selection)
    queue = ibmmq.Queue(qm, od, CMQC.MQOO_INPUT_SHARED)
    got = []
    while True:
        try:
            got.append(get(queue, CMQC.MQGMO_NO_PROPERTIES)[0])
        except ibmmq.MQMIError as error:
            assert error.reason == CMQC.MQRC_NO_MSG_AVAILABLE
            break
    assert got == expected
    assert depth(qm, "DEV.QUEUE.1") == 3 - len(expected)


def test_a_selection_string_with_a_fault_is_refused(qm):
    od = ibmmq.OD(Version=CMQC.MQOD_VERSION_4, ObjectName="DEV.QUEUE.1")
    od.set_vs("SelectionString", "colour = ")
    with Refused(CMQC.MQRC_SELECTOR_SYNTAX_ERROR):
        ibmmq.Queue(qm, od, CMQC.MQOO_INPUT_SHARED)


def test_properties_outlive_a_restart(daemon, qm):
    handle = handle_with(qm, [("colour", CMQC.MQTYPE_STRING, "red")])
    pmo = ibmmq.PMO(Version=CMQC.MQPMO_VERSION_3, OriginalMsgHandle=handle.get_handle())
    put(qm, "DEV.QUEUE.1", b"x", pmo=pmo, Persistence=CMQC.MQPER_PERSISTENT)
    put(qm, "DEV.QUEUE.1", b"y")
    daemon.kill()
    daemon.start()
    from conftest import connect

    again = connect()
    _, _, handle = get_with(again, open_queue(again, "DEV.QUEUE.1"))
    assert ibmmq.to_string(handle.properties.get("colour")) == "red"
