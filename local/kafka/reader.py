"""Prints records of a topic, from its beginning: those whose JSON has one of the ids. It ends when
it has found them all, and with an error if that takes longer than half a minute.
"""

import argparse
import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

PATIENCE = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("ids", nargs="+")
    arguments = parser.parse_args()
    # A consumer that chooses its partitions itself needs no group, but the library wants a name.
    consumer = Consumer({"bootstrap.servers": arguments.servers, "group.id": "reader", "enable.auto.commit": False})
    partitions = consumer.list_topics(arguments.topic, timeout=PATIENCE).topics[arguments.topic].partitions
    consumer.assign([TopicPartition(arguments.topic, partition, OFFSET_BEGINNING) for partition in partitions])
    wanted, missing = set(arguments.ids), set(arguments.ids)
    deadline = time.monotonic() + PATIENCE
    while missing and time.monotonic() < deadline:
        record = consumer.poll(0.5)
        if record is None:
            continue
        if record.error():
            raise KafkaException(record.error())
        event = json.loads(record.value())
        if event.get("id") in wanted:
            missing.discard(event["id"])
            of_type = dict(record.headers() or []).get("type", b"").decode()
            place = f"partition {record.partition()}, offset {record.offset()}"
            print(f"   {place}, {of_type}: {record.value().decode()}", flush=True)
    consumer.close()
    if missing:
        sys.exit(f"the topic {arguments.topic} has no event {', '.join(sorted(missing))}")


main()
