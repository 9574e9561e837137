"""A queue manager of its own for each test, and connections by IBM's Python client."""

import json
import os
import pathlib
import signal
import socket
import subprocess

import ibmmq
import pytest
from ibmmq import CMQC, CMQXC

HERE = pathlib.Path(__file__).parent
PROGRAM = os.environ["MQM_STANDIN_PROGRAM"]


class QueueManagerProcess:
    """The daemon, by default with the configuration beside these tests."""

    def __init__(self, directory, configuration=HERE.parent / "qm1.toml"):
        self.directory = directory
        self.configuration = configuration
        self.process = None

    def start(self):
        command = [PROGRAM, "run", "--directory", self.directory, "--configuration", self.configuration]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()

    def control(self, command):
        """Sends a command to the control socket."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.directory / "QM1.control"))
            control.sendall(json.dumps(command).encode() + b"\n")
            answer = json.loads(control.makefile().readline())
        assert "error" not in answer, answer
        return answer

    def fault(self, verb, **effect):
        self.control({"fault": {"verb": verb, **effect}})


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    # A unix socket's path has at most 107 bytes.
    directory = pathlib.Path(os.environ["MQM_STANDIN_SOCKETS"]) / str(abs(hash(tmp_path)) % 10**8)
    directory.mkdir()
    monkeypatch.setenv("MQM_STANDIN_DIR", str(directory))
    daemon = QueueManagerProcess(directory)
    daemon.start()
    yield daemon
    if daemon.process.poll() is None:
        daemon.end()


def connect(user="app", password="passw0rd", channel="DEV.APP.SVRCONN", name="QM1", at="localhost(1414)"):
    """A connection as IBM's samples make it."""
    cd = ibmmq.CD(ChannelName=channel, ConnectionName=at, ChannelType=CMQXC.MQCHT_CLNTCONN)
    csp = ibmmq.CSP(CSPUserId=user, CSPPassword=password) if user else None
    queue_manager = ibmmq.QueueManager(None)
    queue_manager.connect_with_options(name, cd=cd, csp=csp)
    return queue_manager


@pytest.fixture
def qm(daemon):
    queue_manager = connect()
    yield queue_manager
    try:
        queue_manager.disconnect()
    except (ibmmq.MQMIError, ibmmq.PYIFError):
        # Some tests end the connection or the queue manager first.
        pass


def put(qm, queue, body=b"x", syncpoint=False, pmo=None, **fields):
    """Puts one message and returns its descriptor."""
    md = ibmmq.MD(**fields)
    unit = CMQC.MQPMO_SYNCPOINT if syncpoint else CMQC.MQPMO_NO_SYNCPOINT
    opened = ibmmq.Queue(qm, queue, CMQC.MQOO_OUTPUT | CMQC.MQOO_FAIL_IF_QUIESCING)
    try:
        opened.put(body, md, pmo or ibmmq.PMO(Options=unit | CMQC.MQPMO_FAIL_IF_QUIESCING))
    finally:
        opened.close()
    return md


def open_queue(qm, name, options=CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_BROWSE | CMQC.MQOO_INQUIRE):
    return ibmmq.Queue(qm, name, options)


def get(queue, options=CMQC.MQGMO_NO_SYNCPOINT, wait=None, md=None, length=4 * 1024 * 1024, **fields):
    """Gets one message: its data and descriptor."""
    if wait is not None:
        options |= CMQC.MQGMO_WAIT
        fields["WaitInterval"] = wait
    md = md or ibmmq.MD()
    gmo = ibmmq.GMO(Options=options | CMQC.MQGMO_FAIL_IF_QUIESCING, **fields)
    return queue.get(length, md, gmo), md


def depth(qm, name):
    queue = open_queue(qm, name, CMQC.MQOO_INQUIRE)
    try:
        return queue.inquire(CMQC.MQIA_CURRENT_Q_DEPTH)
    finally:
        queue.close()


class Refused:
    """Expects a call to fail with a reason code, or to warn with it."""

    def __init__(self, reason, completion=CMQC.MQCC_FAILED):
        self.expected = completion, reason

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        assert isinstance(error, ibmmq.MQMIError), f"expected {self.expected}, not {error!r}"
        assert (error.comp, error.reason) == self.expected, error
        self.error = error
        return True
