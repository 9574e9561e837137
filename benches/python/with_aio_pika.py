"""aio-pika: pipelined confirms, prefetch and multiple acknowledgement."""

import asyncio
import json
import os
import time

import aio_pika

MESSAGES = int(os.environ["MESSAGES"])
BODY = b"\xa5" * 1024
IN_FLIGHT = 1000
PREFETCH = 1000
ACK_EVERY = 500


async def produce(channel, queue):
    exchange = channel.default_exchange
    persistent = aio_pika.DeliveryMode.PERSISTENT
    free = asyncio.Semaphore(IN_FLIGHT)

    async def publish():
        try:
            await exchange.publish(aio_pika.Message(BODY, delivery_mode=persistent), queue, mandatory=True)
        finally:
            free.release()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(MESSAGES):
            await free.acquire()
            tasks.create_task(publish())


async def consume(channel, queue):
    await channel.set_qos(prefetch_count=PREFETCH)
    queue = await channel.get_queue(queue)
    done = asyncio.get_running_loop().create_future()
    received = 0

    async def take(message):
        nonlocal received
        received += 1
        if received % ACK_EVERY == 0 or received == MESSAGES:
            await message.ack(multiple=True)
        if received == MESSAGES:
            done.set_result(None)

    await queue.consume(take)
    await done
    # The acknowledgement has arrived when the broker answers what came after it.
    await channel.declare_queue(queue.name, passive=True)


async def main(job, queue):
    connection = await aio_pika.connect(os.environ["AMQP_URL"])
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        cpu, started = time.process_time(), time.perf_counter()
        await (produce if job == "produce" else consume)(channel, queue)
        report = {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu,
        }
    print(json.dumps(report))


asyncio.run(main(*input().split()))
