"""template.yaml is what its parts in deploy/template make of it, and the parts say each thing once."""

import re
import subprocess
import sys

from cloudformation import ROOT, source

PARTS = sorted((ROOT / "deploy/template").glob("*.yaml"))


def test_the_template_is_what_its_parts_make():
    run = subprocess.run([sys.executable, ROOT / "deploy/template.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_parts_have_at_most_3600_lines():
    assert sum(len(part.read_text().splitlines()) for part in PARTS) <= 3600


def test_each_group_of_parameters_says_who_turns_them():
    said = set()
    for part in PARTS:
        _, _, parameters = part.read_text().partition("\nParameters:\n")
        section = re.split(r"^\w", parameters, maxsplit=1, flags=re.MULTILINE)[0]
        said |= {label.strip('"') for label in re.findall(r"^  (\S.*):\n    # ", section, re.MULTILINE)}
    assert said == {group["Label"]["default"] for group in source()["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]}
