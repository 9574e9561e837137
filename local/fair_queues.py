"""The AWS stand-in, with fair queues.

SQS shares a standard queue out between message groups: a group that takes more than its share of the
consumers waits while messages of others are there. The stand-in delivers messages by their age
alone, so this module replaces its order. It is fairer than SQS, whose rules need many consumers: a
group waits as soon as it has more in flight than another one.
"""

import time
from collections import Counter

from ministack.app import main
from ministack.services import sqs

take_oldest = sqs._collect_msgs


def take_fairly(queue, most, visibility_timeout):
    """Takes messages one by one: each time the oldest of the group with the fewest in flight.

    A message without a group is a group of its own.
    """
    taken = []
    while len(taken) < most:
        now = time.time()
        in_flight = Counter(m.get("group_id") for m in queue["messages"] if m["visible_at"] > now and m["receive_count"])
        # A message with a visibility timeout of 0 is visible again.
        waiting = [m for m in queue["messages"] if m["visible_at"] <= now and m not in taken]
        if queue["is_fifo"] or not any(m.get("group_id") for m in waiting):
            rest = {**queue, "messages": waiting} if taken else queue
            return taken + take_oldest(rest, most - len(taken), visibility_timeout)
        chosen = min(waiting, key=lambda m: in_flight[m["group_id"]] if m.get("group_id") else 0)
        taken += take_oldest({**queue, "messages": [chosen]}, 1, visibility_timeout)
    return taken


sqs._collect_msgs = take_fairly

if __name__ == "__main__":
    main()
