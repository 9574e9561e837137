"""`scripts/dependencies.sh` hands compiled dependencies from one clone of a machine to the next."""

import os
import subprocess

import pytest
from cloudformation import ROOT


@pytest.fixture
def dependencies(tmp_path):
    def run(command, target):
        places = {"INTEGRAHUB_CACHE": str(tmp_path / "cache"), "CARGO_TARGET_DIR": str(target)}
        return subprocess.run(
            [ROOT / "scripts/dependencies.sh", command],
            env={**os.environ, **places}, capture_output=True, text=True, check=False,
        )

    return run


def test_a_machine_that_has_compiled_nothing_compiles(dependencies, tmp_path):
    restored = dependencies("restore", tmp_path / "target")
    assert restored.returncode == 0, restored.stderr
    assert not (tmp_path / "target").exists()


def test_a_clone_begins_with_what_another_kept_also_of_an_earlier_lock(dependencies, tmp_path):
    compiled = tmp_path / "first/debug"
    for directory in (".fingerprint", "build", "deps"):
        (compiled / directory).mkdir(parents=True)
    (compiled / "deps/libserde.rlib").write_text("compiled")
    saved = dependencies("save", tmp_path / "first")
    assert saved.returncode == 0, saved.stderr
    [kept] = (tmp_path / "cache/dependencies").iterdir()
    # The hash of another lock file.
    kept.rename(kept.with_name(f"{kept.name.split('-')[0]}-another"))

    restored = dependencies("restore", tmp_path / "second")
    assert restored.returncode == 0, restored.stderr
    assert (tmp_path / "second/debug/deps/libserde.rlib").read_text() == "compiled"
