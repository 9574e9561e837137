"""`make preflight` names what a machine lacks for a deployment."""

import shutil
import subprocess

import pytest
from cloudformation import ROOT


def preflight(directory, sam="1.170.0", lambda_="1.9.2", zig=True):
    for name, line in [("sam", sam and f"SAM CLI, version {sam}"), ("cargo", lambda_ and f"cargo-lambda {lambda_} (0000000 2026-01-01Z)"), ("zig", zig and "0.17.0")]:
        if line:
            (directory / name).write_text(f"#!/bin/sh\necho '{line}'\n")
            (directory / name).chmod(0o755)
    (directory / "python3").write_text("#!/bin/sh\nexit 1\n")
    (directory / "python3").chmod(0o755)
    # Nothing that this machine happens to have.
    for tool in ("bash", "grep", "head", "sort", "sh", "env"):
        (directory / tool).symlink_to(shutil.which(tool))
    environment = {"PATH": str(directory)}
    return subprocess.run([ROOT / "scripts/preflight.sh"], env=environment, capture_output=True, text=True)


def test_a_machine_with_everything_passes(tmp_path):
    run = preflight(tmp_path)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("version", ["1.154.0", "1.99.9", "0.53.0"])
def test_a_sam_cli_that_asks_about_beta_features_is_too_old(tmp_path, version):
    run = preflight(tmp_path, sam=version)
    assert run.returncode == 1 and f"SAM CLI is {version}, and has to be 1.156.0 or later" in run.stdout


def test_what_is_missing_is_named(tmp_path):
    run = preflight(tmp_path, sam=None, zig=False)
    assert run.returncode == 1 and "SAM CLI is missing" in run.stdout and "zig is missing" in run.stdout
