"""The parts of template.yaml say each thing once, and what is misspelt in them is refused. `make lint` compares template.yaml with them."""

import sys

import pytest
import yaml
from cloudformation import ROOT

sys.path.append(str(ROOT / "deploy"))
import template  # noqa: E402

PARTS = sorted((ROOT / "deploy/template").glob("*.yaml"))
NAMESPACES = {"Function": ["AWS/Lambda", "FunctionName", "${<name>}"]}
OF_FUNCTIONS = {"Uses": {}, "Patterns": {"Function": dict.fromkeys(["Lists", "Reads", "Sends", "Runs", "Ends"], {})}}


def test_the_parts_have_at_most_3000_lines():
    assert sum(len(part.read_text().splitlines()) for part in PARTS) <= 3000


@pytest.mark.parametrize(
    "read",
    [
        lambda: yaml.load("!Wen [HasIngest, true]", template.Loader),
        lambda: yaml.load("{Title: Errors, and Throttles}", template.Loader),
        lambda: template.statement("Allow", "s3:GetObject", "*", {"Conditon": {}}),
        lambda: template.ordered("Days", {"Least": "A", "Mots": "B", "Says": ""}, {}).__next__(),
        lambda: template.function("Depth", {"Uses": [], "Reads": {"Ready": {"Queue": "A", "Concurency": 2}}}, OF_FUNCTIONS),
        lambda: template.function("Metering", {"Uses": [], "Runs": {"Evry": "1 minute"}}, OF_FUNCTIONS),
        lambda: template.alarm({"Waiting": {"Queue": "A", "AtMost": 1}}, {}, {}, {}),
        lambda: template.condition_of("DepthFuncton", {"depth": None}, NAMESPACES),
        lambda: template.condition_of("dept", {"depth": None}, NAMESPACES),
        lambda: template.query("sum", {"Maximun": "Errors of DepthFunction"}, 60, NAMESPACES),
        lambda: template.panel({"Title": "", "Summ": {"Errors": "depth"}}, 24, None, {}, {"depth": None}, NAMESPACES),
        lambda: template.panel({"Title": "", "Query": "", "Period": 60}, 24, None, {}, {}, NAMESPACES),
        lambda: template.dashboard([{"Question": "", "Widget": []}], {}, {}, {}, {}),
    ],
)
def test_what_is_misspelt_is_refused(read):
    with pytest.raises(AssertionError):
        read()


def test_a_section_that_nothing_reads_is_refused(monkeypatch):
    monkeypatch.setattr(template, "collected", lambda: {"Patterns": {}, "Alarmes": {}})
    with pytest.raises(AssertionError, match="Alarmes"):
        template.generated()
