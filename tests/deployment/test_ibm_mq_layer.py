"""The layer with IBM MQ's client, made from an archive of the shape of IBM's. IBM's own archive was never here."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import _socket
import pytest
import yaml
from cloudformation import ROOT, allowed, source
from ibm_archive import client, library, member, taken, write
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider
from scenarios import IBM_MQ
from standin import CREDENTIALS, SAM

LAYER = ROOT / "layers/ibm-mq-client"
# What every layer has of this repository.
OURS = {"files/mqclient.ini", "integrahub-layer.json"}
NAME = "10.0.0.0-IBM-MQC-Redist-LinuxX64.tar.gz"
sys.path.insert(0, str(LAYER))

import build as layer  # noqa: E402
from elf import NotALibrary, needed  # noqa: E402


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*arguments, **variables):
    """build.py, with these variables and no other."""
    return subprocess.run(
        [sys.executable, "-B", LAYER / "build.py", *arguments], env={"PATH": os.environ["PATH"], **variables}, capture_output=True, text=True, timeout=1200
    )


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def refused(tmp_path, archive, *sentences, **variables):
    """That nothing is made of this archive, and that the reason is said."""
    outcome = run("--output", tmp_path / "layer", IBM_MQ_ARCHIVE=str(archive), **variables)
    assert outcome.returncode == 1 and "Traceback" not in outcome.stderr, outcome.stderr
    for sentence in sentences:
        assert sentence in outcome.stderr
    assert not (tmp_path / "layer").exists()


HERE = pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the layer's libraries run on Linux on x86-64 only")


@pytest.fixture
def archive(tmp_path):
    return write(tmp_path / NAME, client())


@pytest.mark.parametrize("gskit", ["gskit8", "gskit9"])
def test_the_layer_has_what_a_client_needs_and_nothing_else(tmp_path, gskit):
    archive = write(tmp_path / NAME, client(gskit))
    outcome = run("--output", tmp_path / "layer", IBM_MQ_ARCHIVE=str(archive), IBM_MQ_SHA256=digest(archive))
    assert outcome.returncode == 0, outcome.stderr
    made = tmp_path / "layer/mqm"
    assert files(made) == taken(gskit) | OURS
    for name in taken(gskit):
        assert (made / name).read_bytes() == client(gskit)[name]
    assert json.loads((made / "integrahub-layer.json").read_text()) == {"archive": NAME, "sha256": digest(archive)}
    assert (made / "lib64/libmqm_r.so").stat().st_mode & 0o777 == 0o755
    assert (made / "lib/ccsid.tbl").stat().st_mode & 0o777 == 0o644


def test_the_size_and_what_the_system_has_to_have_are_printed(tmp_path, archive):
    outcome = run("--output", tmp_path / "layer", IBM_MQ_ARCHIVE=str(archive))
    total = sum(len(client()[name]) for name in taken()) + (LAYER / "files/mqclient.ini").stat().st_size
    assert f"{len(taken()) + 1} files and {total / 1e6:.1f} MB unpacked; Lambda allows 262.1 MB" in outcome.stdout
    assert f"SHA-256 {digest(archive)}" in outcome.stdout
    assert "Amazon Linux 2023: libc.so.6 libdl.so.2 libpthread.so.0 libstdc++.so.6\n" in outcome.stdout


def test_libraries_that_another_version_needs_come_along(tmp_path):
    archive = write(tmp_path / NAME, {**client(), "lib64/libmqe_r.so": library("libmqnew_r.so.1"), "lib64/libmqnew_r.so.1": library("libm.so.6")})
    assert run("--output", tmp_path / "layer", IBM_MQ_ARCHIVE=str(archive)).returncode == 0
    assert files(tmp_path / "layer/mqm") == taken() | OURS | {"lib64/libmqnew_r.so.1"}


def test_a_link_becomes_the_file_that_it_leads_to(tmp_path):
    content = client()
    real = content.pop("lib64/libmqm_r.so")
    links = [member("./lib64/libmqm_r.so", tarfile.SYMTYPE, "../lib64/libmqm_r.so.10"), member("lib/ccsid.new.tbl", tarfile.LNKTYPE, "lib/ccsid.tbl")]
    archive = write(tmp_path / NAME, {**content, "lib64/libmqm_r.so.10": real}, *links)
    assert run("--output", tmp_path / "layer", IBM_MQ_ARCHIVE=str(archive)).returncode == 0
    made = tmp_path / "layer/mqm"
    assert (made / "lib64/libmqm_r.so").read_bytes() == real and not (made / "lib64/libmqm_r.so").is_symlink()
    assert (made / "lib/ccsid.new.tbl").read_bytes() == b"tables"


def test_another_file_than_the_one_that_was_asked_for_is_refused(tmp_path, archive):
    refused(tmp_path, archive, digest(archive), "is another file, or was changed", IBM_MQ_SHA256="0" * 64)


@pytest.mark.parametrize(
    "missing, sentence",
    [
        ("lib64/libmqm_r.so", "lib64/libmqm_r.so: the client's library"),
        ("lib64/libmqe_r.so", "needs: libmqe_r.so"),
        ("gskit9/lib64/libgsk9ssl_64.so", "TLS"),
        ("gskit9/lib64/N/icc/icclib/libicclib085.so", "cryptography"),
        ("licenses/", "the licence"),
        ("lib/ccsid", "character sets"),
    ],
)
def test_an_archive_without_a_needed_file_is_refused(tmp_path, missing, sentence):
    content = {name: value for name, value in client().items() if not name.startswith(missing)}
    refused(tmp_path, write(tmp_path / NAME, content), sentence)


def test_a_library_for_another_processor_is_refused(tmp_path):
    refused(tmp_path, write(tmp_path / NAME, {**client(), "lib64/libmqe_r.so": library(machine=183)}), "lib64/libmqe_r.so", "x86-64")


def test_a_layer_that_lambda_would_not_take_is_refused(tmp_path):
    large = {**client(), "gskit9/lib64/libgsk9cms_64.so": library("libc.so.6", size=layer.LIMIT - layer.FUNCTION)}
    refused(tmp_path, write(tmp_path / NAME, large), "more than the 262.1 MB that Lambda allows")


def test_the_limit_leaves_room_for_the_function():
    layer.check_size(layer.LIMIT - layer.FUNCTION)
    with pytest.raises(layer.Refused):
        layer.check_size(layer.LIMIT - layer.FUNCTION + 1)


@pytest.mark.parametrize("name", ["../outside", "lib64/../../outside", "/tmp/outside", "lib64/../../../etc/passwd"])
def test_a_name_that_leads_out_of_the_archive_is_refused(tmp_path, name):
    refused(tmp_path, write(tmp_path / NAME, client(), member(name)), "leads out of it")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", "lib/none", "lib/ccsid.evil.tbl"])
def test_a_wanted_link_that_leads_to_no_file_of_the_archive_is_refused(tmp_path, kind, target):
    refused(tmp_path, write(tmp_path / NAME, client(), member("lib/ccsid.evil.tbl", kind, target)), "leads to no file in it")


def test_a_link_that_no_layer_needs_is_left_alone(tmp_path):
    archive = write(tmp_path / NAME, client(), member("samp/link", tarfile.SYMTYPE, "/opt/mqm/samp"))
    assert run("--output", tmp_path / "layer", IBM_MQ_ARCHIVE=str(archive)).returncode == 0
    assert files(tmp_path / "layer/mqm") == taken() | OURS


def test_devices_bombs_and_cut_archives_are_refused(tmp_path, archive, monkeypatch):
    refused(tmp_path, write(tmp_path / "device.tar.gz", client(), member("lib64/pipe", tarfile.FIFOTYPE)), "neither a file nor a folder nor a link")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive.read_bytes()[:-200])
    refused(tmp_path, cut, "not a whole tar.gz archive")
    text = tmp_path / "page.tar.gz"
    text.write_text("<html>404</html>")
    refused(tmp_path, text, "not a whole tar.gz archive")
    refused(tmp_path, tmp_path / "none.tar.gz", "There is no file", "absolute path")
    # A size in a header is believed before a byte of the content is read.
    bomb = member("licenses/bomb", size=layer.unpack.__globals__["MOST_BYTES"] + 1)
    headers = tmp_path / "bomb.tar.gz"
    with tarfile.open(headers, "w:gz") as written:
        written.fileobj.write(bomb.tobuf())
    refused(tmp_path, headers, "no archive of IBM's client")


def test_files_of_another_version_are_never_mixed_in(tmp_path, archive):
    assert run("--output", tmp_path / "layer", IBM_MQ_ARCHIVE=str(archive)).returncode == 0
    outcome = run("--output", tmp_path / "layer", IBM_MQ_ARCHIVE=str(archive))
    assert outcome.returncode == 1 and "exists already" in outcome.stderr


def test_a_version_is_downloaded_and_needs_its_hash(tmp_path, archive):
    mirror = archive.parent.as_uri()
    named = {"IBM_MQ_VERSION": "10.0.0.0", "IBM_MQ_MIRROR": mirror}
    outcome = run("--output", tmp_path / "layer", **named)
    assert outcome.returncode == 1 and "needs IBM_MQ_SHA256" in outcome.stderr
    outcome = run("--output", tmp_path / "layer", **{**named, "IBM_MQ_VERSION": "9.9.9.9"}, IBM_MQ_SHA256=digest(archive))
    assert outcome.returncode == 1 and "cannot be downloaded" in outcome.stderr and "Traceback" not in outcome.stderr
    outcome = run("--output", tmp_path / "layer", **named, IBM_MQ_SHA256=digest(archive).upper())
    assert outcome.returncode == 0, outcome.stderr
    assert f"Downloading {mirror}/{NAME}" in outcome.stdout


def test_without_an_archive_it_says_what_to_give_and_what_works_without():
    outcome = run("--zip", "/none/layer.zip")
    assert outcome.returncode == 1
    assert "IBM_MQ_ARCHIVE" in outcome.stderr and "client.conf" in outcome.stderr and "only RabbitMQ works" in outcome.stderr


def test_the_configuration_file_names_ibm_s_server_and_no_archive():
    given = layer.settings({}, LAYER / "client.conf")
    assert given.mirror.startswith("https://public.dhe.ibm.com/")
    # Nobody verified a hash here, so none is given.
    assert (given.archive, given.version, given.sha256) == ("", "", "")
    other = layer.settings({"IBM_MQ_VERSION": " 9.4.0.5 ", "IBM_MQ_MIRROR": "https://mirror.example/mq/"}, LAYER / "client.conf")
    assert (other.version, other.mirror) == ("9.4.0.5", "https://mirror.example/mq")


def test_the_same_archive_gives_the_same_zip(tmp_path, archive):
    zips = [tmp_path / "one.zip", tmp_path / "other.zip"]
    for path in zips:
        assert run("--zip", path, IBM_MQ_ARCHIVE=str(archive)).returncode == 0
    assert zips[0].read_bytes() == zips[1].read_bytes()
    with zipfile.ZipFile(zips[0]) as made:
        assert set(made.namelist()) == {f"mqm/{name}" for name in taken() | OURS}
        assert made.getinfo("mqm/lib64/libmqm_r.so").external_attr >> 16 == 0o100755


def test_a_library_s_needs_are_read_as_its_linker_wrote_them():
    assert needed(library("libmqe_r.so", "libc.so.6")) == ["libmqe_r.so", "libc.so.6"]
    assert needed(library()) == []
    for content in [b"", b"#!/bin/sh\n", library("a")[:150], library("a", machine=183), library("a").replace(b"a\0", b"ab")]:
        with pytest.raises(NotALibrary):
            needed(content)


@HERE
def test_the_needs_of_a_real_library_are_those_that_the_loader_names():
    path = _socket.__file__
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    names = needed(Path(path).read_bytes())
    assert names and all(name in listed for name in names)


@HERE
def test_the_layer_s_libraries_find_each_other_where_mq_access_is_told_to_look(tmp_path):
    compiled = {}
    for name, code, options in [
        ("libmqe_r.so", "int answer(void) { return 42; }", []),
        ("libmqm_r.so", "int answer(void); int MQCONN(void) { return answer(); }", ["-L.", "-l:libmqe_r.so"]),
    ]:
        (tmp_path / "code.c").write_text(code)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", name, "code.c", *options], cwd=tmp_path, check=True)
        compiled[f"lib64/{name}"] = (tmp_path / name).read_bytes()
    assert "libmqe_r.so" in needed(compiled["lib64/libmqm_r.so"])
    archive = write(tmp_path / NAME, {**client(), **compiled})
    assert run("--output", tmp_path / "opt", IBM_MQ_ARCHIVE=str(archive)).returncode == 0
    (_, where, _) = source()["Resources"]["MqAccessFunction"]["Properties"]["Environment"]["Variables"]["LD_LIBRARY_PATH"]["Fn::If"]
    path = where.replace("/opt/", f"{tmp_path}/opt/")
    program = f"import ctypes; print(ctypes.CDLL('{tmp_path}/opt/mqm/lib64/libmqm_r.so').MQCONN())"
    loaded = subprocess.run([sys.executable, "-c", program], env={"LD_LIBRARY_PATH": path}, capture_output=True, text=True)
    assert loaded.stdout == "42\n", loaded.stderr
    alone = subprocess.run([sys.executable, "-c", program], env={}, capture_output=True, text=True)
    assert "libmqe_r.so: cannot open shared object file" in alone.stderr


def sam(folder, *arguments, **variables):
    environment = {
        **CREDENTIALS,
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "SAM_CLI_TELEMETRY": "0",
        "SAM_CLI_POLL_DELAY": "1",
        "PYTHONWARNINGS": "ignore",
        **variables,
    }
    return subprocess.run([SAM, *arguments], cwd=folder, env=environment, input="", capture_output=True, text=True, timeout=1200)


def test_sam_builds_and_deploys_the_layer_and_each_build_is_a_version_of_it(tmp_path, standin):
    folder = tmp_path / "ibm-mq-client"
    shutil.copytree(LAYER, folder, ignore=shutil.ignore_patterns(".aws-sam", "__pycache__"))
    (folder / "files/ccdt.json").write_text('{"channel": []}')
    without = sam(folder, "build")
    assert without.returncode != 0 and "only RabbitMQ works" in without.stdout + without.stderr
    arns = []
    for content in (client("gskit8"), client("gskit9")):
        archive = write(folder / NAME, content)
        # Relative to the folder.
        built = sam(folder, "build", IBM_MQ_ARCHIVE=NAME, IBM_MQ_SHA256=digest(archive))
        assert built.returncode == 0, built.stdout + built.stderr
        assert "MB unpacked" in built.stdout + built.stderr
        assert {"lib64/libmqm_r.so", "files/ccdt.json"} <= files(folder / ".aws-sam/build/IbmMqClientLayer/mqm")
        deployed = sam(folder, "deploy", "--no-confirm-changeset", "--no-progressbar", AWS_ENDPOINT_URL=standin.endpoint)
        assert deployed.returncode == 0, deployed.stdout + deployed.stderr
        [stack] = standin.client("cloudformation").describe_stacks(StackName="integrahub-ibm-mq-client")["Stacks"]
        arns.append({output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}["IbmMqLayerArn"])
    assert [arn.rsplit(":", 2)[1:] for arn in arns] == [["integrahub-ibm-mq-client", "1"], ["integrahub-ibm-mq-client", "2"]]
    # The version before is kept, for a deployment that is rolled back.
    first = standin.client("lambda").get_layer_version_by_arn(Arn=arns[0])
    assert first["CompatibleArchitectures"] == ["x86_64"] and first["CompatibleRuntimes"] == ["provided.al2023"]
    assert all(allowed("IbmMqLayerArn", arn) for arn in arns)


@pytest.mark.parametrize("parameters", [{}, IBM_MQ])
def test_sam_build_makes_every_function_with_and_without_the_layer(tmp_path, parameters):
    # As JSON, which SAM CLI reads faster.
    template = tmp_path / "template.yaml"
    template.write_text(json.dumps(source()))
    stacks, _ = SamLocalStackProvider.get_stacks(str(template), parameter_overrides=parameters)
    functions = {function.name: function for function in SamFunctionProvider(stacks, use_raw_codeuri=True).get_all()}
    every = {name for name, resource in source()["Resources"].items() if resource["Type"] == "AWS::Serverless::Function"}
    assert set(functions) == every
    # It does not evaluate the condition, and has to take no part of it for a layer's name.
    assert functions["MqAccessFunction"].layers == []


def test_a_release_has_the_recipe_and_nothing_that_git_does_not_have():
    script = (ROOT / "scripts/release.sh").read_text()
    assert "git ls-files -z layers" in script
    tracked = subprocess.run(["git", "ls-files", "layers"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert {Path(name).name for name in tracked} == {"Makefile", "archive.py", "build.py", "client.conf", "elf.py", "mqclient.ini", "samconfig.toml", "template.yaml"}
    ignored = subprocess.run(["git", "check-ignore", f"layers/ibm-mq-client/{NAME}", f"downloads/{NAME}"], cwd=ROOT, capture_output=True, text=True)
    assert len(ignored.stdout.splitlines()) == 2


def test_the_layer_s_template_gives_it_the_name_that_its_target_has():
    template = yaml.load((LAYER / "template.yaml").read_text(), type("Loader", (yaml.SafeLoader,), {"yaml_multi_constructors": {"!": lambda *_: None}}))
    [(name, resource)] = template["Resources"].items()
    assert f"\nbuild-{name}:\n" in (LAYER / "Makefile").read_text()
    assert resource["Metadata"]["BuildMethod"] == "makefile"
    assert resource["Properties"]["RetentionPolicy"] == "Retain"
