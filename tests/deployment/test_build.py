"""`sam build` makes each function for the architecture that the template says, from any host."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from aws_lambda_builders.architecture import ARM64, X86_64
from aws_lambda_builders.workflows.rust_cargo.actions import RustCargoLambdaBuildAction
from cloudformation import ROOT, source

# Metadata are read once for all of the tests, which takes cargo a second.
CARGO = """#!/bin/sh
if [ "$1" = metadata ]; then
  kept="{kept}/$(echo "$*" | cksum)"
  [ -e "$kept" ] || "{cargo}" "$@" >"$kept" || exit
  exec cat "$kept"
fi
echo "$*" >>"{log}"
exit 1
"""
# A compiler that runs on ARM Linux, such as Graviton or a container on a Mac.
RUSTC = """#!/bin/sh
cat <<'END'
rustc 1.95.0 (000000000 2026-01-01)
binary: rustc
commit-hash: 0000000000000000000000000000000000000000
commit-date: 2026-01-01
host: {host}
release: 1.95.0
LLVM version: 21.0.0
END
"""


def command(architecture, binary):
    """What SAM CLI's builder runs."""
    action = RustCargoLambdaBuildAction(
        source_dir=str(ROOT),
        binaries={"cargo": Mock(binary_path="cargo")},
        mode=None,
        subprocess_cargo_lambda=Mock(),
        runtime="provided.al2023",
        architecture=architecture,
        handler=binary,
    )
    return action.build_command()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("metadata")


@pytest.mark.parametrize("host", ["aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu", "aarch64-apple-darwin"])
@pytest.mark.parametrize("architecture, target", [(X86_64, "x86_64-unknown-linux-gnu"), (ARM64, "aarch64-unknown-linux-gnu")])
def test_cargo_lambda_builds_for_the_function_s_architecture(tmp_path, kept, host, architecture, target):
    cargo = shutil.which("cargo")
    if subprocess.run(["rustup", "--version"], capture_output=True).returncode == 0:
        cargo = subprocess.run(["rustup", "which", "cargo"], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    log = tmp_path / "cargo.log"
    for name, script in [("cargo", CARGO.format(cargo=cargo, log=log, kept=kept)), ("rustc", RUSTC.format(host=host))]:
        program = tmp_path / name
        program.write_text(script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CARGO": str(tmp_path / "cargo"),
        "RUSTC": str(tmp_path / "rustc"),
        # Not zig, which is not installed here. What is asked is the target, which both get.
        "CARGO_LAMBDA_COMPILER": "cargo",
    }
    # As cargo would: its subcommand is a program of its own.
    arguments = command(architecture, "mq-access")[1:]
    run = subprocess.run([str(Path(sys.executable).parent / "cargo-lambda"), *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200)
    assert log.exists(), run.stderr
    assert f"--target {target} " in log.read_text() and "--bin mq-access" in log.read_text()


def test_every_function_names_the_binary_that_is_built_for_it():
    for name, function in source()["Resources"].items():
        if function["Type"] == "AWS::Serverless::Function":
            binary = function["Metadata"]["BuildProperties"]["Binary"]
            assert list((ROOT / "functions").glob(f"**/{binary}/Cargo.toml")), name
            assert function["Metadata"]["BuildMethod"] == "rust-cargolambda", name
