"""The reason codes that an application meets, each as the queue manager gives it."""

import json

import ibmmq
import pytest
from conftest import Refused, connect, depth, get, open_queue, put
from ibmmq import CMQC


@pytest.mark.parametrize("arguments, reason", [
    ({"user": "nobody"}, CMQC.MQRC_NOT_AUTHORIZED),
    ({"password": "wrong"}, CMQC.MQRC_NOT_AUTHORIZED),
    ({"user": None}, CMQC.MQRC_NOT_AUTHORIZED),
    ({"user": "admin"}, CMQC.MQRC_NOT_AUTHORIZED),
    ({"channel": "NO.SUCH.CHANNEL"}, CMQC.MQRC_UNKNOWN_CHANNEL_NAME),
    ({"name": "QM2"}, CMQC.MQRC_Q_MGR_NAME_ERROR),
    ({"at": "localhost(1)"}, CMQC.MQRC_HOST_NOT_AVAILABLE),
    ({"at": "no.such.host(1414)"}, CMQC.MQRC_HOST_NOT_AVAILABLE),
])
def test_a_connection_that_is_refused(daemon, arguments, reason):
    with Refused(reason):
        connect(**arguments)


@pytest.mark.parametrize("arguments", [
    {"name": ""},
    {"name": "*QM1"},
    {"name": "*ANY"},
    {"at": "localhost(1),localhost(1414)"},
    {"at": "LOCALHOST"},
])
def test_a_connection_that_is_made(daemon, arguments):
    qm = connect(**arguments)
    assert qm.inquire(CMQC.MQCA_Q_MGR_NAME).strip() in (b"QM1", "QM1")


def test_a_cipher_is_refused_since_there_is_no_tls(daemon):
    from ibmmq import CD, CSP, CMQXC, QueueManager

    cd = CD(ChannelName="DEV.APP.SVRCONN", ConnectionName="localhost(1414)", ChannelType=CMQXC.MQCHT_CLNTCONN,
            SSLCipherSpec="ANY_TLS12_OR_HIGHER")
    with Refused(CMQC.MQRC_SSL_INITIALIZATION_ERROR):
        QueueManager(None).connect_with_options("QM1", cd=cd, csp=CSP(CSPUserId="app", CSPPassword="passw0rd"))


def by_table(table, name):
    """Connects by a table of channels."""
    csp = ibmmq.CSP(CSPUserId="app", CSPPassword="passw0rd")
    qm = ibmmq.QueueManager(None)
    qm.connect_with_options(name, csp=csp, cno=ibmmq.CNO(Version=CMQC.MQCNO_VERSION_6, CCDTUrl=f"file://{table}"))
    return qm


def test_a_table_may_say_where_to_connect_to(daemon, tmp_path):
    connection = {"connection": [{"host": "localhost", "port": 1414}], "queueManager": "QM1"}
    table = tmp_path / "ccdt.json"
    table.write_text(json.dumps({"channel": [{"name": "DEV.APP.SVRCONN", "clientConnection": connection}]}))
    put(by_table(table, "QM1"), "DEV.QUEUE.1")
    with Refused(CMQC.MQRC_Q_MGR_NAME_ERROR):
        by_table(table, "QM2")


def test_channels_of_a_table_are_tried_in_alphabetical_order(daemon, tmp_path):
    def channel(name, *ports):
        connection = [{"host": "localhost", "port": port} for port in ports]
        return {"name": name, "clientConnection": {"connection": connection, "queueManager": "QM1"}}

    table = tmp_path / "ccdt.json"
    # Nothing listens at the first one, and the one after that is the one that refuses this user.
    channels = [channel("DEV.ADMIN.SVRCONN", 9, 1414), channel("DEV.APP.SVRCONN", 1414), channel("A", 9)]
    table.write_text(json.dumps({"channel": channels}))
    with Refused(CMQC.MQRC_NOT_AUTHORIZED):
        by_table(table, "QM1")
    table.write_text(json.dumps({"channel": channels[1:]}))
    put(by_table(table, "QM1"), "DEV.QUEUE.1")


def test_a_channel_admits_so_many_connections(daemon):
    held = [connect(channel="DEV.NARROW.SVRCONN") for _ in range(5)]
    with Refused(CMQC.MQRC_CHANNEL_NOT_AVAILABLE):
        connect(channel="DEV.NARROW.SVRCONN")
    held.pop().disconnect()
    connect(channel="DEV.NARROW.SVRCONN")


@pytest.mark.parametrize("queue, options, reason", [
    ("NO.SUCH.QUEUE", CMQC.MQOO_OUTPUT, CMQC.MQRC_UNKNOWN_OBJECT_NAME),
    ("DEV.DANGLING", CMQC.MQOO_OUTPUT, CMQC.MQRC_UNKNOWN_ALIAS_BASE_Q),
    ("DEV.REMOTE", CMQC.MQOO_OUTPUT, CMQC.MQRC_UNKNOWN_REMOTE_Q_MGR),
    ("DEV.REMOTE", CMQC.MQOO_INPUT_SHARED, CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE),
    ("SYSTEM.ADMIN.COMMAND.QUEUE", CMQC.MQOO_OUTPUT, CMQC.MQRC_NOT_AUTHORIZED),
    ("DEV.QUEUE.1", 0, CMQC.MQRC_OPTIONS_ERROR),
    ("DEV.QUEUE.1", CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_INPUT_EXCLUSIVE, CMQC.MQRC_OPTIONS_ERROR),
    ("DEV.FIFO", CMQC.MQOO_OUTPUT | CMQC.MQOO_SET_ALL_CONTEXT, CMQC.MQRC_NOT_AUTHORIZED),
])
def test_a_queue_that_cannot_be_opened_so(qm, queue, options, reason):
    with Refused(reason):
        ibmmq.Queue(qm, queue, options)


def test_another_queue_managers_queue_is_unknown(qm):
    with Refused(CMQC.MQRC_UNKNOWN_REMOTE_Q_MGR):
        ibmmq.Queue(qm, ibmmq.OD(ObjectName="X", ObjectQMgrName="QM2"), CMQC.MQOO_OUTPUT)


def test_a_right_is_checked_for_each_use(daemon):
    other = connect(user="other")
    put(other, "DEV.QUEUE.1", b"x")
    with Refused(CMQC.MQRC_NOT_AUTHORIZED):
        open_queue(other, "DEV.QUEUE.1")
    with Refused(CMQC.MQRC_NOT_AUTHORIZED):
        put(other, "DEV.QUEUE.2", b"x")


def test_a_queue_has_its_limits(qm):
    with Refused(CMQC.MQRC_MSG_TOO_BIG_FOR_Q):
        put(qm, "DEV.SMALL", b"x" * 1025)
    for _ in range(3):
        put(qm, "DEV.SMALL", b"x" * 1024)
    with Refused(CMQC.MQRC_Q_FULL):
        put(qm, "DEV.SMALL", b"x")
    get(open_queue(qm, "DEV.SMALL"))
    put(qm, "DEV.SMALL", b"x")


def test_a_message_has_the_limit_of_its_queue_manager(qm):
    with Refused(CMQC.MQRC_MSG_TOO_BIG_FOR_Q_MGR):
        put(qm, "DEV.QUEUE.1", b"x" * (4 * 1024 * 1024 + 1))


def test_inhibited_queues_refuse(qm):
    with Refused(CMQC.MQRC_PUT_INHIBITED):
        put(qm, "DEV.PUT.INHIBITED")
    queue = open_queue(qm, "DEV.GET.INHIBITED")
    with Refused(CMQC.MQRC_GET_INHIBITED):
        get(queue)


def test_a_handle_does_what_it_was_opened_for(qm):
    output = ibmmq.Queue(qm, "DEV.QUEUE.1", CMQC.MQOO_OUTPUT)
    with Refused(CMQC.MQRC_NOT_OPEN_FOR_INPUT):
        get(output)
    with Refused(CMQC.MQRC_NOT_OPEN_FOR_BROWSE):
        get(output, CMQC.MQGMO_BROWSE_FIRST)
    with Refused(CMQC.MQRC_NOT_OPEN_FOR_INQUIRE):
        output.inquire(CMQC.MQIA_CURRENT_Q_DEPTH)
    with Refused(CMQC.MQRC_NOT_OPEN_FOR_OUTPUT):
        open_queue(qm, "DEV.QUEUE.1").put(b"x")


@pytest.mark.parametrize("fields, reason", [
    ({"Persistence": 9}, CMQC.MQRC_PERSISTENCE_ERROR),
    ({"Priority": -5}, CMQC.MQRC_PRIORITY_ERROR),
    ({"Expiry": 0}, CMQC.MQRC_EXPIRY_ERROR),
    ({"MsgType": 0}, CMQC.MQRC_MSG_TYPE_ERROR),
    ({"MsgType": CMQC.MQMT_REQUEST}, CMQC.MQRC_MISSING_REPLY_TO_Q),
    ({"Version": 9}, CMQC.MQRC_MD_ERROR),
])
def test_a_descriptor_that_is_wrong(qm, fields, reason):
    with Refused(reason):
        put(qm, "DEV.QUEUE.1", **fields)


def test_a_priority_that_is_too_high_is_a_warning(qm):
    with Refused(CMQC.MQRC_PRIORITY_EXCEEDS_MAXIMUM, CMQC.MQCC_WARNING):
        put(qm, "DEV.QUEUE.1", Priority=12)
    assert depth(qm, "DEV.QUEUE.1") == 1


def test_what_the_stand_in_lacks_is_refused(qm):
    with Refused(CMQC.MQRC_OPTION_ENVIRONMENT_ERROR):
        get(open_queue(qm, "DEV.QUEUE.1"), CMQC.MQGMO_LOGICAL_ORDER)


def test_a_closed_connection_has_no_handle(qm):
    handle = qm.get_handle()
    qm.disconnect()
    assert ibmmq.ibmmqc.MQCMIT(handle) == (CMQC.MQCC_FAILED, CMQC.MQRC_HCONN_ERROR)


def test_attributes_of_queue_and_queue_manager(qm):
    put(qm, "DEV.QUEUE.1")
    queue = open_queue(qm, "DEV.QUEUE.1")
    values = queue.inquire([CMQC.MQCA_Q_NAME, CMQC.MQIA_CURRENT_Q_DEPTH, CMQC.MQIA_MAX_Q_DEPTH,
                            CMQC.MQIA_OPEN_INPUT_COUNT, CMQC.MQIA_OPEN_OUTPUT_COUNT, CMQC.MQIA_Q_TYPE])
    assert ibmmq.to_string(values[CMQC.MQCA_Q_NAME]).strip() == "DEV.QUEUE.1"
    assert [values[CMQC.MQIA_CURRENT_Q_DEPTH], values[CMQC.MQIA_MAX_Q_DEPTH]] == [1, 5000]
    assert [values[CMQC.MQIA_OPEN_INPUT_COUNT], values[CMQC.MQIA_OPEN_OUTPUT_COUNT]] == [1, 0]
    assert values[CMQC.MQIA_Q_TYPE] == CMQC.MQQT_LOCAL
    poison = open_queue(qm, "DEV.POISON", CMQC.MQOO_INQUIRE)
    assert poison.inquire(CMQC.MQIA_BACKOUT_THRESHOLD) == 3
    assert ibmmq.to_string(poison.inquire(CMQC.MQCA_BACKOUT_REQ_Q_NAME)).strip() == "DEV.BACKOUT"
    alias = open_queue(qm, "DEV.ALIAS", CMQC.MQOO_INQUIRE)
    assert ibmmq.to_string(alias.inquire(CMQC.MQCA_BASE_Q_NAME)).strip() == "DEV.QUEUE.2"
    remote = open_queue(qm, "DEV.REMOTE", CMQC.MQOO_INQUIRE)
    assert remote.inquire(CMQC.MQIA_Q_TYPE) == CMQC.MQQT_REMOTE
    for opened, selector in ((queue, CMQC.MQIA_CHANNEL_EVENT), (alias, CMQC.MQIA_CURRENT_Q_DEPTH)):
        with Refused(CMQC.MQRC_SELECTOR_ERROR):
            opened.inquire(selector)
    assert qm.inquire(CMQC.MQIA_PLATFORM) == CMQC.MQPL_UNIX
    assert qm.inquire(CMQC.MQIA_CODED_CHAR_SET_ID) == 1208


def test_a_dynamic_queue_lives_until_it_is_closed(qm):
    od = ibmmq.OD(ObjectName="SYSTEM.DEFAULT.MODEL.QUEUE", DynamicQName="AMQ.TEST.*")
    temporary = ibmmq.Queue(qm, od, CMQC.MQOO_INPUT_SHARED)
    name = od.ObjectName.strip().decode()
    assert name.startswith("AMQ.TEST.")
    put(qm, name, b"x")
    with Refused(CMQC.MQRC_PERSISTENT_NOT_ALLOWED):
        put(qm, name, b"x", Persistence=CMQC.MQPER_PERSISTENT)
    assert get(temporary)[0] == b"x"
    temporary.close()
    with Refused(CMQC.MQRC_UNKNOWN_OBJECT_NAME):
        put(qm, name, b"x")
