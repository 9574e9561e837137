"""Faults on demand, and a queue manager that ends."""

import threading
import time

import ibmmq
import pytest
from conftest import Refused, connect, depth, get, open_queue, put
from ibmmq import CMQC


def test_the_nth_call_of_a_verb_fails(daemon, qm):
    daemon.fault("MQPUT", nth=3, reason=CMQC.MQRC_Q_FULL)
    put(qm, "DEV.QUEUE.1")
    put(qm, "DEV.QUEUE.1")
    with Refused(CMQC.MQRC_Q_FULL):
        put(qm, "DEV.QUEUE.1")
    put(qm, "DEV.QUEUE.1")
    assert depth(qm, "DEV.QUEUE.1") == 3


@pytest.mark.parametrize("when, expected", [("before", 0), ("after", 1)])
def test_a_connection_is_lost_around_a_commit(daemon, qm, when, expected):
    put(qm, "DEV.QUEUE.1", syncpoint=True)
    daemon.fault("MQCMIT", cut=True, when=when)
    with Refused(CMQC.MQRC_CONNECTION_BROKEN):
        qm.commit()
    with Refused(CMQC.MQRC_CONNECTION_BROKEN):
        qm.commit()
    assert depth(connect(), "DEV.QUEUE.1") == expected


def test_what_is_committed_can_be_taken_past_every_client(daemon, qm):
    put(qm, "DEV.QUEUE.1", b"one")
    put(qm, "DEV.QUEUE.1", b"two", syncpoint=True)
    taken = daemon.control({"take": "DEV.QUEUE.1"})["messages"]
    assert [bytes.fromhex(message["body"]) for message in taken] == [b"one"]
    qm.commit()
    assert depth(qm, "DEV.QUEUE.1") == 1


def test_a_message_can_be_put_past_every_client(daemon, qm):
    message = {"messageId": "1d" * 24, "priority": 4, "properties": {"kind": "order"}, "body": b"one".hex()}
    daemon.control({"put": {"queue": "DEV.QUEUE.1", "messages": [message]}})
    body, md = get(open_queue(qm, "DEV.QUEUE.1"), CMQC.MQGMO_NO_SYNCPOINT | CMQC.MQGMO_NO_PROPERTIES)
    assert (body, md.MsgId, md.Priority) == (b"one", b"\x1d" * 24, 4)
    daemon.control({"put": {"queue": "DEV.QUEUE.1", "messages": [message]}})
    [taken] = daemon.control({"take": "DEV.QUEUE.1"})["messages"]
    assert {**taken, **message} == taken


def test_a_message_in_another_character_set_can_be_put(daemon, qm):
    message = {"format": "MQSTR", "ccsid": 37, "body": "838186"}
    daemon.control({"put": {"queue": "DEV.QUEUE.1", "messages": [message]}})
    body, md = get(open_queue(qm, "DEV.QUEUE.1"))
    assert (body.decode("cp037"), md.Format, md.CodedCharSetId) == ("caf", CMQC.MQFMT_STRING, 37)
    assert md.MsgId != CMQC.MQMI_NONE


def test_a_commit_that_backs_out_is_a_warning(daemon, qm):
    put(qm, "DEV.QUEUE.1", syncpoint=True)
    daemon.fault("MQCMIT", reason=CMQC.MQRC_BACKED_OUT)
    with Refused(CMQC.MQRC_BACKED_OUT, CMQC.MQCC_WARNING):
        qm.commit()
    qm.commit()
    assert depth(qm, "DEV.QUEUE.1") == 0


@pytest.mark.parametrize("when, expected", [("before", 0), ("after", 1)])
def test_the_outcome_of_a_commit_is_unknown(daemon, qm, when, expected):
    put(qm, "DEV.QUEUE.1", syncpoint=True)
    daemon.fault("MQCMIT", reason=CMQC.MQRC_CALL_INTERRUPTED, when=when)
    with Refused(CMQC.MQRC_CALL_INTERRUPTED):
        qm.commit()
    other = connect()
    queue = open_queue(other, "DEV.QUEUE.1")
    if expected:
        assert get(queue)[0] == b"x"
    else:
        with Refused(CMQC.MQRC_NO_MSG_AVAILABLE):
            get(queue)


def test_a_fault_of_another_application_is_none_of_ours(daemon, qm):
    daemon.fault("MQPUT", reason=CMQC.MQRC_Q_FULL, application="somebody else")
    put(qm, "DEV.QUEUE.1")


def test_a_quiescing_queue_manager_lets_go(daemon, qm):
    queue = open_queue(qm, "DEV.QUEUE.1")
    threading.Timer(0.3, lambda: daemon.control("quiesce")).start()
    begin = time.monotonic()
    with Refused(CMQC.MQRC_Q_MGR_QUIESCING):
        get(queue, wait=20_000)
    assert time.monotonic() - begin < 5
    with Refused(CMQC.MQRC_Q_MGR_QUIESCING):
        connect()
    # Who did not ask to fail may finish.
    output = ibmmq.Queue(qm, "DEV.QUEUE.1", CMQC.MQOO_OUTPUT)
    output.put(b"x", ibmmq.MD(), ibmmq.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    qm.commit()
    daemon.control("reset")
    assert depth(qm, "DEV.QUEUE.1") == 1


def test_a_stopping_queue_manager_refuses(daemon, qm):
    daemon.control("stop")
    with Refused(CMQC.MQRC_Q_MGR_STOPPING):
        put(qm, "DEV.QUEUE.1")
    with Refused(CMQC.MQRC_Q_MGR_NOT_AVAILABLE):
        connect()


def test_a_channel_is_narrowed(daemon, qm):
    daemon.control({"channel_limit": {"channel": "DEV.APP.SVRCONN", "instances": 1}})
    with Refused(CMQC.MQRC_CHANNEL_NOT_AVAILABLE):
        connect()
    daemon.control({"channel_limit": {"channel": "DEV.APP.SVRCONN", "instances": None}})
    connect()


def test_the_status_tells_who_is_connected(daemon, qm):
    put(qm, "DEV.QUEUE.1", syncpoint=True)
    daemon.fault("MQGET", reason=CMQC.MQRC_UNEXPECTED_ERROR)
    status = daemon.control("status")
    [connection] = status["connections"]
    assert (connection["channel"], connection["user"]) == ("DEV.APP.SVRCONN", "app")
    assert connection["uncommitted"] == 1
    assert status["faults"] == 1 and status["depths"]["DEV.QUEUE.1"] == 1


def test_a_get_whose_caller_is_gone_takes_nothing(daemon, qm):
    import os

    child = os.fork()
    if child == 0:
        get(open_queue(connect(), "DEV.QUEUE.1"), wait=60_000)
        os._exit(0)
    time.sleep(0.5)
    os.kill(child, 9)
    os.waitpid(child, 0)
    time.sleep(0.5)
    put(qm, "DEV.QUEUE.1", b"kept")
    assert get(open_queue(qm, "DEV.QUEUE.1"))[0] == b"kept"
