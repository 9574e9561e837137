"""An archive of the shape of IBM's redistributable client, without anything of IBM's.

The names are those that IBM's genmqpkg.sh (MQ 9.1) copies and removes, and that published builds take out of later archives.
"""

import io
import struct
import tarfile

# Offsets of a library of ours: header, two segments, its dynamic section, its strings.
SEGMENTS, DYNAMIC = 64, 64 + 2 * 56


def library(*needed, machine=62, size=0):
    """A shared library of 64 bits that needs these others and has no code."""
    strings, entries = b"\0", []
    for name in needed:
        entries.append((1, len(strings)))
        strings += name.encode() + b"\0"
    # Loaded at another address than its place in the file, as libraries are.
    base, at = 0x10000, DYNAMIC + 16 * (len(entries) + 2)
    entries += [(5, base + at), (0, 0)]
    total = max(at + len(strings), size)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, machine, 1, 0, SEGMENTS, 0, 0, 64, 56, 2, 0, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, total, total, 4096)
    length = 16 * len(entries)
    segments += struct.pack("<IIQQQQQQ", 2, 6, DYNAMIC, base + DYNAMIC, base + DYNAMIC, length, length, 8)
    content = header + segments + b"".join(struct.pack("<QQ", *entry) for entry in entries) + strings
    return content + bytes(total - len(content))


def client(gskit="gskit9"):
    """The files of an archive, most of which no layer needs."""
    number = gskit.removeprefix("gskit")
    return {
        "lib64/libmqm_r.so": library("libmqe_r.so", "libpthread.so.0", "libc.so.6"),
        "lib64/libmqe_r.so": library("libdl.so.2", "libc.so.6"),
        "lib64/libmqm.so": library("libmqe.so", "libc.so.6"),
        "lib64/libmqe.so": library("libc.so.6"),
        "lib64/libmqic_r.so": library("libmqe_r.so", "libc.so.6"),
        "lib64/libimqb23gl_r.so.4.1": library("libmqe_r.so", "libstdc++.so.6"),
        "lib64/libcurl.so": library(f"libgsk{number}ssl_64.so", "libc.so.6"),
        "lib/libmqm_r.so": b"of 32 bits",
        "lib/ccsid.tbl": b"tables",
        "lib/ccsid_part2.tbl": b"tables",
        "lib/ccdt_schema.json": b"{}",
        "lib/amqtrc.fmt": b"trace",
        f"{gskit}/lib/libgsk{number}ssl.so": b"of 32 bits",
        f"{gskit}/lib64/libgsk{number}ssl_64.so": library(f"libgsk{number}cms_64.so", "libstdc++.so.6"),
        f"{gskit}/lib64/libgsk{number}cms_64.so": library("libc.so.6"),
        f"{gskit}/lib64/N/icc/icclib/libicclib085.so": library("libc.so.6"),
        f"{gskit}/lib64/N/icc/icclib/ICCSIG.txt": b"signature",
        f"{gskit}/bin/gsk{number}capicmd_64": b"program",
        "bin/genmqpkg.sh": b"#!/bin/bash\n",
        "bin/runmqsc": b"program",
        "inc/cmqc.h": b"header",
        "java/lib/com.ibm.mq.allclient.jar": b"jar",
        "licenses/LI_en": b"licence",
        "licenses/notices.txt": b"notices",
        "msg/amq.cat": b"messages",
        "msg/en_US/amq.cat": b"messages",
        "msg/de_DE/amq.cat": b"Meldungen",
        "samp/bin/amqsputc": b"program",
        "swidtag/ibm.com_IBM_MQ_Client-10.0.0.swidtag": b"<swid/>",
    }


def taken(gskit="gskit9"):
    """Those of them that a layer has."""
    number = gskit.removeprefix("gskit")
    return {
        "lib64/libmqm_r.so",
        "lib64/libmqe_r.so",
        "lib64/libcurl.so",
        "lib/ccsid.tbl",
        "lib/ccsid_part2.tbl",
        "lib/ccdt_schema.json",
        f"{gskit}/lib64/libgsk{number}ssl_64.so",
        f"{gskit}/lib64/libgsk{number}cms_64.so",
        f"{gskit}/lib64/N/icc/icclib/libicclib085.so",
        f"{gskit}/lib64/N/icc/icclib/ICCSIG.txt",
        "licenses/LI_en",
        "licenses/notices.txt",
        "msg/amq.cat",
        "msg/en_US/amq.cat",
        "swidtag/ibm.com_IBM_MQ_Client-10.0.0.swidtag",
    }


def write(path, files, *members):
    """The archive with these files, and then with these further members."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            member.mode = 0o555
            archive.addfile(member, io.BytesIO(content))
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def member(name, kind=tarfile.REGTYPE, target="", size=0):
    result = tarfile.TarInfo(name)
    result.type, result.linkname, result.size = kind, target, size
    return result
