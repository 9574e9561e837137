"""A stand-in for a Kafka cluster: librdkafka's mock cluster, which the wheel of confluent-kafka
brings in compiled form.

It listens on ports of 127.0.0.1 that the system chooses, and prints the bootstrap servers as its
first line. Then it reads commands, one JSON object a line, and answers each with `{}` or
`{"error": "..."}`:

    {"topic": "chunks.ready", "partitions": 6, "replication": 3}    creates a topic
    {"next": 0, "codes": [19, 7]}           errors of the next requests of an API key
    {"down": 1}, {"up": 1}                  a broker by its number, from 1

It ends when its input does, or with `--forever` by a signal. Nothing outlives it: the records are in memory, at most 5 MB or 100,000
of each partition.

A topic that a client asks about and allows to be made has four partitions. Producers with sequence
numbers, consumer groups and offsets work as in Kafka. Creating topics over the protocol, TLS and
SASL do not.

A relay stands before each broker, because of one mistake of the mock. It answers a version of
ApiVersions that it does not know in a form that is no form of Kafka's, which clients other than
librdkafka cannot read. The relay gives the answer of a Kafka broker: in the oldest form, with the
versions to use instead.
"""

import argparse
import asyncio
import ctypes
import importlib.util
import json
import pathlib
import signal
import struct
import sys
import threading

PRODUCER = 0
HOST = "127.0.0.1"

API_VERSIONS = 18
NEWEST_API_VERSIONS = 2
UNSUPPORTED_VERSION = 35


def library():
    """librdkafka as the wheel packs it, on Linux and on macOS."""
    package = pathlib.Path(importlib.util.find_spec("confluent_kafka").origin).parent
    found = [*package.parent.glob("confluent_kafka.libs/librdkafka*"), *package.glob(".dylibs/librdkafka*")]
    loaded = ctypes.CDLL(str(found[0]))
    for name in ("conf_new", "new", "handle_mock_cluster"):
        getattr(loaded, f"rd_kafka_{name}").restype = ctypes.c_void_p
    loaded.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    loaded.rd_kafka_err2str.restype = ctypes.c_char_p
    return loaded


class Relay:
    """Passes on what comes for one broker, but for requests that the mock answers wrongly."""

    def __init__(self, port, own_port):
        self.port = port
        self.own_port = own_port

    async def listen(self):
        server = await asyncio.start_server(self.serve, HOST, self.own_port)
        return server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            broker = await asyncio.open_connection(HOST, self.port)
        except OSError:
            writer.close()
            return
        answers = asyncio.create_task(self.copy(broker[0], writer))
        try:
            while True:
                size = await reader.readexactly(4)
                request = await reader.readexactly(int.from_bytes(size, "big"))
                api, version, correlation = struct.unpack_from(">hhi", request)
                if api == API_VERSIONS and version > NEWEST_API_VERSIONS:
                    known = (1, API_VERSIONS, 0, NEWEST_API_VERSIONS)
                    answer = struct.pack(">ihihhh", correlation, UNSUPPORTED_VERSION, *known)
                    writer.write(struct.pack(">i", len(answer)) + answer)
                else:
                    broker[1].write(size + request)
                    await broker[1].drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            broker[1].close()
            await answers

    @staticmethod
    async def copy(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


class Cluster:
    def __init__(self, brokers):
        self.kafka = library()
        error = ctypes.create_string_buffer(512)
        settings = ctypes.c_void_p(self.kafka.rd_kafka_conf_new())
        for name, value in (("test.mock.num.brokers", str(brokers)), ("log_level", "3")):
            if self.kafka.rd_kafka_conf_set(settings, name.encode(), value.encode(), error, ctypes.c_size_t(512)):
                raise SystemExit(error.value.decode())
        handle = self.kafka.rd_kafka_new(PRODUCER, settings, error, ctypes.c_size_t(512))
        if not handle:
            raise SystemExit(error.value.decode())
        self.cluster = ctypes.c_void_p(self.kafka.rd_kafka_handle_mock_cluster(ctypes.c_void_p(handle)))

    def bootstrap_servers(self, ports):
        """Starts the relays, at these ports as far as there are any, and lets the brokers name them
        in place of themselves."""
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        servers = []
        brokers = self.kafka.rd_kafka_mock_cluster_bootstraps(self.cluster).decode().split(",")
        for number, broker in enumerate(brokers, 1):
            own_port = ports[number - 1] if number <= len(ports) else 0
            relay = Relay(int(broker.rpartition(":")[2]), own_port)
            port = asyncio.run_coroutine_threadsafe(relay.listen(), loop).result()
            if self.call("broker_set_host_port", number, HOST.encode(), port):
                raise SystemExit(f"broker {number} cannot be relayed")
            servers.append(f"{HOST}:{port}")
        return ",".join(servers)

    def obey(self, command):
        match command:
            case {"topic": topic, "partitions": partitions, "replication": replication}:
                code = self.call("topic_create", topic.encode(), partitions, replication)
            case {"next": api, "codes": codes}:
                code = self.call(
                    "push_request_errors_array",
                    ctypes.c_int16(api),
                    ctypes.c_size_t(len(codes)),
                    (ctypes.c_int * len(codes))(*codes),
                )
            case {"down": broker}:
                code = self.call("broker_set_down", broker)
            case {"up": broker}:
                code = self.call("broker_set_up", broker)
            case _:
                return {"error": "unknown command"}
        return {"error": self.kafka.rd_kafka_err2str(code).decode()} if code else {}

    def call(self, name, *arguments):
        function = getattr(self.kafka, f"rd_kafka_mock_{name}")
        # This one returns nothing.
        function.restype = None if name == "push_request_errors_array" else ctypes.c_int
        return function(self.cluster, *arguments) or 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--ports", type=int, nargs="*", default=[], help="of the brokers, in place of any")
    parser.add_argument("--topics", nargs="*", default=[], help="to create, each as name:partitions")
    parser.add_argument("--forever", action="store_true", help="read no commands")
    arguments = parser.parse_args()
    cluster = Cluster(arguments.brokers)
    for given in arguments.topics:
        topic, _, partitions = given.rpartition(":")
        cluster.obey({"topic": topic, "partitions": int(partitions), "replication": arguments.brokers})
    print(cluster.bootstrap_servers(arguments.ports), flush=True)
    if arguments.forever:
        signal.pause()
    for line in sys.stdin:
        print(json.dumps(cluster.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
