"""Units of work: alone, against each other, and when their connection or the queue manager dies."""

import os
import threading

import ibmmq
from conftest import Refused, connect, depth, get, open_queue, put
from ibmmq import CMQC


def test_nobody_sees_a_put_before_it_is_committed(qm):
    other = open_queue(connect(), "DEV.QUEUE.1")
    put(qm, "DEV.QUEUE.1", b"a", syncpoint=True)
    with Refused(CMQC.MQRC_NO_MSG_AVAILABLE):
        get(other)
    assert depth(qm, "DEV.QUEUE.1") == 1, "the depth counts it all the same"
    qm.commit()
    assert get(other)[0] == b"a"


def test_a_backout_undoes_puts_and_brings_back_gets_with_a_count(qm):
    put(qm, "DEV.QUEUE.1", b"a")
    queue = open_queue(qm, "DEV.QUEUE.1")
    for count in range(3):
        body, md = get(queue, CMQC.MQGMO_SYNCPOINT)
        assert (body, md.BackoutCount) == (b"a", count)
        put(qm, "DEV.QUEUE.2", b"b", syncpoint=True)
        assert depth(qm, "DEV.QUEUE.1") == 0
        qm.backout()
        assert (depth(qm, "DEV.QUEUE.1"), depth(qm, "DEV.QUEUE.2")) == (1, 0)


def test_a_message_that_is_backed_out_is_first_again(qm):
    for body in (b"a", b"b"):
        put(qm, "DEV.QUEUE.1", body)
    queue = open_queue(qm, "DEV.QUEUE.1")
    get(queue, CMQC.MQGMO_SYNCPOINT)
    assert get(open_queue(connect(), "DEV.QUEUE.1"))[0] == b"b"
    qm.backout()
    assert get(queue)[0] == b"a"


def test_disconnecting_commits_and_losing_the_connection_backs_out(daemon, qm):
    leaving = connect()
    put(leaving, "DEV.QUEUE.1", b"a", syncpoint=True)
    leaving.disconnect()
    assert depth(qm, "DEV.QUEUE.1") == 1

    child = os.fork()
    if child == 0:
        lost = connect()
        put(lost, "DEV.QUEUE.1", b"b", syncpoint=True)
        get(open_queue(lost, "DEV.QUEUE.1"), CMQC.MQGMO_SYNCPOINT)
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    body, md = get(open_queue(qm, "DEV.QUEUE.1"), wait=5000)
    assert (body, md.BackoutCount) == (b"a", 1)
    assert depth(qm, "DEV.QUEUE.1") == 0


def test_a_unit_of_work_has_a_limit(qm):
    queue = ibmmq.Queue(qm, "DEV.QUEUE.1", CMQC.MQOO_OUTPUT)
    for _ in range(5000):
        queue.put(b"x", ibmmq.MD(), ibmmq.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    with Refused(CMQC.MQRC_Q_FULL):
        queue.put(b"x", ibmmq.MD(), ibmmq.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    second = ibmmq.Queue(qm, "DEV.QUEUE.2", CMQC.MQOO_OUTPUT)
    for _ in range(5000):
        second.put(b"x", ibmmq.MD(), ibmmq.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    with Refused(CMQC.MQRC_SYNCPOINT_LIMIT_REACHED):
        put(qm, "DEV.FIFO", b"x", syncpoint=True)
    qm.commit()
    assert depth(qm, "DEV.QUEUE.1") == depth(qm, "DEV.QUEUE.2") == 5000


def test_of_many_consumers_one_gets_each_message(qm):
    count = 400
    for number in range(count):
        put(qm, "DEV.QUEUE.1", str(number).encode())
    taken, lock = [], threading.Lock()

    def consume(number):
        mine = connect()
        queue = open_queue(mine, "DEV.QUEUE.1")
        while True:
            try:
                body, _ = get(queue, CMQC.MQGMO_SYNCPOINT, wait=200)
            except ibmmq.MQMIError as error:
                assert error.reason == CMQC.MQRC_NO_MSG_AVAILABLE
                break
            if (int(body) + number) % 5 == 0:
                mine.backout()
            else:
                mine.commit()
                with lock:
                    taken.append(int(body))
        mine.disconnect()

    threads = [threading.Thread(target=consume, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(count))


def test_threads_may_share_a_connection(qm):
    def work():
        queue = ibmmq.Queue(qm, "DEV.QUEUE.1", CMQC.MQOO_OUTPUT)
        for _ in range(50):
            queue.put(b"x")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert depth(qm, "DEV.QUEUE.1") == 200


def test_persistent_messages_outlive_a_killed_queue_manager(daemon):
    qm = connect()
    for number in range(3):
        put(qm, "DEV.QUEUE.1", f"kept {number}".encode(), Persistence=CMQC.MQPER_PERSISTENT)
    put(qm, "DEV.QUEUE.1", b"not kept", Persistence=CMQC.MQPER_NOT_PERSISTENT)
    put(qm, "DEV.QUEUE.2", b"committed", syncpoint=True, Persistence=CMQC.MQPER_PERSISTENT)
    qm.commit()
    queue = open_queue(qm, "DEV.QUEUE.1")
    get(queue)
    get(queue, CMQC.MQGMO_SYNCPOINT)
    put(qm, "DEV.QUEUE.2", b"uncommitted", syncpoint=True, Persistence=CMQC.MQPER_PERSISTENT)
    daemon.kill()
    with Refused(CMQC.MQRC_CONNECTION_BROKEN):
        qm.commit()
    with Refused(CMQC.MQRC_HOST_NOT_AVAILABLE):
        connect()

    daemon.start()
    again = connect()
    queue = open_queue(again, "DEV.QUEUE.1")
    assert [get(queue)[0] for _ in range(2)] == [b"kept 1", b"kept 2"]
    assert depth(again, "DEV.QUEUE.1") == 0
    assert get(open_queue(again, "DEV.QUEUE.2"))[0] == b"committed"
    assert depth(again, "DEV.QUEUE.2") == 0
    put(again, "DEV.QUEUE.1", b"new")
    assert get(queue)[1].MsgId != b"\0" * 24


def test_backout_counts_and_order_outlive_a_restart(daemon):
    qm = connect()
    for body, priority in ((b"a", 1), (b"b", 8), (b"c", 1)):
        put(qm, "DEV.QUEUE.1", body, Priority=priority, Persistence=CMQC.MQPER_PERSISTENT)
    get(open_queue(qm, "DEV.QUEUE.1"), CMQC.MQGMO_SYNCPOINT)
    qm.backout()
    daemon.kill()
    daemon.start()
    queue = open_queue(connect(), "DEV.QUEUE.1")
    got = [get(queue) for _ in range(3)]
    assert [(body, md.BackoutCount) for body, md in got] == [(b"b", 1), (b"a", 0), (b"c", 0)]
