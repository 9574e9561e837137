"""The table of docs/metrics.md, from the catalogue of metrics and from the alarms and panels of the template.

    .local/python/bin/python tests/deployment/metrics.py write    writes the table
"""

import json
import os
import sys

from cloudformation import REGION, ROOT, deploy, watched
from scenarios import EVERYTHING, ORGANISATION

CATALOGUE = json.loads((ROOT / "deploy/metrics.json").read_text())
PAGE = ROOT / "docs/metrics.md"
HEADING = "## The catalogue\n\n"
NAMESPACE = "IntegraHub"


def uses():
    """The alarms and panels that name a metric of ours, by its name in CloudWatch."""
    stack, found = deploy({**EVERYTHING, **ORGANISATION}), {}
    for name, alarm in stack.of("AWS::CloudWatch::Alarm").items():
        for metric in watched(alarm["Properties"]):
            if metric["Namespace"] == NAMESPACE:
                found.setdefault(metric["MetricName"], []).append(f"alarm `{name.removesuffix('Alarm')}`")
    for dashboard in stack.of("AWS::CloudWatch::Dashboard").values():
        for widget in json.loads(dashboard["Properties"]["DashboardBody"])["widgets"]:
            for metric in widget["properties"].get("metrics", []):
                if metric[0] == NAMESPACE:
                    found.setdefault(metric[1], []).append(f"*{widget['properties']['title']}*")
    return {metric: list(dict.fromkeys(used)) for metric, used in found.items()}


def row(metric, used):
    scraped = ", ".join(f"`{label}`" for label in metric["labels"]) or "yes" if metric["scraped"] else ""
    emf = metric["emf"]
    emitted = f"`{emf['name']}` ({emf['unit']}): {', '.join(emf['services'])}" if emf else ""
    cells = [f"`{metric['name']}`", metric["kind"], metric["help"].removesuffix("."), scraped, emitted, ", ".join(used.get(emf["name"], [])) if emf else ""]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def table():
    used = uses()
    head = ["| metric | kind | meaning | `/metrics`, by label | CloudWatch: name, unit, functions | alarms and panels |", "|---|---|---|---|---|---|"]
    return "\n".join(head + [row(metric, used) for metric in CATALOGUE]) + "\n"


def page():
    """The page with the table of now."""
    return PAGE.read_text().split(HEADING)[0] + HEADING + table()


def main():
    if sys.argv[1:] != ["write"]:
        sys.exit(__doc__)
    # SAM asks for one.
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
