"""pika, in its asynchronous form: pipelined confirms, prefetch and multiple acknowledgement."""

import json
import os
import sys
import time
from collections import OrderedDict

import pika

MESSAGES = int(os.environ["MESSAGES"])
BODY = b"\xa5" * 1024
IN_FLIGHT = 1000
PREFETCH = 1000
ACK_EVERY = 500


class Bench:
    def __init__(self, job, queue):
        self.job = job
        self.queue = queue
        self.published = 0
        self.unconfirmed = OrderedDict()
        self.done = 0
        self.report = None
        self.connection = pika.SelectConnection(
            pika.URLParameters(os.environ["AMQP_URL"]),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self.opened),
            on_close_callback=lambda connection, _: connection.ioloop.stop(),
        )

    def opened(self, channel):
        self.channel = channel
        if self.job == "produce":
            channel.add_on_return_callback(lambda *_: sys.exit("a message was returned"))
            channel.confirm_delivery(self.confirmed, callback=lambda _: self.produce())
        else:
            self.start()
            channel.basic_qos(prefetch_count=PREFETCH, callback=lambda _: channel.basic_consume(self.queue, self.received))

    def start(self):
        self.cpu = time.process_time()
        self.started = time.perf_counter()

    def stop(self):
        self.report = {
            "seconds": time.perf_counter() - self.started,
            "cpu_seconds": time.process_time() - self.cpu,
        }
        self.connection.close()

    def produce(self):
        self.start()
        self.properties = pika.BasicProperties(delivery_mode=2)
        self.publish()

    def publish(self):
        while self.published < MESSAGES and len(self.unconfirmed) < IN_FLIGHT:
            self.channel.basic_publish("", self.queue, BODY, self.properties, mandatory=True)
            self.published += 1
            self.unconfirmed[self.published] = None

    def confirmed(self, frame):
        if not isinstance(frame.method, pika.spec.Basic.Ack):
            sys.exit("a message was refused")
        # Tags count from 1 on; with `multiple` one stands for all before it.
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            while self.unconfirmed and next(iter(self.unconfirmed)) <= tag:
                self.unconfirmed.popitem(last=False)
        else:
            self.unconfirmed.pop(tag, None)
        if self.published == MESSAGES and not self.unconfirmed:
            self.stop()
        else:
            self.publish()

    def received(self, channel, method, properties, body):
        self.done += 1
        if self.done % ACK_EVERY == 0 or self.done == MESSAGES:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if self.done == MESSAGES:
            # The acknowledgement has arrived when the broker answers what came after it.
            channel.queue_declare(self.queue, passive=True, callback=lambda _: self.stop())


bench = Bench(*input().split())
bench.connection.ioloop.start()
print(json.dumps(bench.report))
