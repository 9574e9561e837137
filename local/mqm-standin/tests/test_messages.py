"""Put, get, browse, and what decides which message comes."""

import os
import time

import ibmmq
import pytest
from conftest import Refused, connect, depth, get, open_queue, put
from ibmmq import CMQC


def test_a_message_comes_back_as_it_was_put(qm):
    body = os.urandom(5000)
    sent = put(qm, "DEV.QUEUE.1", body, Format=CMQC.MQFMT_STRING, CodedCharSetId=819, CorrelId=b"c" * 24,
               ReplyToQ="DEV.QUEUE.2", MsgType=CMQC.MQMT_REQUEST, Priority=7, Report=CMQC.MQRO_PASS_CORREL_ID,
               Persistence=CMQC.MQPER_PERSISTENT, Feedback=CMQC.MQFB_NONE)
    assert sent.MsgId.startswith(b"AMQ QM1 ")
    got, md = get(open_queue(qm, "DEV.QUEUE.1"))
    assert got == body
    for member in ("MsgId", "CorrelId", "Format", "CodedCharSetId", "MsgType", "Priority", "Report", "Persistence",
                   "Encoding", "ReplyToQ", "ReplyToQMgr", "PutDate", "PutTime", "UserIdentifier", "PutApplName"):
        assert md[member] == sent[member], member
    assert md.UserIdentifier == b"app".ljust(12)
    assert md.ReplyToQMgr.strip() == b"QM1"
    assert md.PutApplType == CMQC.MQAT_UNIX
    assert time.strftime("%Y%m%d", time.gmtime()) == md.PutDate.decode()
    assert len(md.PutTime.strip()) == 8
    assert depth(qm, "DEV.QUEUE.1") == 0


def test_an_empty_message_is_one(qm):
    put(qm, "DEV.QUEUE.1", b"")
    assert get(open_queue(qm, "DEV.QUEUE.1"))[0] == b""


def test_messages_come_by_priority_and_then_in_their_order(qm):
    for body, priority in ((b"a", 0), (b"b", 9), (b"c", 5), (b"d", 9), (b"e", 0)):
        put(qm, "DEV.QUEUE.1", body, Priority=priority)
    queue = open_queue(qm, "DEV.QUEUE.1")
    assert [get(queue)[0] for _ in range(5)] == [b"b", b"d", b"c", b"a", b"e"]


def test_a_fifo_queue_knows_no_priority(qm):
    for body, priority in ((b"a", 0), (b"b", 9)):
        put(qm, "DEV.FIFO", body, Priority=priority)
    queue = open_queue(qm, "DEV.FIFO")
    assert [get(queue)[0] for _ in range(2)] == [b"a", b"b"]


def test_the_queue_decides_priority_and_persistence_if_the_message_does_not(qm):
    put(qm, "DEV.QUEUE.3")
    _, md = get(open_queue(qm, "DEV.QUEUE.3"))
    assert (md.Priority, md.Persistence) == (4, CMQC.MQPER_PERSISTENT)


@pytest.mark.parametrize("member, option", [
    ("MsgId", CMQC.MQMO_MATCH_MSG_ID),
    ("CorrelId", CMQC.MQMO_MATCH_CORREL_ID),
])
def test_a_get_by_id_takes_that_message_alone(qm, member, option):
    for letter in b"abc":
        put(qm, "DEV.QUEUE.1", bytes([letter]), **{member: bytes([letter]) * 24})
    queue = open_queue(qm, "DEV.QUEUE.1")
    assert get(queue, md=ibmmq.MD(**{member: b"b" * 24}), MatchOptions=option)[0] == b"b"
    with Refused(CMQC.MQRC_NO_MSG_AVAILABLE):
        get(queue, md=ibmmq.MD(**{member: b"b" * 24}), MatchOptions=option)
    assert depth(qm, "DEV.QUEUE.1") == 2


def test_a_browse_goes_through_the_queue_and_changes_nothing(qm):
    for body in (b"a", b"b", b"c"):
        put(qm, "DEV.QUEUE.1", body)
    queue = open_queue(qm, "DEV.QUEUE.1")
    seen = [get(queue, CMQC.MQGMO_BROWSE_FIRST)[0]]
    for _ in range(2):
        body, md = get(queue, CMQC.MQGMO_BROWSE_NEXT)
        seen.append(body)
    assert seen == [b"a", b"b", b"c"]
    assert md.BackoutCount == 0
    with Refused(CMQC.MQRC_NO_MSG_AVAILABLE):
        get(queue, CMQC.MQGMO_BROWSE_NEXT)
    assert get(queue, CMQC.MQGMO_BROWSE_MSG_UNDER_CURSOR)[0] == b"c"
    assert depth(qm, "DEV.QUEUE.1") == 3
    assert get(queue, CMQC.MQGMO_MSG_UNDER_CURSOR)[0] == b"c"
    with Refused(CMQC.MQRC_NO_MSG_UNDER_CURSOR):
        get(queue, CMQC.MQGMO_MSG_UNDER_CURSOR)
    assert get(queue)[0] == b"a"


def test_a_locked_message_is_nobody_elses(qm):
    put(qm, "DEV.QUEUE.1", b"a")
    mine, other = open_queue(qm, "DEV.QUEUE.1"), open_queue(connect(), "DEV.QUEUE.1")
    assert get(mine, CMQC.MQGMO_BROWSE_FIRST | CMQC.MQGMO_LOCK)[0] == b"a"
    with Refused(CMQC.MQRC_NO_MSG_AVAILABLE):
        get(other)
    with Refused(CMQC.MQRC_NO_MSG_AVAILABLE):
        get(other, CMQC.MQGMO_BROWSE_FIRST)
    get(mine, CMQC.MQGMO_UNLOCK)
    assert get(other, CMQC.MQGMO_BROWSE_FIRST)[0] == b"a"
    get(mine, CMQC.MQGMO_BROWSE_FIRST | CMQC.MQGMO_LOCK)
    assert get(mine, CMQC.MQGMO_MSG_UNDER_CURSOR)[0] == b"a"
    with Refused(CMQC.MQRC_NO_MSG_LOCKED, CMQC.MQCC_WARNING):
        get(mine, CMQC.MQGMO_UNLOCK)


def test_an_expired_message_is_gone(qm):
    put(qm, "DEV.QUEUE.1", b"soon", Expiry=2)
    put(qm, "DEV.QUEUE.1", b"later", Expiry=600)
    time.sleep(0.25)
    queue = open_queue(qm, "DEV.QUEUE.1")
    body, md = get(queue)
    assert body == b"later"
    assert 580 < md.Expiry < 600, "what is left of it"


def test_a_waiting_get_wakes_when_a_message_comes(qm):
    queue = open_queue(qm, "DEV.QUEUE.1")
    begin = time.monotonic()
    with Refused(CMQC.MQRC_NO_MSG_AVAILABLE):
        get(queue, wait=300)
    assert 0.28 < time.monotonic() - begin < 2
    import threading

    def later():
        time.sleep(0.3)
        other = connect()
        put(other, "DEV.QUEUE.1", b"late")
        other.disconnect()

    thread = threading.Thread(target=later)
    thread.start()
    assert get(queue, wait=10_000)[0] == b"late"
    thread.join()


def test_a_buffer_that_is_too_small_leaves_the_message_unless_told_otherwise(qm):
    put(qm, "DEV.QUEUE.1", b"0123456789")
    queue = open_queue(qm, "DEV.QUEUE.1")
    with Refused(CMQC.MQRC_TRUNCATED_MSG_FAILED, CMQC.MQCC_WARNING) as failed:
        get(queue, length=4)
    assert (failed.error.message, failed.error.original_length) == (b"0123", 10)
    assert depth(qm, "DEV.QUEUE.1") == 1
    with Refused(CMQC.MQRC_TRUNCATED_MSG_ACCEPTED, CMQC.MQCC_WARNING) as accepted:
        get(queue, CMQC.MQGMO_NO_SYNCPOINT | CMQC.MQGMO_ACCEPT_TRUNCATED_MSG, length=4)
    assert accepted.error.message == b"0123"
    assert depth(qm, "DEV.QUEUE.1") == 0


def test_the_client_grows_its_buffer(qm):
    body = os.urandom(1_000_000)
    put(qm, "DEV.QUEUE.1", body)
    assert open_queue(qm, "DEV.QUEUE.1").get() == body


def test_older_structures_are_understood(qm):
    put(qm, "DEV.QUEUE.1", b"a", CorrelId=b"a" * 24)
    put(qm, "DEV.QUEUE.1", b"b", CorrelId=b"b" * 24)
    queue = open_queue(qm, "DEV.QUEUE.1")
    # The first GMO has no match options: both ids count.
    gmo = ibmmq.GMO(Version=CMQC.MQGMO_VERSION_1, Options=CMQC.MQGMO_NO_SYNCPOINT, MatchOptions=CMQC.MQMO_NONE)
    assert queue.get(100, ibmmq.MD(Version=CMQC.MQMD_VERSION_1, CorrelId=b"b" * 24), gmo) == b"b"
    od = ibmmq.OD(Version=CMQC.MQOD_VERSION_1, ObjectName="DEV.QUEUE.1")
    assert ibmmq.Queue(qm, od, CMQC.MQOO_INPUT_SHARED).get(100) == b"a"


def test_text_is_converted_when_asked(qm):
    put(qm, "DEV.QUEUE.1", "café".encode("latin-1"), Format=CMQC.MQFMT_STRING, CodedCharSetId=819)
    put(qm, "DEV.QUEUE.1", b"\x01\x02")
    queue = open_queue(qm, "DEV.QUEUE.1")
    body, md = get(queue, CMQC.MQGMO_CONVERT, md=ibmmq.MD(CodedCharSetId=1208))
    assert (body.decode(), md.CodedCharSetId) == ("café", 1208)
    with Refused(CMQC.MQRC_FORMAT_ERROR, CMQC.MQCC_WARNING) as warned:
        get(queue, CMQC.MQGMO_CONVERT, md=ibmmq.MD(CodedCharSetId=819))
    assert warned.error.message == b"\x01\x02"


@pytest.mark.parametrize("ccsid, codec, empty", [
    (819, "latin-1", b""), (37, "cp037", b""), (500, "cp500", b""), (1252, "cp1252", b"\x81\x8d\x8f\x90\x9d"),
])
def test_every_character_of_a_set_is_converted_as_python_converts_it(qm, ccsid, codec, empty):
    body = bytes(byte for byte in range(256) if byte not in empty)
    put(qm, "DEV.QUEUE.1", body, Format=CMQC.MQFMT_STRING, CodedCharSetId=ccsid)
    queue = open_queue(qm, "DEV.QUEUE.1")
    text, md = get(queue, CMQC.MQGMO_CONVERT, md=ibmmq.MD(CodedCharSetId=1208))
    assert (text.decode(), md.CodedCharSetId) == (body.decode(codec), 1208)


def test_a_body_that_outgrows_its_buffer_comes_unconverted_and_is_got(qm):
    put(qm, "DEV.QUEUE.1", "café".encode("cp037"), Format=CMQC.MQFMT_STRING, CodedCharSetId=37)
    queue = open_queue(qm, "DEV.QUEUE.1")
    # Too long even before the conversion: it stays.
    with Refused(CMQC.MQRC_TRUNCATED_MSG_FAILED, CMQC.MQCC_WARNING):
        get(queue, CMQC.MQGMO_CONVERT, md=ibmmq.MD(CodedCharSetId=1208), length=3)
    assert depth(qm, "DEV.QUEUE.1") == 1
    md = ibmmq.MD(CodedCharSetId=1208)
    with Refused(CMQC.MQRC_CONVERTED_MSG_TOO_BIG, CMQC.MQCC_WARNING) as warned:
        get(queue, CMQC.MQGMO_CONVERT | CMQC.MQGMO_SYNCPOINT, md=md, length=4)
    assert (warned.error.message.decode("cp037"), warned.error.original_length, md.CodedCharSetId) == ("café", 4, 37)
    with Refused(CMQC.MQRC_NO_MSG_AVAILABLE):
        get(queue)
    qm.backout()
    md = ibmmq.MD(CodedCharSetId=1208)
    body, _ = get(queue, CMQC.MQGMO_CONVERT, md=md, length=5)
    assert (body.decode(), md.CodedCharSetId, md.BackoutCount) == ("café", 1208, 1)


def test_a_body_that_outgrows_its_buffer_is_cut_if_that_was_asked_for(qm):
    put(qm, "DEV.QUEUE.1", "café".encode("cp037"), Format=CMQC.MQFMT_STRING, CodedCharSetId=37)
    how = CMQC.MQGMO_CONVERT | CMQC.MQGMO_ACCEPT_TRUNCATED_MSG
    with Refused(CMQC.MQRC_TRUNCATED_MSG_ACCEPTED, CMQC.MQCC_WARNING) as cut:
        get(open_queue(qm, "DEV.QUEUE.1"), how, md=ibmmq.MD(CodedCharSetId=1208), length=4)
    assert (cut.error.message, cut.error.original_length) == ("café".encode()[:4], 4)


def test_a_put_through_an_alias_reaches_its_base_queue(qm):
    put(qm, "DEV.ALIAS", b"x")
    assert depth(qm, "DEV.QUEUE.2") == 1
    assert get(open_queue(qm, "DEV.ALIAS", CMQC.MQOO_INPUT_SHARED))[0] == b"x"


def test_context_is_set_and_passed_by_those_who_may(qm):
    set_all = CMQC.MQOO_OUTPUT | CMQC.MQOO_SET_ALL_CONTEXT
    queue = ibmmq.Queue(qm, "DEV.QUEUE.1", set_all)
    md = ibmmq.MD(UserIdentifier="somebody", PutApplName="program", PutApplType=CMQC.MQAT_JAVA, PutDate="20200102",
                  PutTime="03040506", ApplIdentityData="identity", ApplOriginData="orig",
                  AccountingToken=b"t" * 32)
    queue.put(b"x", md, ibmmq.PMO(Options=CMQC.MQPMO_SET_ALL_CONTEXT))
    source = open_queue(qm, "DEV.QUEUE.1", CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_SAVE_ALL_CONTEXT)
    _, got = get(source)
    assert got.UserIdentifier.strip() == b"somebody" and got.PutDate == b"20200102"
    target = ibmmq.Queue(qm, "DEV.QUEUE.2", CMQC.MQOO_OUTPUT)
    with Refused(CMQC.MQRC_NOT_OPEN_FOR_PASS_ALL):
        target.put(b"y", ibmmq.MD(), ibmmq.PMO(Options=CMQC.MQPMO_PASS_ALL_CONTEXT, Context=source.get_handle()))
    target = ibmmq.Queue(qm, "DEV.QUEUE.2", CMQC.MQOO_OUTPUT | CMQC.MQOO_PASS_ALL_CONTEXT)
    target.put(b"y", ibmmq.MD(), ibmmq.PMO(Options=CMQC.MQPMO_PASS_ALL_CONTEXT, Context=source.get_handle()))
    _, passed = get(open_queue(qm, "DEV.QUEUE.2"))
    assert (passed.UserIdentifier.strip(), passed.PutApplName.strip()) == (b"somebody", b"program")
    assert (passed.AccountingToken, passed.ApplOriginData) == (b"t" * 32, b"orig")
