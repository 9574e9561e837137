"""The dashboard for Grafana is made from the catalogue, shows every metric of GET /metrics, and has the form that Grafana knows."""

import json
import re

import grafana
import jsonschema
import pytest

DASHBOARD = json.loads(grafana.DASHBOARD.read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
# Prometheus adds them: the job to each series, and the upper bounds of a histogram's buckets.
ADDED = {"job", "le"}
FUNCTIONS = {"by", "histogram_quantile", "max", "rate", "sum", "time", "topk"}


def members(required, **properties):
    """An object with these members and no others, of which the named ones are required."""
    return {"type": "object", "additionalProperties": False, "required": required.split(), "properties": properties}


def some(item):
    return {"type": "array", "items": item}


# Grafana's schema of dashboards, in its form 39, as far as this one uses it.
TEXT, NUMBER, FLAG, OPEN = ({"type": kind} for kind in ("string", "integer", "boolean", "object"))
SOURCE = members("", type=TEXT, uid=TEXT)
PLACE = members(
    "x y w h", x={"type": "integer", "minimum": 0, "maximum": 23}, y=NUMBER, w={"type": "integer", "minimum": 1, "maximum": 24}, h={"type": "integer", "minimum": 1}
)
STEP = members("value color", value={"type": "number"}, color=TEXT)
MAPPING = members("type options", type={"const": "value"}, options={"type": "object", "additionalProperties": members("", text=TEXT, color=TEXT)})
FIELD = members("", unit=TEXT, min=NUMBER, mappings=some(MAPPING), thresholds=members("mode steps", mode={"enum": ["absolute", "percentage"]}, steps=some(STEP)))
ROW = members("type collapsed id panels", type={"const": "row"}, collapsed=FLAG, id=NUMBER, panels=some(OPEN), title=TEXT, gridPos=PLACE)
PANEL = members(
    "type",
    type={"enum": ["stat", "timeseries"]},
    id=NUMBER,
    title=TEXT,
    description=TEXT,
    gridPos=PLACE,
    datasource=SOURCE,
    targets=some(OPEN),
    options=OPEN,
    fieldConfig=members("defaults overrides", defaults=FIELD, overrides=some(OPEN)),
)
OPTION = members("text value", text=some(TEXT), value=some(TEXT))
VARIABLE = members(
    "type name",
    type={"enum": ["datasource", "query"]},
    name=TEXT,
    label=TEXT,
    query=TEXT,
    datasource=SOURCE,
    refresh={"enum": [0, 1, 2]},
    sort={"enum": list(range(9))},
    multi=FLAG,
    includeAll=FLAG,
    allValue=TEXT,
    current=OPTION,
)
SCHEMA = members(
    "schemaVersion templating annotations",
    title=TEXT,
    description=TEXT,
    tags=some(TEXT),
    schemaVersion={"const": 39},
    editable=FLAG,
    graphTooltip={"enum": [0, 1, 2]},
    time=members("from to", **{"from": TEXT, "to": TEXT}),
    refresh=TEXT,
    templating=members("", list=some(VARIABLE)),
    annotations=members("", list=some(OPEN)),
    panels=some({"anyOf": [ROW, PANEL]}),
)


def test_it_is_what_the_catalogue_makes():
    assert grafana.DASHBOARD.read_text() == grafana.text(), "tests/deployment/grafana.py write"


def test_it_has_the_form_that_grafana_knows():
    jsonschema.validate(DASHBOARD, SCHEMA)
    for broken in ({"schemaVersion": "39"}, {"panels": [{"type": "graph"}]}, {"templating": {"list": [{"name": "job"}]}}, {"rows": []}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**DASHBOARD, **broken}, SCHEMA)


def test_every_metric_that_is_scraped_is_on_it_and_no_other():
    named = {name.removesuffix("_bucket") for expression in EXPRESSIONS for name in re.findall(r"integrahub_\w+", expression)}
    assert named == set(grafana.CATALOGUE)
    (asked,) = (variable["query"] for variable in DASHBOARD["templating"]["list"] if variable["name"] == "job")
    assert re.findall(r"integrahub_\w+", asked)[0] in grafana.CATALOGUE


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_labels_that_its_metric_has(expression):
    ((name, selected),) = re.findall(r"(integrahub_\w+)\{(.*?)\}", expression)
    metric = grafana.CATALOGUE[name.removesuffix("_bucket")]
    assert name.endswith("_bucket") == (metric["kind"] == "histogram")
    labels = re.findall(r'(\w+)=~?"', selected) + [label for by in re.findall(r"by \((.*?)\)", expression) for label in by.split(", ")]
    assert "job" in labels and set(labels) <= ADDED | set(metric["labels"])
    words = set(re.findall(r"[a-z_]+", re.sub(r"\{.*?\}|\[.*?\]|by \(.*?\)", "", expression)))
    assert words <= FUNCTIONS | {name}
    # A counter alone says nothing: it begins again with each installation.
    assert ("rate(" in expression) == (metric["kind"] != "gauge")


def test_each_question_has_panels_and_no_panel_hides_another():
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= grafana.WIDTH
        for cell in ((x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])):
            assert taken.setdefault(cell, panel["id"]) == panel["id"], panel["title"]
    kinds = [panel["type"] for panel in DASHBOARD["panels"]]
    rows = [index for index, kind in enumerate(kinds) if kind == "row"]
    assert rows[0] == 0 and kinds[-1] != "row" and all(after - before > 1 for before, after in zip(rows, rows[1:], strict=False))
    assert all(panel["title"].endswith("?") == (panel["type"] == "row") for panel in DASHBOARD["panels"])


def test_the_data_source_is_chosen_where_it_is_loaded():
    sources = set(re.findall(r'"uid": "(.*?)"', grafana.DASHBOARD.read_text()))
    assert sources == {"${datasource}"}
    assert DASHBOARD["templating"]["list"][0]["name"] == "datasource"
    assert not {"uid", "id"} & set(DASHBOARD)
