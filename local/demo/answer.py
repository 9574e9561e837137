"""Prints the value of a Python expression about an answer: answer.py FILE STATUS EXPRESSION.

The expression sees the status as `status`, and the answer's JSON as `a`, whose members are
attributes: `a.messages[0].headers`. A member that is not there makes the value `?`.
"""

import json
import sys
from types import SimpleNamespace

CHANGES = ["inserted", "updated", "unchanged", "stale", "deactivated"]


def text(value):
    """A part of the answer as JSON, on one line."""
    return json.dumps(value, default=vars, ensure_ascii=False, separators=(",", ":"))


def changes(batch):
    return ", ".join(f"{getattr(batch.changes, change)} {change}" for change in CHANGES)


def steps(test):
    """The steps of a connection test, with their durations or the reasons of their failures."""
    return ", ".join(map(step, test.steps))


def step(one):
    members = vars(one)
    if members.get("ok") is False:
        return f"{one.name} failed with {members.get('code')}: {members.get('detail')}"
    if members.get("durationMs") is not None:
        return f"{one.name} {one.durationMs:.1f} ms"
    return one.name if members.get("ok") else f"{one.name} skipped"


def main():
    file, status, expression = sys.argv[1:]
    names = {"status": int(status), "text": text, "changes": changes, "steps": steps}
    with open(file, encoding="utf-8", errors="replace") as answer:
        content = answer.read()
    try:
        names["a"] = json.loads(content, object_hook=lambda members: SimpleNamespace(**members))
    except ValueError:
        names["a"] = None
    try:
        print(eval(expression, names))
    except (AttributeError, IndexError, TypeError):
        print("?")


main()
