"""The AWS stand-in, with fair queues.

SQS shares a standard queue out between message groups: while others wait, a group with much in
flight gets nothing. The stand-in delivers messages by their age alone, so what decides about it is
replaced here. SQS calls a group noisy that holds a tenth of what is in flight, and at least 30
messages or a tenth of the consumers' time; with the few consumers of one machine that is any group
with more in flight than another one.
"""

import time
from collections import Counter

from ministack.app import main
from ministack.services import sqs

take_oldest = sqs._collect_msgs


def take_fairly(queue, most, visibility_timeout):
    """Takes messages one by one: each time the oldest of the group with the fewest in flight. A message without a group is a group of its own."""
    taken = []
    while len(taken) < most:
        now = time.time()
        in_flight = Counter(m.get("group_id") for m in queue["messages"] if m["visible_at"] > now and m["receive_count"])
        waiting = [m for m in queue["messages"] if m["visible_at"] <= now]
        if queue["is_fifo"] or not any(m.get("group_id") for m in waiting):
            return taken + take_oldest(queue, most - len(taken), visibility_timeout)
        chosen = min(waiting, key=lambda m: in_flight[m["group_id"]] if m.get("group_id") else 0)
        taken += take_oldest({**queue, "messages": [chosen]}, 1, visibility_timeout)
    return taken


sqs._collect_msgs = take_fairly

if __name__ == "__main__":
    main()
