"""Makes the Lambda layer with IBM MQ's client from IBM's redistributable archive, which you provide.

The layer has the files below mqm/, so that Lambda shows them below /opt/mqm: IBM's own default, where the client looks for its parts.
Nothing of IBM's is in this repository or in a release of it. docs/ibm-mq-layer.md says why, and how to use this.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path

from archive import Refused, obtain, settings, unpack
from elf import NotALibrary, needed

LIBRARY = "lib64/libmqm_r.so"
# What IBM's own genmqpkg.sh leaves if only TLS is chosen, without programs and 32-bit libraries. Of
# the libraries in lib64 only those are kept that LIBRARY needs, and libcurl.
KEPT = (
    "lib/ccsid*.tbl",  # character sets
    "lib/ccdt_schema.json",  # tables of channels in JSON
    "lib64/libcurl.so*",  # tables of channels from an https address
    "gskit*/lib64/*",  # TLS: gskit8, or gskit9 in recent versions
    "licen*/*",
    "swidtag/*",  # by which IBM's tools recognise what is installed
)
# Messages in English. Those that have no language of their own are beside the languages.
MESSAGES = re.compile(r"msg/([^/]+|(en|C)([_.][^/]*)?/.*)")
# Without one of these, the layer would fail in production.
REQUIRED = {
    LIBRARY: "the client's library",
    "lib/ccsid*.tbl": "the table of character sets",
    "gskit*/lib64/libgsk*ssl_64.so*": "TLS (GSKit)",
    "gskit*/lib64/*libicclib*.so*": "cryptography (ICC)",
    "licen*/*": "the licence, which has to go with the files",
}
# How IBM's libraries are called. All others are the system's.
IBM = ("libmq", "libgsk", "libick", "libicc")
# Lambda's limit for a function with its layers, unpacked (GetAccountSettings: CodeSizeUnzipped).
LIMIT = 262_144_000
# More than twice what mq-access has.
FUNCTION = 40_000_000
# 1980 is the first year that zip knows.
EPOCH = (1980, 1, 1, 0, 0, 0)
# Files of yours, which the layer gets too.
OWN_FILES = Path(__file__).with_name("files")


def wanted(name):
    """Whether the file may be part of the layer. `select` decides about libraries in lib64."""
    return fnmatchcase(name, "lib64/*.so*") or kept(name)


def kept(name):
    return any(fnmatchcase(name, pattern) for pattern in KEPT) or MESSAGES.fullmatch(name) is not None


def select(folder, sizes):
    """The files of the layer, and the libraries that they need from the system."""
    for pattern, what in REQUIRED.items():
        if not any(fnmatchcase(name, pattern) for name in sizes):
            raise Refused(f"The archive has no {pattern}: {what}. Give <version>-IBM-MQC-Redist-LinuxX64.tar.gz, IBM's redistributable client.")
    places = {Path(name).name: name for name in sorted(sizes, reverse=True) if name.startswith(("lib64/", "gskit"))}
    chosen, system = follow(folder, places, [LIBRARY])
    missing = sorted(name for name in system if name.startswith(IBM))
    if missing:
        raise Refused(f"The archive lacks libraries of IBM's that {LIBRARY} needs: {', '.join(missing)}.")
    # What the client loads by itself, when it needs it.
    rest = {name for name in sizes if kept(name)}
    others, more = follow(folder, places, sorted(name for name in rest if re.search(r"\.so(\.\d+)*$", name)))
    return chosen | rest | others, system | {name for name in more if not name.startswith(IBM)}


def follow(folder, places, libraries):
    """These libraries with all that they need of the archive, and the names that it does not have."""
    found, absent, ahead = set(libraries), set(), list(libraries)
    while ahead:
        name = ahead.pop()
        try:
            names = needed((folder / name).read_bytes())
        except NotALibrary:
            raise Refused(f"{name} in the archive is no library for Linux on x86-64, which mq-access runs on.") from None
        for other in names:
            place = places.get(other)
            if place is None:
                absent.add(other)
            elif place not in found:
                found.add(place)
                ahead.append(place)
    return found, absent


def check_size(size):
    if size + FUNCTION > LIMIT:
        raise Refused(
            f"The layer would have {size / 1e6:.1f} MB unpacked. Together with mq-access (up to {FUNCTION / 1e6:.0f} MB) that is more than "
            f"the {LIMIT / 1e6:.1f} MB that Lambda allows a function with its layers."
        )


def report(sizes, system):
    folders = {}
    for name, size in sizes.items():
        folder = name.split("/")[0]
        folders[folder] = folders.get(folder, 0) + size
    for folder, size in sorted(folders.items()):
        print(f"  {folder:10} {size / 1e6:8.1f} MB")
    total = sum(sizes.values())
    print(f"The layer has {len(sizes)} files and {total / 1e6:.1f} MB unpacked; Lambda allows {LIMIT / 1e6:.1f} MB together with mq-access.")
    print(f"It needs these libraries from Amazon Linux 2023: {' '.join(sorted(system))}")


def make(settings, output):
    """Makes the layer in the folder `output`, which gets nothing if anything is wrong."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        archive, digest = obtain(settings, scratch)
        print(f"{archive.name}, SHA-256 {digest}")
        files = scratch / "files"
        sizes = unpack(archive, files, wanted)
        chosen, system = select(files, sizes)
        sizes = {name: sizes[name] for name in sorted(chosen)}
        own = {path.relative_to(OWN_FILES.parent).as_posix(): path for path in OWN_FILES.rglob("*") if path.is_file()}
        sizes.update((name, path.stat().st_size) for name, path in own.items())
        check_size(sum(sizes.values()))
        target = output / "mqm"
        if target.exists():
            raise Refused(f"{target.absolute()} exists already. Remove it, so that the layer has no files of another version.")
        for name in sizes:
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(own.get(name, files / name), place)
            place.chmod(0o755 if ".so" in place.name else 0o644)
        origin = {"archive": archive.name, "sha256": digest}
        (target / "integrahub-layer.json").write_text(json.dumps(origin) + "\n")
    report(sizes, system)


def pack(folder, file):
    """A zip whose bytes follow from the files alone."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), EPOCH)
            entry.external_attr = (0o100000 | path.stat().st_mode & 0o777) << 16
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


def main():
    parser = argparse.ArgumentParser(description="Makes the Lambda layer with IBM MQ's client.")
    parser.add_argument("--output", type=Path, help="folder that gets mqm/")
    parser.add_argument("--zip", type=Path, help="file that gets the layer, for `aws lambda publish-layer-version`")
    arguments = parser.parse_args()
    if not (arguments.output or arguments.zip):
        parser.error("give --output or --zip")
    try:
        given = settings(os.environ, Path(__file__).with_name("client.conf"))
        with tempfile.TemporaryDirectory() as scratch:
            output = arguments.output or Path(scratch)
            make(given, output)
            if arguments.zip:
                pack(output, arguments.zip)
                print(f"{arguments.zip}: {arguments.zip.stat().st_size / 1e6:.1f} MB")
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
