"""Shows the events of two batches among messages of SQS, as its API gives them on standard input:
events.py DIRECTORY REPLAYED DROPPED.

In the directory, `ids` gets a line for each event that was shown, `missing` has the events that are
yet to come, and `receipts` what is needed to delete the messages.
"""

import json
import sys
from collections import Counter
from pathlib import Path

RECEIVED = "integrahub.batch.received"
# The last event of a batch that nothing happens to.
FINAL = "integrahub.batch.final"


def main():
    directory, replayed, dropped = Path(sys.argv[1]), *sys.argv[2:]
    messages = json.load(sys.stdin)["Messages"]
    seen = [line.split() for line in (directory / "ids").read_text().splitlines()]
    for message in messages:
        detail = json.loads(message["Body"])["detail"]
        event = [detail["id"], detail["type"], detail.get("data", {}).get("batch_id")]
        if event[2] in (replayed, dropped) and event not in seen:
            seen.append(event)
            print(f"   {detail['type']}: {json.dumps(detail, ensure_ascii=False, separators=(',', ':'))}")
    expected = Counter({(RECEIVED, replayed): 1, (FINAL, replayed): 2, (RECEIVED, dropped): 1, (FINAL, dropped): 1})
    missing = expected - Counter((of_type, batch) for _, of_type, batch in seen)
    receipts = [{"Id": str(index), "ReceiptHandle": one["ReceiptHandle"]} for index, one in enumerate(messages)]
    (directory / "ids").write_text("".join(" ".join(event) + "\n" for event in seen))
    (directory / "missing").write_text(", ".join(" ".join(event) for event in missing.elements()))
    (directory / "receipts").write_text(json.dumps(receipts))


main()
