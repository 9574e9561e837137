"""Plays Lambda's event source mapping for Kafka, which the AWS stand-in does not have.

It reads a topic in a consumer group, and invokes the function with batches in the form of AWS's
documentation (`events/ingest/upsert/chunk-ready-kafka.json`). A batch that the function takes is
committed. One that it answers with an error comes again after a pause, and holds up what is behind
it in its partitions, without an end: so does a mapping without an on-failure destination.

It differs from Lambda in this: one batch at a time for the whole topic, where Lambda has several
pollers; no limit of 6 MB, since records have about 1 KB; and no scaling.

It ends by a signal. A batch that is not committed by then comes again at the next start.
"""

import argparse
import base64
import json
import socket
import sys
import time
import urllib.error
import urllib.request

from confluent_kafka import Consumer, KafkaException

PAUSE = 1.0
# The function's own time limit is 30 s.
INVOCATION = 60


def text(value):
    return None if value is None else base64.b64encode(value).decode()


def event(servers, records):
    partitions = {}
    for record in records:
        partitions.setdefault(f"{record.topic()}-{record.partition()}", []).append(
            {
                "topic": record.topic(),
                "partition": record.partition(),
                "offset": record.offset(),
                "timestamp": record.timestamp()[1],
                "timestampType": "CREATE_TIME",
                "key": text(record.key()),
                "value": text(record.value()),
                "headers": [{name: list(value or b"")} for name, value in record.headers() or []],
            }
        )
    return {"eventSource": "SelfManagedKafka", "bootstrapServers": servers, "records": partitions}


def is_taken(url, body):
    """Whether the function answered without an error."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=INVOCATION) as answer:
            said = answer.read().decode(errors="replace")
            failed = answer.headers.get("X-Amz-Function-Error")
    except (OSError, urllib.error.URLError) as error:
        failed, said = "no answer", str(error)
    if failed:
        print(f"the batch comes again: {failed}: {said[:500]}", file=sys.stderr, flush=True)
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--url", required=True, help="where the function is invoked")
    parser.add_argument("--socket", required=True, help="listens once the poller is at work")
    arguments = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": arguments.servers,
            "group.id": arguments.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
        }
    )
    consumer.subscribe([arguments.topic])
    ready = socket.socket(socket.AF_UNIX)
    ready.bind(arguments.socket)
    ready.listen()
    while True:
        # Errors of the connection arrive as records; the client itself connects again.
        records = [record for record in consumer.consume(arguments.batch, 0.2) if not record.error()]
        if not records:
            continue
        body = event(arguments.servers, records)
        while not is_taken(arguments.url, body):
            time.sleep(PAUSE)
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            print(f"not committed, so it may come again: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
