"""The dashboard for Grafana, from the catalogue of metrics: a row for each question, with what GET /metrics says to it.

    .local/python/bin/python tests/deployment/grafana.py write    writes deploy/grafana/integrahub.json
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CATALOGUE = {metric["name"]: metric for metric in json.loads((ROOT / "deploy/metrics.json").read_text()) if metric["scraped"]}
DASHBOARD = ROOT / "deploy/grafana/integrahub.json"

# Each question with its panels: title, metric, and what matters of the metric, if not all.
ROWS = {
    "Can the figures below be trusted?": [
        ("Parts that could be read", "integrahub_up", ""),
        ("Age of the figures", "integrahub_snapshot_age_seconds", ""),
        ("Version", "integrahub_build_info", ""),
        ("Time since requests were counted", "integrahub_usage_read_until_timestamp_seconds", ""),
    ],
    "What do callers do, and does it fail?": [
        ("Requests a minute", "integrahub_operations_total", ""),
        ("Messages a minute, the ten busiest queues", "integrahub_operation_messages_total", ""),
        ("Bytes a minute, the ten busiest queues", "integrahub_operation_bytes_total", ""),
    ],
    "Does anything wait?": [
        ("Oldest chunk", "integrahub_oldest_chunk_age_seconds", ""),
        ("Oldest event", "integrahub_oldest_event_age_seconds", ""),
        ("Oldest batch", "integrahub_oldest_batch_age_seconds", ""),
        ("Chunks that wait", "integrahub_chunks_pending", ""),
        ("Batches under way", "integrahub_batches_under_way", ""),
        ("Records in Kafka", "integrahub_kafka_lag_records", ""),
    ],
    "Do batches fail?": [
        ("Final batches a minute", "integrahub_batches_total", ""),
        ("Items a minute", "integrahub_items_total", ""),
        ("Items in error a minute", "integrahub_item_errors_total", ""),
    ],
    "How long does a batch take?": [("Time from receipt to the end", "integrahub_batch_duration_seconds", "")],
    "Was work given up?": [("Messages that need a person, or a store that is away", "integrahub_queue_messages", 'queue=~"unhandled|.+-failed"')],
    "How much is in the queues?": [
        ("Messages that can be received", "integrahub_queue_messages", 'state="visible"'),
        ("Messages that are being processed", "integrahub_queue_messages", 'state="in_flight"'),
        ("Messages that are delayed", "integrahub_queue_messages", 'state="delayed"'),
    ],
}
# Grafana's names of the catalogue's units.
UNITS = {"1": "short", "seconds": "s", "bytes": "bytes"}
# These are states and no courses.
STATES = {"integrahub_up", "integrahub_build_info"}
ACROSS, WIDTH, HEIGHT = 3, 24, 8
# The variable of the dashboard that names the data source. Its own uid each Grafana chooses.
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def expressions(metric, selected):
    """The expressions of a metric by its kind, with the legend of each."""
    name = metric["name"]
    # A label that is selected by one value tells no series apart.
    labels = [label for label in metric["labels"] if f'{label}="' not in selected]
    selector = "{" + ", ".join(filter(None, ['job=~"$job"', selected])) + "}"
    legend = " ".join(f"{{{{{label}}}}}" for label in ["job", *labels])
    by = f"by ({', '.join(['job', *labels])})"
    if metric["kind"] == "histogram":
        buckets = f"sum by (job, le) (rate({name}_bucket{selector}[$__rate_interval]))"
        return [(f"histogram_quantile({quantile / 100}, {buckets})", f"{{{{job}}}} p{quantile}") for quantile in (50, 90, 99)]
    if metric["kind"] == "counter":
        a_minute = f"60 * sum {by} (rate({name}{selector}[$__rate_interval]))"
        # There are up to 500 queues.
        return [(f"topk(10, {a_minute})" if "target" in labels else a_minute, legend)]
    if name.endswith("_timestamp_seconds"):
        return [(f"time() - max {by} ({name}{selector})", legend)]
    return [(f"max {by} ({name}{selector})", legend)]


def panel(number, place, title, metric, selected):
    is_state = metric["name"] in STATES
    targets = [
        # The least step is the interval of scrapes: `$__rate_interval` becomes at least four of
        # them.
        {"refId": ref, "datasource": SOURCE, "expr": expression, "legendFormat": legend, "interval": "1m", "instant": is_state, "range": not is_state}
        for ref, (expression, legend) in zip("ABC", expressions(metric, selected), strict=False)
    ]
    defaults = {"unit": UNITS[metric["unit"]], "min": 0}
    if metric["name"] == "integrahub_up":
        defaults["mappings"] = [{"type": "value", "options": {"0": {"text": "no"}, "1": {"text": "yes"}}}]
        defaults["thresholds"] = {"mode": "absolute", "steps": [{"value": 0, "color": "red"}, {"value": 1, "color": "green"}]}
    options = {"textMode": "value_and_name" if "mappings" in defaults else "name"} if is_state else {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
    return {
        "id": number,
        "type": "stat" if is_state else "timeseries",
        "title": title,
        "description": metric["help"],
        "gridPos": place,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
    }


def panels():
    made, top = [], 0
    for question, wanted in ROWS.items():
        made.append({"id": len(made) + 1, "type": "row", "title": question, "collapsed": False, "panels": [], "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1}})
        top += 1
        for line in (wanted[begin : begin + ACROSS] for begin in range(0, len(wanted), ACROSS)):
            width = WIDTH // len(line)
            for column, (title, name, selected) in enumerate(line):
                place = {"x": column * width, "y": top, "w": width, "h": HEIGHT}
                made.append(panel(len(made) + 1, place, title, CATALOGUE[name], selected))
            top += HEIGHT
    return made


def dashboard():
    variables = [
        {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"},
        {
            "type": "query",
            "name": "job",
            "label": "Deployment",
            "datasource": SOURCE,
            "query": "label_values(integrahub_build_info, job)",
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".+",
            "current": {"text": ["All"], "value": ["$__all"]},
        },
    ]
    return {
        "title": "IntegraHub",
        "description": "What GET /metrics of a deployment says. Made from the catalogue of metrics: docs/metrics.md.",
        "tags": ["integrahub"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-24h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": variables},
        "annotations": {"list": []},
        "panels": panels(),
    }


def text():
    return json.dumps(dashboard(), indent=2) + "\n"


def main():
    if sys.argv[1:] != ["write"]:
        sys.exit(__doc__)
    DASHBOARD.parent.mkdir(exist_ok=True)
    DASHBOARD.write_text(text())


if __name__ == "__main__":
    main()
