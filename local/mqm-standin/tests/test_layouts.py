"""The bindings that the stand-in is built with, against what IBM's Python package says of the MQI: no
size, offset or constant is copied by hand."""

import ctypes
import json
import pathlib
import platform
import re
import struct
import subprocess

import ibmmq
import pytest
from conftest import HERE
from ibmmq import CMQC, CMQXC

STRUCTURES = {
    "MQMD": ibmmq.MD, "MQGMO": ibmmq.GMO, "MQPMO": ibmmq.PMO, "MQOD": ibmmq.OD, "MQCNO": ibmmq.CNO,
    "MQCSP": ibmmq.CSP, "MQSCO": ibmmq.SCO, "MQCD": ibmmq.CD, "MQIMPO": ibmmq.IMPO,
    "MQSMPO": ibmmq.SMPO, "MQPD": ibmmq.PD, "MQCMHO": ibmmq.CMHO, "MQDMHO": ibmmq.DMHO,
}

# The members with which the second and later versions of structures begin.
VERSIONS = {
    "MQMD": ["GroupId"],
    "MQGMO": ["MatchOptions", "MsgToken", "Reserved2"],
    "MQPMO": ["RecsPresent", "OriginalMsgHandle"],
    "MQOD": ["RecsPresent", "AlternateSecurityId", "ObjectString"],
    "MQCNO": ["ClientConnOffset", "ConnTag", "SSLConfigPtr", "ConnectionId", "CCDTUrlPtr", "ApplName",
              "BalanceParmsPtr"],
    "MQCSP": ["Reserved3", "Reserved4"],
    "MQSCO": ["KeyResetCount", "EncryptionPolicySuiteB", "CertificateValPolicy", "CertificateLabel",
              "KeyRepoPasswordPtr", "HTTPSCertValidation"],
}


def bindings():
    """The sources of libmqm-sys that cargo builds."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    # What other platforms need was never downloaded.
    command += ["--filter-platform", f"{platform.machine()}-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=HERE, capture_output=True, check=True).stdout)
    package = next(package for package in metadata["packages"] if package["name"] == "libmqm-sys")
    folder = pathlib.Path(package["manifest_path"]).parent / "src/pregen/x86_64-linux"
    return "".join((folder / name).read_text() for name in ("mqi.rs", "exits.rs"))


@pytest.fixture(scope="module")
def source():
    return re.sub(r"^\s*(///|#\[).*$", "", bindings(), flags=re.M)


def test_constants_have_ibms_values(source):
    names = re.findall(r"pub const (MQ\w+): (?:crate::)?(?:MQLONG|MQHCONN|MQHOBJ|MQHMSG|usize) = (-?\d+);", source)
    compared = 0
    for name, value in names:
        for module in (CMQC, CMQXC):
            theirs = getattr(module, name, None)
            # The newest version of the package and of the bindings need not be the same.
            if isinstance(theirs, int) and not re.search("CURRENT|_LAST|VERSION_?[0-9]*$|COMPILED", name):
                # IBM's package has masks without a sign.
                assert (int(value) - theirs) % 2**32 == 0, name
                compared += 1
                break
    assert compared > 2000


def test_every_constant_that_the_stand_in_uses_is_ibms():
    sources = list((HERE.parent / "src").rglob("*.rs")) + list((HERE.parent / "library/src").rglob("*.rs"))
    used = {name for path in sources for name in re.findall(r"mq::(MQ[A-Z]*_\w+)", path.read_text())}
    lengths = {name for name in used if "_LENGTH" in name}
    unknown = {name for name in used - lengths
               if not any(hasattr(module, name) for module in (CMQC, CMQXC))}
    assert len(used) > 200
    assert not unknown, unknown


def c_types(source):
    """The types of the bindings as ctypes."""
    known = {"::std::os::raw::c_int": ctypes.c_int, "::std::os::raw::c_uchar": ctypes.c_ubyte,
             "::std::os::raw::c_char": ctypes.c_char, "::std::os::raw::c_long": ctypes.c_long,
             "::std::os::raw::c_uint": ctypes.c_uint, "::std::os::raw::c_ulong": ctypes.c_ulong}
    aliases = dict(re.findall(r"pub type (\w+) =\s+(.+?);$", source, flags=re.M))
    bodies = dict(re.findall(r"pub struct (\w+) \{(.*?)\n\}", source, flags=re.S))

    def resolve(text):
        text = text.strip().removeprefix("crate::")
        if text.startswith("*"):
            return ctypes.c_void_p
        if array := re.fullmatch(r"\[([^;]+); (\d+)usize\]", text, flags=re.S):
            return resolve(array[1]) * int(array[2])
        if text not in known:
            if text in bodies:
                fields = re.findall(r"pub (\w+): ([^,]+),", bodies[text])
                known[text] = type(text, (ctypes.Structure,), {"_fields_": [(n, resolve(t)) for n, t in fields]})
            else:
                known[text] = resolve(aliases[text])
        return known[text]

    return {name: resolve(name) for name in STRUCTURES}


def offsets(structure):
    """Names and offsets, those of strings of variable length by their members."""
    for name, kind in structure._fields_:
        offset = getattr(structure, name).offset
        if kind.__name__ == "MQCHARV":
            for inner, _ in kind._fields_:
                yield name + inner, offset + getattr(kind, inner).offset
        else:
            yield name, offset


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_have_ibms_layout(source, name):
    ours, instance = c_types(source)[name], STRUCTURES[name]()
    members = instance._MQOpts__list
    assert ctypes.sizeof(ours) >= struct.calcsize(instance._MQOpts__format)
    if name != "MQCD":
        # IBM's package leaves out what it does not pass on at the end.
        assert ctypes.sizeof(ours) - struct.calcsize(instance._MQOpts__format) < 8
    known, compared, layout = dict(offsets(ours)), 0, ""
    for member in members:
        kind, count = member[2], (member[3] if len(member) > 3 else 1)
        # Where Python puts a member: behind the ones before it, aligned.
        start = struct.calcsize(layout + "0" + kind[-1]) if kind[-1] != "s" else struct.calcsize(layout)
        layout += kind * count
        plain = member[0].lstrip("_")
        for spelling in (plain, plain + "Ptr"):
            # The package puts padding before these two that IBM's C header, and so the bindings,
            # have not.
            if spelling in known and not spelling.startswith("QuantumSafe"):
                assert known[spelling] == start, f"{name}.{spelling}"
                compared += 1
                break
    assert compared >= len(known) * 0.7, f"{compared} of {len(known)}"


@pytest.mark.parametrize("name", VERSIONS)
def test_a_version_ends_where_the_next_one_begins(source, name):
    structure = c_types(source)[name]
    for version, member in enumerate(VERSIONS[name], start=1):
        ours, theirs = getattr(structure, member).offset, getattr(CMQC, f"{name}_LENGTH_{version}")
        # A version may end with padding.
        assert 0 <= theirs - ours < 8, f"{name} version {version}"


# The stand-in does not read the settings of TLS.
@pytest.mark.parametrize("name", sorted(VERSIONS.keys() - {"MQSCO"}))
def test_the_library_reads_the_versions_of_a_structure(name):
    listed = (HERE.parent / "library/src/structures.rs").read_text()
    entry = re.search(rf"{name}, {name}_STRUC_ID, \w+: \[(.*?)\];", listed, flags=re.S)
    assert re.findall(r"\w+", entry[1]) == VERSIONS[name]
