"""Asynchronous consumption: MQCB and MQCTL."""

import queue as queues

import ibmmq
import pytest
from conftest import Refused, connect, depth, open_queue, put
from ibmmq import CMQC

SOON = 10


class Calls:
    """A callback that keeps what it was called with."""

    def __init__(self, then=None):
        self.calls = queues.Queue()
        self.then = then

    def __call__(self, *, cbc, msg, md, **_):
        self.calls.put((cbc.CallType, cbc.Reason, msg, md))
        if self.then:
            self.then()

    def next(self):
        return self.calls.get(timeout=SOON)

    def message(self):
        call, reason, body, _ = self.next()
        assert (call, reason) == (CMQC.MQCBCT_MSG_REMOVED, CMQC.MQRC_NONE)
        return body


def consume(queue, calls, options=CMQC.MQGMO_NO_SYNCPOINT, cbd_options=CMQC.MQCBDO_NONE, md=None, length=-1, **gmo):
    cbd = ibmmq.CBD(CallbackFunction=calls, Options=cbd_options, MaxMsgLength=length)
    gmo = ibmmq.GMO(Options=options | CMQC.MQGMO_FAIL_IF_QUIESCING, **gmo)
    queue.cb(operation=CMQC.MQOP_REGISTER, cbd=cbd, gmo=gmo, md=md or ibmmq.MD())


def waiting(milliseconds=CMQC.MQWI_UNLIMITED, options=CMQC.MQGMO_NO_SYNCPOINT):
    return {"options": options | CMQC.MQGMO_WAIT, "WaitInterval": milliseconds}


def control(qm, operation):
    qm.ctl(operation, ibmmq.CTLO())


def test_messages_come_in_their_order_and_leave_the_queue(qm):
    calls = Calls()
    put(qm, "DEV.QUEUE.1", b"before")
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, **waiting())
    control(qm, CMQC.MQOP_START)
    other = connect()
    for number in range(20):
        put(other, "DEV.QUEUE.1", b"%d" % number)
    assert [calls.message() for _ in range(21)] == [b"before", *(b"%d" % number for number in range(20))]
    control(qm, CMQC.MQOP_STOP)
    assert depth(qm, "DEV.QUEUE.1") == 0


def test_a_started_connection_takes_no_other_calls_until_it_is_suspended(qm):
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, Calls(), **waiting())
    control(qm, CMQC.MQOP_START)
    with Refused(CMQC.MQRC_HCONN_ASYNC_ACTIVE):
        put(qm, "DEV.QUEUE.2")
    control(qm, CMQC.MQOP_SUSPEND)
    put(qm, "DEV.QUEUE.2")
    with Refused(CMQC.MQRC_OPERATION_NOT_ALLOWED):
        control(qm, CMQC.MQOP_START)
    control(qm, CMQC.MQOP_RESUME)
    with Refused(CMQC.MQRC_HCONN_ASYNC_ACTIVE):
        qm.commit()
    control(qm, CMQC.MQOP_STOP)
    for operation in (CMQC.MQOP_SUSPEND, CMQC.MQOP_RESUME):
        with Refused(CMQC.MQRC_OPERATION_NOT_ALLOWED):
            control(qm, operation)


def test_a_callback_may_use_the_connection(qm):
    calls = Calls(then=lambda: (put(qm, "DEV.QUEUE.2", b"forwarded", syncpoint=True), qm.commit()))
    put(qm, "DEV.QUEUE.1", b"one")
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, **waiting(options=CMQC.MQGMO_SYNCPOINT))
    control(qm, CMQC.MQOP_START)
    assert calls.message() == b"one"
    control(qm, CMQC.MQOP_STOP)
    assert (depth(qm, "DEV.QUEUE.1"), depth(qm, "DEV.QUEUE.2")) == (0, 1)


def test_what_is_got_under_syncpoint_comes_back_without_a_commit(qm):
    calls = Calls()
    put(qm, "DEV.QUEUE.1", b"one")
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, **waiting(options=CMQC.MQGMO_SYNCPOINT))
    control(qm, CMQC.MQOP_START)
    assert calls.message() == b"one"
    control(qm, CMQC.MQOP_STOP)
    qm.backout()
    control(qm, CMQC.MQOP_START)
    *_, body, md = calls.next()
    assert (body, md.BackoutCount) == (b"one", 1)


def test_a_consumer_is_told_that_no_message_came_in_its_time(qm):
    calls = Calls()
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, **waiting(300))
    control(qm, CMQC.MQOP_START)
    for _ in range(2):
        assert calls.next()[:2] == (CMQC.MQCBCT_EVENT_CALL, CMQC.MQRC_NO_MSG_AVAILABLE)


def test_browsing_goes_through_the_queue_once(qm):
    calls = Calls()
    for body in (b"one", b"two"):
        put(qm, "DEV.QUEUE.1", body)
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, options=CMQC.MQGMO_BROWSE_FIRST)
    control(qm, CMQC.MQOP_START)
    browsed = [calls.next()[::2][:2] for _ in range(2)]
    assert browsed == [(CMQC.MQCBCT_MSG_NOT_REMOVED, body) for body in (b"one", b"two")]
    assert calls.next()[1] == CMQC.MQRC_NO_MSG_AVAILABLE
    control(qm, CMQC.MQOP_STOP)
    assert depth(qm, "DEV.QUEUE.1") == 2


def test_each_queue_has_its_consumer(qm):
    consumers = {name: Calls() for name in ("DEV.QUEUE.1", "DEV.QUEUE.2")}
    opened = [open_queue(qm, name) for name in consumers]
    for queue, calls in zip(opened, consumers.values()):
        consume(queue, calls, **waiting())
    control(qm, CMQC.MQOP_START)
    other = connect()
    for name in consumers:
        put(other, name, name.encode())
    assert [calls.message() for calls in consumers.values()] == [name.encode() for name in consumers]


def test_a_consumer_may_select_by_correlation_id(qm):
    calls = Calls()
    put(qm, "DEV.QUEUE.1", b"other", CorrelId=b"a" * 24)
    put(qm, "DEV.QUEUE.1", b"wanted", CorrelId=b"b" * 24)
    queue = open_queue(qm, "DEV.QUEUE.1")
    options = {**waiting(), "MatchOptions": CMQC.MQMO_MATCH_CORREL_ID}
    consume(queue, calls, md=ibmmq.MD(CorrelId=b"b" * 24), Version=CMQC.MQGMO_VERSION_2, **options)
    control(qm, CMQC.MQOP_START)
    assert calls.message() == b"wanted"
    control(qm, CMQC.MQOP_STOP)
    assert depth(qm, "DEV.QUEUE.1") == 1


def test_a_message_that_is_too_long_stays_and_suspends_its_consumer(qm):
    calls = Calls()
    put(qm, "DEV.QUEUE.1", b"x" * 100)
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, length=10, **waiting())
    control(qm, CMQC.MQOP_START)
    call, reason, body, _ = calls.next()
    assert (call, reason) == (CMQC.MQCBCT_MSG_NOT_REMOVED, CMQC.MQRC_TRUNCATED_MSG_FAILED)
    assert body == b"x" * 10
    control(qm, CMQC.MQOP_STOP)
    assert depth(qm, "DEV.QUEUE.1") == 1


def test_a_consumer_asks_to_be_called_when_its_state_changes(qm):
    calls = Calls()
    options = (
        CMQC.MQCBDO_START_CALL | CMQC.MQCBDO_STOP_CALL | CMQC.MQCBDO_DEREGISTER_CALL
    )
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, cbd_options=options, **waiting())
    control(qm, CMQC.MQOP_START)
    control(qm, CMQC.MQOP_STOP)
    queue.cb(operation=CMQC.MQOP_DEREGISTER, cbd=ibmmq.CBD(CallbackFunction=calls))
    expected = [CMQC.MQCBCT_START_CALL, CMQC.MQCBCT_STOP_CALL, CMQC.MQCBCT_DEREGISTER_CALL]
    assert [calls.next()[0] for _ in expected] == expected
    with Refused(CMQC.MQRC_CALLBACK_NOT_REGISTERED):
        queue.cb(operation=CMQC.MQOP_DEREGISTER, cbd=ibmmq.CBD(CallbackFunction=calls))


def test_a_closed_queue_has_no_consumer_any_more(qm):
    calls = Calls()
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, **waiting())
    queue.close()
    put(qm, "DEV.QUEUE.1")
    control(qm, CMQC.MQOP_START)
    with pytest.raises(queues.Empty):
        calls.calls.get(timeout=0.3)
    control(qm, CMQC.MQOP_STOP)
    assert depth(qm, "DEV.QUEUE.1") == 1


def test_consumers_and_the_event_handler_are_told_that_the_connection_is_lost(daemon, qm):
    calls, events = Calls(), Calls()
    queue = open_queue(qm, "DEV.QUEUE.1")
    consume(queue, calls, **waiting())
    handler = ibmmq.CBD(CallbackFunction=events, CallbackType=CMQC.MQCBT_EVENT_HANDLER)
    qm.cb(operation=CMQC.MQOP_REGISTER, cbd=handler)
    control(qm, CMQC.MQOP_START)
    daemon.kill()
    for told in (calls, events):
        assert told.next()[:2] == (CMQC.MQCBCT_EVENT_CALL, CMQC.MQRC_CONNECTION_BROKEN)


def test_wrong_registrations_are_refused(qm):
    putting = open_queue(qm, "DEV.QUEUE.1", CMQC.MQOO_OUTPUT)
    with Refused(CMQC.MQRC_NOT_OPEN_FOR_INPUT):
        consume(putting, Calls())
    getting = open_queue(qm, "DEV.QUEUE.1")
    with Refused(CMQC.MQRC_CBD_OPTIONS_ERROR):
        consume(getting, Calls(), cbd_options=1 << 30)
    with Refused(CMQC.MQRC_CALLBACK_TYPE_ERROR):
        getting.cb(operation=CMQC.MQOP_REGISTER, cbd=ibmmq.CBD(CallbackFunction=Calls(), CallbackType=7))
    with Refused(CMQC.MQRC_OPERATION_ERROR):
        control(qm, 77)
