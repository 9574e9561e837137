"""The catalogue of metrics says who emits each one, and the page has it. test_alarms.py holds alarms and panels against it."""

import re

import metrics
import pytest
from cloudformation import ROOT, behind_the_api, deploy
from scenarios import EXISTING_DATABASE, GATEWAY

EMITTED = {metric["constant"]: set(metric["emf"]["services"]) for metric in metrics.CATALOGUE if metric["emf"]}
SOURCES = {path: path.read_text() for path in sorted((ROOT / "functions").glob("**/src/**/*.rs"))}


def functions_with(pattern):
    """The functions whose code has a text."""
    folders = {path.parents[[parent.name for parent in path.parents].index("src") + 1] for path, text in SOURCES.items() if re.search(pattern, text)}
    return {folder.name for folder in folders}


def binary(function):
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", function.removesuffix("Function")).lower()


def test_the_page_has_the_catalogue_with_the_alarms_and_panels_of_now():
    assert metrics.PAGE.read_text() == metrics.page(), "tests/deployment/metrics.py write"


@pytest.mark.parametrize("constant", sorted(EMITTED))
def test_the_functions_that_the_catalogue_names_emit_the_metric(constant):
    shared = "".join(path.read_text() for path in (ROOT / "shared").glob("**/src/**/*.rs") if "runtime" not in path.parts)
    if f"metrics::{constant}" not in shared:
        expected = functions_with(rf"metrics::{constant}\b")
    elif constant.startswith("IDEMPOTEN"):
        expected = functions_with(r"\brecords\(&sdk|Records::Kept")
    else:
        # The function of status logs its requests and does not count them.
        expected = {binary(function) for function in behind_the_api()} - {"status"}
    assert EMITTED[constant] == expected


def test_a_deployment_reads_the_queues_that_it_has():
    def queues(parameters):
        variables = deploy(parameters).properties("StatusFunction")["Environment"]["Variables"]
        return [queue.split("=")[0] for queue in variables["METRICS_QUEUES"].split()]

    every = "notifications batches-received batches-failed chunks-ready chunks-failed drops-received receipts unhandled"
    assert queues(EXISTING_DATABASE) == every.split()
    assert queues(GATEWAY) == ["unhandled"]
