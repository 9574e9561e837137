"""The command server, by the administrator's part of IBM's Python client."""

import ibmmq
import pytest
from conftest import Refused, connect, depth, get, open_queue, put
from ibmmq import CMQC, CMQCFC


@pytest.fixture
def admin(daemon):
    return connect(user="admin", channel="DEV.ADMIN.SVRCONN")


@pytest.fixture
def pcf(admin):
    return ibmmq.PCFExecute(admin, response_wait_interval=3000)


def names(responses):
    return [ibmmq.to_string(response[CMQC.MQCA_Q_NAME]).strip() for response in responses]


def test_a_queue_is_made_inquired_changed_and_deleted(pcf, admin):
    name = {CMQC.MQCA_Q_NAME: "APP.ORDERS", CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL}
    pcf.MQCMD_CREATE_Q({**name, CMQC.MQIA_MAX_Q_DEPTH: 2, CMQC.MQCA_Q_DESC: "Orders"})
    put(admin, "APP.ORDERS")
    with Refused(CMQCFC.MQRCCF_OBJECT_ALREADY_EXISTS):
        pcf.MQCMD_CREATE_Q(name)
    [queue] = pcf.MQCMD_INQUIRE_Q({CMQC.MQCA_Q_NAME: "APP.ORDERS"})
    assert queue[CMQC.MQIA_MAX_Q_DEPTH] == 2 and queue[CMQC.MQIA_CURRENT_Q_DEPTH] == 1
    assert ibmmq.to_string(queue[CMQC.MQCA_Q_DESC]) == "Orders"
    pcf.MQCMD_CHANGE_Q({**name, CMQC.MQIA_MAX_Q_DEPTH: 1})
    with Refused(CMQC.MQRC_Q_FULL):
        put(admin, "APP.ORDERS")
    with Refused(CMQC.MQRC_Q_NOT_EMPTY):
        pcf.MQCMD_DELETE_Q({CMQC.MQCA_Q_NAME: "APP.ORDERS"})
    pcf.MQCMD_CLEAR_Q({CMQC.MQCA_Q_NAME: "APP.ORDERS"})
    assert depth(admin, "APP.ORDERS") == 0
    opened = open_queue(admin, "APP.ORDERS")
    with Refused(CMQCFC.MQRCCF_OBJECT_OPEN):
        pcf.MQCMD_DELETE_Q({CMQC.MQCA_Q_NAME: "APP.ORDERS"})
    opened.close()
    pcf.MQCMD_DELETE_Q({CMQC.MQCA_Q_NAME: "APP.ORDERS"})
    with Refused(CMQC.MQRC_UNKNOWN_OBJECT_NAME):
        put(admin, "APP.ORDERS")
    with Refused(CMQC.MQRC_UNKNOWN_OBJECT_NAME):
        pcf.MQCMD_INQUIRE_Q({CMQC.MQCA_Q_NAME: "APP.ORDERS"})


def test_queues_are_found_by_pattern_type_and_filter(pcf, admin):
    found = names(pcf.MQCMD_INQUIRE_Q({CMQC.MQCA_Q_NAME: "DEV.QUEUE.*"}))
    assert found == ["DEV.QUEUE.1", "DEV.QUEUE.2", "DEV.QUEUE.3"]
    aliases = {CMQC.MQCA_Q_NAME: "DEV.*", CMQC.MQIA_Q_TYPE: CMQC.MQQT_ALIAS}
    assert names(pcf.MQCMD_INQUIRE_Q(aliases)) == ["DEV.ALIAS", "DEV.DANGLING"]
    put(admin, "DEV.QUEUE.2")
    filled = ibmmq.Filter(CMQC.MQIA_CURRENT_Q_DEPTH).greater(0)
    assert names(pcf.MQCMD_INQUIRE_Q({CMQC.MQCA_Q_NAME: "DEV.*"}, [filled])) == ["DEV.QUEUE.2"]
    few = {CMQC.MQCA_Q_NAME: "DEV.QUEUE.2", CMQCFC.MQIACF_Q_ATTRS: [CMQC.MQIA_CURRENT_Q_DEPTH]}
    [queue] = pcf.MQCMD_INQUIRE_Q(few)
    assert set(queue) == {CMQC.MQCA_Q_NAME, CMQC.MQIA_Q_TYPE, CMQC.MQIA_CURRENT_Q_DEPTH}
    [listed] = pcf.MQCMD_INQUIRE_Q_NAMES({CMQC.MQCA_Q_NAME: "DEV.QUEUE.*"})
    assert [ibmmq.to_string(name).strip() for name in listed[CMQCFC.MQCACF_Q_NAMES]] == found
    [status] = pcf.MQCMD_INQUIRE_Q_STATUS({CMQC.MQCA_Q_NAME: "DEV.QUEUE.2"})
    assert status[CMQC.MQIA_CURRENT_Q_DEPTH] == 1 and status[CMQCFC.MQIACF_UNCOMMITTED_MSGS] == 0


def test_the_queue_manager_tells_of_itself(pcf):
    pcf.MQCMD_PING_Q_MGR()
    [manager] = pcf.MQCMD_INQUIRE_Q_MGR()
    assert ibmmq.to_string(manager[CMQC.MQCA_Q_MGR_NAME]).strip() == "QM1"
    assert manager[CMQC.MQIA_MAX_UNCOMMITTED_MSGS] == 10000


@pytest.mark.parametrize("command, arguments, reason", [
    ("MQCMD_INQUIRE_CHANNEL", {CMQCFC.MQCACH_CHANNEL_NAME: "*"}, CMQCFC.MQRCCF_CFH_COMMAND_ERROR),
    ("MQCMD_INQUIRE_Q", {}, CMQCFC.MQRCCF_PARM_COUNT_TOO_SMALL),
    ("MQCMD_CREATE_Q", {CMQC.MQCA_Q_NAME: "A B", CMQC.MQIA_Q_TYPE: 1}, CMQCFC.MQRCCF_OBJECT_NAME_ERROR),
    ("MQCMD_CREATE_Q", {CMQC.MQCA_Q_NAME: "A", CMQC.MQIA_Q_TYPE: 1, CMQC.MQIA_DEF_PRIORITY: 11},
     CMQCFC.MQRCCF_ATTR_VALUE_ERROR),
    ("MQCMD_CLEAR_Q", {CMQC.MQCA_Q_NAME: "DEV.ALIAS"}, CMQCFC.MQRCCF_OBJECT_WRONG_TYPE),
])
def test_a_command_that_fails_says_why(pcf, command, arguments, reason):
    with Refused(reason):
        getattr(pcf, command)(arguments)


def test_a_queue_that_was_made_outlives_the_queue_manager(daemon, pcf, admin):
    pcf.MQCMD_CREATE_Q({CMQC.MQCA_Q_NAME: "DEV.MADE", CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL})
    put(admin, "DEV.MADE", b"kept", Persistence=CMQC.MQPER_PERSISTENT)
    daemon.kill()
    daemon.start()
    qm = connect()
    assert get(open_queue(qm, "DEV.MADE"))[0] == b"kept"


def test_an_application_is_no_administrator(daemon):
    with Refused(CMQC.MQRC_NOT_AUTHORIZED):
        pcf = ibmmq.PCFExecute(connect(), response_wait_interval=3000)
        pcf.MQCMD_PING_Q_MGR()
