"""What the pages tell somebody to deploy can be deployed, and works."""

import json
import os
import re
import shutil
import subprocess

import pytest
from cloudformation import ROOT, deploy, source, watched
from scenarios import EVENTS, EXISTING_DATABASE, LOAD_TESTS, MSK, NEW_DATABASE, SCENARIOS

DATABASE, COSTS = ROOT / "docs/database.md", ROOT / "docs/costs.md"


def section(page, title):
    """The text from a heading to the next one."""
    (text,) = re.findall(rf"^#+ {title}$(.*?)(?=^##+ )", page.read_text(), re.MULTILINE | re.DOTALL)
    return text


def sample(page, title):
    """The parameters that a section shows, with numbers in place of the reader's own."""
    (block,) = re.findall(r"```toml\n(.*?)```", section(page, title), re.DOTALL)
    numbers = (f"{number:08d}" for number in range(1, 100))
    return dict(re.findall(r'"(\w+)=(.*)"', re.sub("…", lambda _: next(numbers), block)))


def test_migrate_can_answer_cloudformation_in_the_network_that_a_new_database_is_shown_with():
    """Its answer goes to S3. Without a way there, the deployment and its rollback wait for 16 minutes each, and the database stays."""
    stack = deploy(sample(DATABASE, "A new one"))
    assert "VpcConfig" in stack.properties("MigrateFunction")
    endpoints = {endpoint["Properties"]["ServiceName"].split(".")[-1]: endpoint["Properties"] for endpoint in stack.of("AWS::EC2::VPCEndpoint").values()}
    assert {"s3", "dynamodb", "secretsmanager", "sqs"} == set(endpoints)
    assert endpoints["s3"]["RouteTableIds"] and endpoints["s3"]["VpcId"] == stack.parameters["DatabaseVpcId"]
    assert stack.properties("DatabaseCluster")


def test_a_vpc_is_said_to_need_what_private_names_need():
    endpoints = deploy(sample(DATABASE, "A new one")).of("AWS::EC2::VPCEndpoint").values()
    assert any(endpoint["Properties"].get("PrivateDnsEnabled") for endpoint in endpoints)
    assert "--enable-dns-hostnames" in section(DATABASE, "Its network")


def alarms(parameters):
    """How many metrics alarms watch: each of them is charged."""
    return sum(len(watched(alarm["Properties"])) for alarm in deploy(parameters).of("AWS::CloudWatch::Alarm").values())


def test_the_numbers_of_alarms_and_resources_are_those_of_the_template():
    bus, rollout, drops = {"EventBusArn": EVENTS["EventBusArn"]}, {"Rollout": "Canary10Percent5Minutes"}, {"AcceptDrops": "true"}
    gateway, ingest = alarms({}), alarms(EXISTING_DATABASE)

    def more(parameters):
        return alarms({**EXISTING_DATABASE, **parameters}) - ingest

    of_gateway = (
        f"{gateway}, {alarms(rollout) - gateway} with `Rollout`, {alarms(bus) - gateway} with events,"
        f" and {alarms(LOAD_TESTS) - gateway} with `LoadTests`"
    )
    of_ingest = (
        f"{ingest - gateway} more, {more(rollout) - alarms(rollout) + gateway} with `Rollout`, {more(drops)} with `AcceptDrops`,"
        f" {more(bus) - alarms(bus) + gateway} with events, {more(MSK)} with Kafka,"
        f" and {alarms(NEW_DATABASE) - ingest} with a new database"
    )
    assert f"| {of_gateway} | {of_ingest} |" in section(COSTS, "Idle, a month")
    resources = sorted(len(deploy(parameters).resources) for parameters in SCENARIOS.values())
    assert f"{resources[0]} resources for the gateway to {resources[-1]} with everything" in (ROOT / "docs/verification.md").read_text()


def test_the_sum_of_a_month_without_traffic_is_that_of_its_rows():
    idle = section(COSTS, "Idle, a month")
    rows = re.findall(r"^\| (.+?) \| (\d.*?) \| ([\d.]+) \|$", idle, re.MULTILINE)
    assert rows[0][1] == f"{alarms(EXISTING_DATABASE)} × 0.10", "the number of metrics that alarms watch"
    for what, terms, amount in rows:
        products = [factor.split(" × ") for factor in terms.split(" + ")]
        assert f"{sum(float(count) * float(price) for count, price in products):.2f}" == amount, what
    total = f"{sum(float(amount) for *_, amount in rows):.2f}"
    assert f"| **in all** | | **{total}** |" in idle
    assert f"**{total} USD a month**" in (ROOT / "docs/deploy.md").read_text()


def test_the_functions_that_share_the_reserved_concurrency_are_counted_right():
    def reserving(parameters):
        functions = deploy({**parameters, "PublicReservedConcurrency": "7"}).of("AWS::Lambda::Function").values()
        return len([function for function in functions if function["Properties"].get("ReservedConcurrentExecutions") == "7"])

    gateway = reserving({})
    said = (
        f"There are {gateway} such functions, {reserving(EXISTING_DATABASE) - gateway} more with the ingest,"
        f" and {reserving(LOAD_TESTS) - gateway} more with LoadTests."
    )
    assert said in source()["Parameters"]["PublicReservedConcurrency"]["Description"]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "deploy/INSTALL.md"]


def blocks(page, heading=None):
    """The commands of a page, or of a section of it, in their order."""
    text = page.read_text()
    if heading:
        (text,) = re.findall(rf"^#+ {heading}$(.*?)(?=^#+ |\\Z)", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r"^ +", "", block, flags=re.MULTILINE) for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)]


# What `.local/env` has, and what deploy.md's `output` reads from the stack.
LOCAL = set(re.findall(r'\("([A-Z_]+)", ', (ROOT / "local/src/stack.rs").read_text()))
SHELL = {"HOME", "PATH", "PWD"}
# Set on another page, which the text before the block names.
ELSEWHERE = {"ibm-mq-layer.md": {"TENANT"}}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_of_the_shell_and_use_what_the_page_has_set(page):
    """From a clean shell in the order of the page. A name that stands for the reader's own value is set nowhere and is no variable."""
    known = SHELL | ELSEWHERE.get(page.name, set())
    for block in blocks(page):
        checked = subprocess.run(["bash", "-n"], input=block.replace("…", "X"), text=True, capture_output=True)
        assert checked.returncode == 0, f"{block}\n{checked.stderr}"
        if ". .local/env" in block:
            known |= LOCAL
        code = re.sub(r"'[^']*'", lambda quoted: quoted[0] if "'$" in quoted[0] else "", block)
        known |= set(re.findall(r"(?:^|[ ;(])([A-Za-z_]\w*)=", block, re.MULTILINE)) | set(re.findall(r"\bfor (\w+) in", block))
        unknown = set(re.findall(r"\$\{?([A-Za-z_]\w*)", code)) - known
        assert not unknown, f"{unknown} is set nowhere before this block of {page.name}:\n{block}"
        # One name for one thing.
        assert not {"URL", "U", "BASE_URL", "APIKEY"} & set(re.findall(r"\$\{?([A-Za-z_]\w*)", block)), block


@pytest.mark.skipif(not shutil.which("jq"), reason="the page's commands use jq")
@pytest.mark.parametrize(
    "received, is_published",
    [
        (None, False),
        ({"Messages": [{"Body": '{"Records": [{"eventSource": "aws:s3"}]}', "ReceiptHandle": "r"}]}, False),
        ({"Messages": [{"Body": "no JSON", "ReceiptHandle": "r"}]}, False),
        ({"Messages": [{"Body": '{"specversion": "1.0", "type": "integrahub.message.in_doubt", "id": "1"}', "ReceiptHandle": "r"}]}, True),
    ],
    ids=["no message", "a notification", "no JSON", "an event"],
)
def test_only_an_event_of_the_unhandled_queue_is_published_and_deleted(tmp_path, received, is_published):
    """Somebody who pastes all of it does not see that a command in the middle has failed."""
    calls = tmp_path / "calls"
    answer = tmp_path / "answer"
    answer.write_text(json.dumps(received) if received else "")
    aws = tmp_path / "aws"
    aws.write_text(f'#!/bin/sh\necho "$1 $2" >> {calls}\n[ "$2" = receive-message ] && cat {answer}\nexit 0\n')
    aws.chmod(0o755)
    script = "output() { echo https://sqs/unhandled; }\n" + "\n".join(blocks(ROOT / "docs/operate.md", "Events in the unhandled queue"))
    subprocess.run(["bash"], input=script, text=True, cwd=tmp_path, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True)
    called = calls.read_text().split("\n")[:-1]
    assert called == ["sqs receive-message", *(["events put-events", "sns publish", "sqs delete-message"] if is_published else [])]


def test_every_page_is_in_the_list_of_pages():
    listed = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (ROOT / "docs/README.md").read_text()))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} == listed


def test_the_page_of_parameters_has_a_row_for_each_of_them_with_who_turns_it():
    page = (ROOT / "docs/parameters.md").read_text()
    assert f"each of the {len(source()['Parameters'])} parameters" in page
    rows = [re.split(r" \| ", row.strip("| ")) for row in page.split("## Reference")[1].splitlines() if row.startswith("| `")]
    assert all(len(row) == 3 and row[2] for row in rows)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == sorted(source()["Parameters"])


def test_the_document_s_property_is_mapped_to_its_parameter():
    assert "IdempotencyExpiryDefaultSeconds" in source()["Parameters"]
    assert re.search(r"`IdempotencyExpiryDefaultSeconds`[^.]*`mqprobe\.idempotency\.record-ttl`", (ROOT / "docs/idempotency.md").read_text(), re.DOTALL)
