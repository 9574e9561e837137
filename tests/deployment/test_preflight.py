"""`make preflight` names what a machine lacks for a deployment."""

import re
import shutil
import subprocess

import pytest
from cloudformation import ROOT

RUST = re.search(r'channel = "(.*)"', (ROOT / "rust-toolchain.toml").read_text()).group(1)
# What each program answers. An answer of None is no program.
EVERYTHING = {
    "sam": "echo SAM CLI, version 1.170.0",
    "cargo": f'[ "$1" = lambda ] && echo cargo-lambda 1.9.2 || echo cargo {RUST} "(f2d3ce0bd 2026-03-21)"',
    "zig": "echo 0.17.0",
    "cc": "echo cc 12.2.0",
    "aws": '[ "$1" = sts ] && echo 111122223333 || echo aws-cli/2.31.0',
    "python3": "exit 1",
}


def preflight(directory, environment=None, **changed):
    for name, answer in {**EVERYTHING, **changed}.items():
        if answer:
            (directory / name).write_text(f"#!/bin/sh\n{answer}\n")
            (directory / name).chmod(0o755)
    # Nothing that this machine happens to have.
    for tool in ("bash", "dirname", "grep", "head", "sort", "sh", "env"):
        (directory / tool).symlink_to(shutil.which(tool))
    environment = {"PATH": str(directory), "AWS_REGION": "sa-east-1"} if environment is None else {"PATH": str(directory), **environment}
    return subprocess.run([ROOT / "scripts/preflight.sh"], env=environment, capture_output=True, text=True)


def test_a_machine_with_everything_passes(tmp_path):
    run = preflight(tmp_path)
    assert run.returncode == 0, run.stdout
    assert "AWS account 111122223333" in run.stdout and f"Rust {RUST}" in run.stdout


@pytest.mark.parametrize("version", ["1.154.0", "1.99.9", "0.53.0"])
def test_a_sam_cli_that_asks_about_beta_features_is_too_old(tmp_path, version):
    run = preflight(tmp_path, sam=f"echo SAM CLI, version {version}")
    assert run.returncode == 1 and f"SAM CLI is {version}, and has to be 1.156.0 or later" in run.stdout


def test_a_compiler_that_ignores_the_toolchain_s_version_is_too_old(tmp_path):
    run = preflight(tmp_path, cargo='[ "$1" = lambda ] && echo cargo-lambda 1.9.2 || echo cargo 1.63.0')
    assert run.returncode == 1 and f"Rust is 1.63.0, and has to be {RUST} or later" in run.stdout


@pytest.mark.parametrize("name, tool", [("SAM CLI", "sam"), ("Rust", "cargo"), ("cargo-lambda", "cargo"), ("zig", "zig"), ("C compiler", "cc"), ("AWS CLI", "aws")])
def test_what_is_missing_is_named(tmp_path, name, tool):
    run = preflight(tmp_path, **{tool: None})
    assert run.returncode == 1 and f"{name} is missing" in run.stdout


def test_a_zig_of_pip_is_enough(tmp_path):
    run = preflight(tmp_path, zig=None, python3='[ "$1 $2" = "-m ziglang" ]')
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize(
    "environment, aws, complaint",
    [
        ({}, "exit 1", "No region is chosen"),
        ({"AWS_DEFAULT_REGION": "sa-east-1"}, '[ "$1" = sts ] && exit 255 || echo aws-cli/2.31.0', "AWS does not accept the credentials"),
        ({}, '[ "$1" = sts ] && exit 255 || echo aws-cli/2.31.0', "AWS does not accept the credentials"),
    ],
)
def test_credentials_and_a_region_are_needed(tmp_path, environment, aws, complaint):
    run = preflight(tmp_path, environment=environment, aws=aws)
    assert run.returncode == 1 and complaint in run.stdout
